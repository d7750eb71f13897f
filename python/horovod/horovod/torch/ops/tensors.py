# SPDX-License-Identifier: Apache-2.0
"""Tensors of a program as operations take them: contiguous, on the CPU, of a type that Weft has."""
from __future__ import annotations

from typing import List, Sequence, Tuple

import torch

_REDUCED = frozenset([torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
                      torch.bool])
_AS_BYTES = frozenset([torch.int16])  # can be moved, but not reduced


def _refuse(tensor: object, what: str) -> None:
    """Raise why `tensor` is not acceptable."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what} takes a tensor, not {type(tensor).__name__}: pass torch.tensor() of it, or use hvd.broadcast_object() or "
                        f"hvd.allgather_object()")
    if tensor.layout != torch.strided:
        raise ValueError(f"{what} takes a dense tensor, not one of layout {tensor.layout}: use hvd.sparse_allreduce_async(), or to_dense()")
    if tensor.device.type != "cpu":
        raise ValueError(f"{what} works on the CPU, and this tensor is on '{tensor.device}': pass tensor.cpu()")
    raise ValueError(f"Tensor type {tensor.type()} is not supported by {what}: convert it, for example by to(torch.float32)")


def reduced(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """`tensor`, or a contiguous copy of it, as the input of a reduction."""
    try:
        if tensor.dtype in _REDUCED and tensor.layout is torch.strided and tensor.device.type == "cpu":
            return tensor if tensor.is_contiguous() else tensor.contiguous()
    except AttributeError:
        pass
    return _refuse(tensor, what)


def moved(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """`tensor`, or a contiguous copy of it, as the input of an operation that moves elements. It may be seen as bytes, see as_bytes()."""
    if isinstance(tensor, torch.Tensor) and tensor.dtype in _AS_BYTES and tensor.layout is torch.strided and tensor.device.type == "cpu":
        return as_bytes(tensor.contiguous())
    return reduced(tensor, what)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor of a type that Weft lacks, the bytes of an element as the last dimension; others as they are."""
    return tensor.unsqueeze(-1).view(torch.uint8) if tensor.dtype in _AS_BYTES else tensor


def written(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, for an operation that writes to it: gradients do not see that, as with Horovod."""
    return tensor.detach() if tensor.requires_grad else tensor


def new(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A contiguous tensor of the type of `like`."""
    return torch.empty(shape, dtype=like.dtype)


def listed(tensors: Sequence[torch.Tensor], what: str) -> List[torch.Tensor]:
    """The tensors of a group."""
    if isinstance(tensors, torch.Tensor):
        raise TypeError(f"{what} takes a list of tensors, not a tensor")
    tensors = list(tensors)
    if not tensors:
        raise ValueError(f"{what} needs at least one tensor, and the list is empty")
    return tensors


def in_place(tensor: torch.Tensor, contiguous: torch.Tensor) -> Tuple[torch.Tensor, bool]:
    """Where an operation in place on `tensor` writes, given moved() or reduced() of it, and whether that has to be copied back."""
    return written(contiguous), contiguous is not tensor and not tensor.is_contiguous()


def copy_back(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Copy what an operation in place has written to a contiguous copy; returns `output`."""
    written(output).copy_(target if target.dtype == output.dtype else target.view(output.dtype).squeeze(-1))
    return output


def has_rows(tensor: torch.Tensor, what: str) -> None:
    """Raise ValueError for a tensor without dimensions."""
    if isinstance(tensor, torch.Tensor) and tensor.dim() == 0:
        raise ValueError(f"{what} works along the first dimension, and a tensor of shape () has none: pass tensor.unsqueeze(0)")
