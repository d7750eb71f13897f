# SPDX-License-Identifier: Apache-2.0
"""All-reduce: combine tensors of all ranks, element by element; every rank gets the result."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ...common.basics import basics
from ...common.channel import Pending
from ...common.process_sets import ProcessSet, global_process_set
from ...common.util import num_rank_is_power_2, op_of
from ..compression import Compression
from .handles import handle_of
from .tensors import copy_back, in_place, listed, new, reduced

Average, Sum, Adasum, Min, Max, Product = basics.Average, basics.Sum, basics.Adasum, basics.Min, basics.Max, basics.Product
OPS = ("average", "sum", "sum", "min", "max", "product")  # weft.negotiation's, by Horovod's numbers; Adasum is a kind of its own


def op_name(op: int) -> str:
    """The name of a reduction."""
    if not 0 <= op < len(OPS):
        raise ValueError(f"there is no reduction {op}: pass hvd.Average, Sum, Adasum, Min, Max or Product")
    return OPS[op]


def _kind_of(op: int, process_set: ProcessSet) -> str:
    if op != Adasum:
        return "allreduce"
    if process_set is not global_process_set:
        raise NotImplementedError("Adasum works on all ranks, and not on a process set")
    if not num_rank_is_power_2(basics.size()):
        raise NotImplementedError(f"Adasum needs a number of ranks that is a power of two, and there are {basics.size()}")
    return "adasum"


def _submit(tensor: torch.Tensor, output: Optional[torch.Tensor], name: Optional[str], op: int, prescale_factor: float,
            postscale_factor: float, process_set: ProcessSet, waits: bool) -> Pending:
    """`output`: None makes one; the tensor itself works in place."""
    source = reduced(tensor, "an all-reduce")
    copied = False
    if output is None:
        output = target = new(source, source.shape)
    else:
        target, copied = in_place(output, source)
    channel = process_set._channel or process_set._open()
    pending = channel.submit("allreduce", _kind_of(op, process_set), name, ((source, target),), op=op_name(op), prescale=prescale_factor,
                             postscale=postscale_factor, waits=waits)
    pending.result = output
    if copied:
        pending.finish = lambda operation: copy_back(output, target)
    return pending


def _submit_group(tensors: List[torch.Tensor], outputs: Optional[List[torch.Tensor]], name: Optional[str], op: int,
                  prescale_factor: float, postscale_factor: float, process_set: ProcessSet, waits: bool) -> Pending:
    sources = [reduced(tensor, "an all-reduce") for tensor in tensors]
    copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
    if outputs is None:
        outputs = targets = [new(source, source.shape) for source in sources]
    else:
        placed = [in_place(output, source) for output, source in zip(outputs, sources)]
        targets = [target for target, _ in placed]
        copies = [(output, target) for output, (target, copied) in zip(outputs, placed) if copied]
    channel = process_set._channel or process_set._open()
    pending = channel.submit("grouped_allreduce", _kind_of(op, process_set), name, tuple(zip(sources, targets)), op=op_name(op),
                             prescale=prescale_factor, postscale=postscale_factor, waits=waits)
    pending.result = outputs

    def finish(operation: Any) -> List[torch.Tensor]:
        for output, target in copies:
            copy_back(output, target)
        return outputs

    if copies:
        pending.finish = finish
    return pending


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], *how: Any) -> torch.Tensor:
        ctx.how = how
        return _submit(tensor, None, name, *how, True).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        op, prescale_factor, postscale_factor, process_set = ctx.how
        result = allreduce(gradient, op=op, prescale_factor=prescale_factor, postscale_factor=postscale_factor, process_set=process_set)
        return (result, None) + (None,) * len(ctx.how)


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], how: Tuple[Any, ...], *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(_submit_group(list(tensors), None, name, *how, True).wait())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        return (None, None, *_GroupedAllreduce.apply(None, ctx.how, *gradients))


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, compression: Any = Compression.none,
              op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Combine a tensor of all ranks; returns the result, through which gradients flow.

    `op` is hvd.Average (default), Sum, Min, Max, Product or Adasum. `average` is its deprecated predecessor. The factors multiply the input
    and the result. Shape and type must be the same on all ranks. Ranks may start operations in different orders if they have a `name`.
    """
    op = op_of(op, average)
    if compression is Compression.none:
        if not (torch.is_grad_enabled() and getattr(tensor, "requires_grad", False)):
            return _submit(tensor, None, name, op, prescale_factor, postscale_factor, process_set, True).wait()
        return _Allreduce.apply(tensor, name, op, prescale_factor, postscale_factor, process_set)
    compressed, context = compression.compress(tensor)
    return compression.decompress(_Allreduce.apply(compressed, name, op, prescale_factor, postscale_factor, process_set), context)


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    """Start allreduce(), without gradients. Returns a handle for poll() and synchronize(); until then the tensor must not change."""
    return handle_of(_submit(tensor, None, name, op_of(op, average), prescale_factor, postscale_factor, process_set, False))


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce() in place; returns the tensor."""
    return _submit(tensor, tensor, name, op_of(op, average), prescale_factor, postscale_factor, process_set, True).wait()


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> int:
    """Start allreduce_(); returns a handle."""
    return handle_of(_submit(tensor, tensor, name, op_of(op, average), prescale_factor, postscale_factor, process_set, False))


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """allreduce() of a list of tensors as one operation, which starts when all ranks have all of them; returns the list of results."""
    op = op_of(op, average)
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in listed(tensors, "grouped_allreduce()")])
    how = (op, prescale_factor, postscale_factor, process_set)
    return [compression.decompress(result, context)
            for result, context in zip(_GroupedAllreduce.apply(name, how, *compressed), contexts)]


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:
    """Start grouped_allreduce(), without gradients. Returns one handle; synchronize() returns the list of results."""
    return handle_of(_submit_group(listed(tensors, "grouped_allreduce_async()"), None, name, op_of(op, average), prescale_factor,
                                   postscale_factor, process_set, False))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """grouped_allreduce() in place; returns the list of tensors."""
    tensors = listed(tensors, "grouped_allreduce_()")
    return _submit_group(tensors, tensors, name, op_of(op, average), prescale_factor, postscale_factor, process_set, True).wait()


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                             op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:
    """Start grouped_allreduce_(); returns one handle."""
    tensors = listed(tensors, "grouped_allreduce_async_()")
    return handle_of(_submit_group(tensors, tensors, name, op_of(op, average), prescale_factor, postscale_factor, process_set, False))
