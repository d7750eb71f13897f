# SPDX-License-Identifier: Apache-2.0
"""Compression of gradients: what is sent may have a shorter type than what is computed with."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch


class Compressor:
    """How tensors are compressed. Programs may define their own."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """The tensor to send, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The result in its original form."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _ShortFloats(Compressor):
    """Floating-point tensors of more than 16 bits as a type of 16 bits; others as they are."""

    kind: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        if not tensor.dtype.is_floating_point or tensor.element_size() <= 2:
            return tensor, None
        return tensor.to(cls.kind), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Optional[torch.dtype]) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_ShortFloats):
    """16-bit floats: 11 bits of precision, up to 65504."""

    kind = torch.float16


class BF16Compressor(_ShortFloats):
    """bfloat16: 8 bits of precision, the range of 32-bit floats."""

    kind = torch.bfloat16


class Compression:
    """The compressions that there are."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
