# SPDX-License-Identifier: Apache-2.0
"""Broadcast: every rank gets the tensor of one of them."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from ...common.basics import basics
from ...common.channel import Pending
from ...common.process_sets import ProcessSet, global_process_set
from .allreduce import allreduce
from .handles import handle_of
from .tensors import as_bytes, copy_back, in_place, moved, new


def _submit(tensor: torch.Tensor, output: Optional[torch.Tensor], root_rank: int, name: Optional[str], process_set: ProcessSet,
            waits: bool) -> Pending:
    """`output`: None makes one; the tensor itself works in place."""
    source = moved(tensor, "a broadcast")
    channel = process_set._channel or process_set._open()
    root = channel.place_of.get(root_rank)
    if root is None:
        raise ValueError(f"there is no rank {root_rank} to broadcast from; the ranks are {list(channel.ranks)}")
    copied = False
    if output is None:
        output = new(tensor, tensor.shape)
        target = as_bytes(output)
    else:
        target, copied = in_place(output, source)
    pending = channel.submit("broadcast", "broadcast", name, ((source, target),), root=root, waits=waits)
    pending.result = output
    if copied:
        pending.finish = lambda operation: copy_back(output, target)
    return pending


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return _submit(tensor, None, root_rank, name, process_set, True).wait()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        reduced = allreduce(gradient, process_set=ctx.process_set)
        # Zeros that depend on `reduced`: for second derivatives all ranks call the all-reduce's backward().
        return reduced if basics.rank() == ctx.root_rank else reduced.masked_fill(torch.tensor(True), 0), None, None, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensor of rank `root_rank`, which is a number of the whole job. Shape and type are the same on all ranks.

    Gradients flow to the root. The root's gradient is the average over the ranks of the gradients of their results, as with Horovod.
    """
    if not (torch.is_grad_enabled() and getattr(tensor, "requires_grad", False)):
        return _submit(tensor, None, root_rank, name, process_set, True).wait()
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    """Start broadcast(), without gradients. Returns a handle for poll() and synchronize(); until then the tensor must not change."""
    return handle_of(_submit(tensor, None, root_rank, name, process_set, False))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast() in place; returns the tensor."""
    return _submit(tensor, tensor, root_rank, name, process_set, True).wait()


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    """Start broadcast_(); returns a handle."""
    return handle_of(_submit(tensor, tensor, root_rank, name, process_set, False))
