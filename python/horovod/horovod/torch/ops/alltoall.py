# SPDX-License-Identifier: Apache-2.0
"""All-to-all: each rank divides its rows among the ranks."""
from __future__ import annotations

import operator
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from ...common.channel import Pending
from ...common.process_sets import ProcessSet, global_process_set
from .allgather import gathered
from .handles import handle_of
from .tensors import has_rows, moved

Splits = Union[None, Sequence[int], torch.Tensor]
_WHOLE = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def _rows_for(splits: Splits, rows: int, size: int) -> Optional[List[int]]:
    """`splits` as numbers, which add up to `rows` at most."""
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dtype not in _WHOLE or splits.dim() != 1:
            raise ValueError(f"alltoall() takes splits as 32-bit integers, not as a tensor of type {splits.dtype} and shape "
                             f"{tuple(splits.shape)}: pass torch.tensor([...], dtype=torch.int32)")
        splits = splits.tolist()
    try:
        numbers = [operator.index(number) for number in splits]
    except TypeError:
        numbers = []
    if len(numbers) != size or min(numbers) < 0:
        raise ValueError(f"alltoall() takes splits with a number of rows for each of the {size} ranks, not {splits}")
    if sum(numbers) > rows:
        raise ValueError(f"the splits {numbers} add up to {sum(numbers)} rows, but the tensor has {rows}")
    return numbers


def _submit(tensor: torch.Tensor, splits: Splits, name: Optional[str], process_set: ProcessSet, waits: bool) -> Pending:
    """Its result: the tensor, and the tensor of the rows from each rank."""
    has_rows(tensor, "an all-to-all")
    source = moved(tensor, "an all-to-all")
    channel = process_set._channel or process_set._open()
    rows = _rows_for(splits, len(source), channel.size)
    if rows is not None:
        source = source[:sum(rows)]  # the rest is not sent
    pending = channel.submit("alltoall", "alltoall", name, ((source, None),), splits=rows, waits=waits)
    kind = splits.dtype if isinstance(splits, torch.Tensor) else torch.int32
    pending.finish = lambda operation: (gathered(operation, 0, tensor), torch.tensor(operation.rows[0], dtype=kind))
    return pending


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Splits, name: Optional[str],
                process_set: ProcessSet) -> Tuple[torch.Tensor, torch.Tensor]:
        result, received = _submit(tensor, splits, name, process_set, True).wait()
        ctx.received, ctx.rows, ctx.process_set = received, len(tensor), process_set
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Tuple[Optional[torch.Tensor], ...]:
        returned = alltoall(gradient, ctx.received, process_set=ctx.process_set)[0]
        if len(returned) < ctx.rows:  # rows that were not sent
            returned = torch.cat([returned, returned.new_zeros((ctx.rows - len(returned), *returned.shape[1:]))])
        return returned, None, None, None


def alltoall(tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Send `splits[r]` rows to rank r (None: equal parts), in rank order; returns the rows from all ranks. Gradients flow through it.

    With `splits`, a list or a tensor of 32-bit integers, it returns also a tensor with the number of rows that came from each rank.
    """
    if torch.is_grad_enabled() and getattr(tensor, "requires_grad", False):
        result, received = _Alltoall.apply(tensor, splits, name, process_set)
    else:
        result, received = _submit(tensor, splits, name, process_set, True).wait()
    return result if splits is None else (result, received)


def alltoall_async(tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> int:
    """Start alltoall(), without gradients. Returns a handle; synchronize() returns the rows, and how many came from each rank."""
    return handle_of(_submit(tensor, splits, name, process_set, False))
