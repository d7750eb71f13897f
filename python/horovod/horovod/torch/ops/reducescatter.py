# SPDX-License-Identifier: Apache-2.0
"""Reduce-scatter: combine tensors of all ranks; each rank gets some rows of the result."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ...common.channel import Channel, Pending
from ...common.process_sets import ProcessSet, global_process_set
from ..compression import Compression
from .allgather import allgather, grouped_allgather
from .allreduce import Adasum, Average, Sum, op_name
from .handles import handle_of
from .tensors import has_rows, listed, new, reduced


def _part(tensor: torch.Tensor, channel: Channel) -> torch.Tensor:
    """A tensor for this rank's rows. The first ranks have one more if they cannot be divided evenly."""
    rows, more = divmod(len(tensor), channel.size)
    return new(tensor, (rows + (channel.rank < more), *tensor.shape[1:]))


def _submit(label: str, tensors: Sequence[torch.Tensor], name: Optional[str], op: int, process_set: ProcessSet, prescale_factor: float,
            postscale_factor: float, waits: bool) -> Pending:
    """Its result: the list of parts."""
    if op == Adasum:
        raise NotImplementedError("reducescatter() does not have hvd.Adasum: use hvd.Sum, Average, Min, Max or Product")
    for tensor in tensors:
        has_rows(tensor, "a reduce-scatter")
    channel = process_set._channel or process_set._open()
    sources = [reduced(tensor, "a reduce-scatter") for tensor in tensors]
    parts = [_part(source, channel) for source in sources]
    pending = channel.submit(label, "reduce_scatter", name, tuple(zip(sources, parts)), op=op_name(op), prescale=prescale_factor,
                             postscale=postscale_factor, waits=waits)
    pending.result = parts
    return pending


class _Reducescatter(torch.autograd.Function):
    """Of one tensor, or of a group."""

    @staticmethod
    def forward(ctx: Any, label: str, name: Optional[str], how: Tuple[Any, ...], *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(_submit(label, tensors, name, *how, True).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        op, process_set, prescale_factor, postscale_factor = ctx.how
        factor = prescale_factor * postscale_factor * (process_set._open().size if op == Sum else 1)
        scaled = [gradient if factor == 1 else gradient * factor for gradient in gradients]
        if len(scaled) == 1:
            return None, None, None, allgather(scaled[0], process_set=process_set)
        return (None, None, None, *grouped_allgather(scaled, process_set=process_set))


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = Compression.none, op: int = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Combine a tensor of all ranks, and return this rank's rows of the result. Gradients flow through it.

    Rows are divided among the ranks in their order; the first ranks get one more where they do not divide evenly. `op` is hvd.Average
    (default), Sum, Min, Max or Product. Shape and type must be the same on all ranks.
    """
    compressed, context = compression.compress(tensor)
    part, = _Reducescatter.apply("reducescatter", name, (op, process_set, prescale_factor, postscale_factor), compressed)
    return compression.decompress(part, context)


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average, process_set: ProcessSet = global_process_set,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> int:
    """Start reducescatter(), without gradients. Returns a handle for poll() and synchronize(); until then the tensor must not change."""
    pending = _submit("reducescatter", (tensor,), name, op, process_set, prescale_factor, postscale_factor, False)
    pending.result = pending.result[0]
    return handle_of(pending)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None, compression: Any = Compression.none,
                          op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """reducescatter() of a list of tensors as one operation, which starts when all ranks have all of them; returns the list of results."""
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in listed(tensors, "grouped_reducescatter()")])
    parts = _Reducescatter.apply("grouped_reducescatter", name, (op, process_set, prescale_factor, postscale_factor), *compressed)
    return [compression.decompress(part, context) for part, context in zip(parts, contexts)]


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    """Start grouped_reducescatter(), without gradients. Returns one handle; synchronize() returns the list of results."""
    return handle_of(_submit("grouped_reducescatter", listed(tensors, "grouped_reducescatter_async()"), name, op, process_set,
                             prescale_factor, postscale_factor, False))
