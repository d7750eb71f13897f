# SPDX-License-Identifier: Apache-2.0
"""All-gather: every rank gets the rows of all ranks, in rank order."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from ...common.channel import Pending
from ...common.process_sets import ProcessSet, global_process_set
from .allreduce import allreduce, grouped_allreduce
from .handles import handle_of
from .tensors import as_bytes, has_rows, listed, moved, new


def gathered(operation: Any, index: int, like: torch.Tensor) -> torch.Tensor:
    """The result of an all-gather or all-to-all of a tensor `like`."""
    result = new(like, (sum(operation.rows[index]), *like.shape[1:]))
    operation.copy_result(index, as_bytes(result))
    return result


def _submit(label: str, tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet, waits: bool,
            finish: Callable[[Any], Any]) -> Pending:
    for tensor in tensors:
        has_rows(tensor, "an all-gather")
    channel = process_set._channel or process_set._open()
    pending = channel.submit(label, "allgather", name, tuple([(moved(tensor, "an all-gather"), None) for tensor in tensors]), waits=waits)
    pending.finish = finish
    return pending


def _one(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet, waits: bool) -> Pending:
    return _submit("allgather", (tensor,), name, process_set, waits, lambda operation: gathered(operation, 0, tensor))


def _group(tensors: Sequence[torch.Tensor], name: Optional[str], process_set: ProcessSet, waits: bool) -> Pending:
    return _submit("grouped_allgather", tensors, name, process_set, waits,
                   lambda operation: [gathered(operation, i, tensor) for i, tensor in enumerate(tensors)])


def _own_rows(gradient: torch.Tensor, rows: Sequence[int], rank: int) -> torch.Tensor:
    """This rank's part of a gathered tensor."""
    return gradient.narrow(0, sum(rows[:rank]), rows[rank])


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        pending = _one(tensor, name, process_set, True)
        result = pending.wait()
        ctx.rows, ctx.process_set = pending.operation.rows[0], process_set
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        reduced = allreduce(gradient, process_set=ctx.process_set)
        return _own_rows(reduced, ctx.rows, ctx.process_set.rank()), None, None


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        pending = _group(tensors, name, process_set, True)
        results = pending.wait()
        ctx.rows, ctx.process_set = pending.operation.rows, process_set
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        reduced = grouped_allreduce(gradients, process_set=ctx.process_set)
        return (None, None, *[_own_rows(gradient, rows, ctx.process_set.rank()) for gradient, rows in zip(reduced, ctx.rows)])


def allgather(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensors of all ranks, one after the other along the first dimension, in which they may differ. Gradients flow through it.

    The gradient of a rank's rows is the average over the ranks of the gradients for these rows, as with Horovod.
    """
    if not (torch.is_grad_enabled() and getattr(tensor, "requires_grad", False)):
        return _one(tensor, name, process_set, True).wait()
    return _Allgather.apply(tensor, name, process_set)


def allgather_with_rows(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> Tuple[torch.Tensor, Sequence[int]]:
    """allgather(), without gradients, and the number of rows that came from each rank."""
    pending = _one(tensor, name, process_set, True)
    return pending.wait(), pending.operation.rows[0]


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    """Start allgather(), without gradients. Returns a handle for poll() and synchronize(); until then the tensor must not change."""
    return handle_of(_one(tensor, name, process_set, False))


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """allgather() of a list of tensors as one operation, which starts when all ranks have all of them; returns the list of results."""
    return list(_GroupedAllgather.apply(name, process_set, *listed(tensors, "grouped_allgather()")))


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> int:
    """Start grouped_allgather(), without gradients. Returns one handle; synchronize() returns the list of results."""
    return handle_of(_group(listed(tensors, "grouped_allgather_async()"), name, process_set, False))
