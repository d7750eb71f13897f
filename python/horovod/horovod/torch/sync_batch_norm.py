# SPDX-License-Identifier: Apache-2.0
"""Batch normalization with the mean and variance of the batches of all ranks."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from .mpi_ops import Sum, allgather, allreduce_, size


def _by_channel(tensor: torch.Tensor) -> torch.Tensor:
    """(N, C, ...) as (C, the rest), in the type to compute in."""
    return tensor.transpose(0, 1).reshape(tensor.shape[1], -1).to(torch.promote_types(tensor.dtype, torch.float32))


def _spread(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A value for each channel, in the shape that applies to (N, C, ...)."""
    return values.reshape(1, -1, *[1] * (like.dim() - 2))


def _statistics(own: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, variance and number of the elements of each channel, over all ranks."""
    channels, count = own.shape
    mean = own.mean(1) if count else own.new_zeros(channels)
    deviations = (own - mean[:, None]).square().sum(1)
    gathered = allgather(torch.cat([mean, deviations, own.new_tensor([count])])[None], name=f"sync_batch_norm.{channels}")
    means, sums, counts = gathered[:, :channels], gathered[:, channels:-1], gathered[:, -1:]
    total = counts.sum()
    whole = (means * counts).sum(0) / total
    variance = (sums + counts * (means - whole).square()).sum(0) / total
    return whole, variance, total


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor], mean: torch.Tensor,
                variance: torch.Tensor, count: torch.Tensor, eps: float) -> torch.Tensor:
        scale = (variance + eps).rsqrt()
        normalized = (given.to(mean.dtype) - _spread(mean, given)) * _spread(scale, given)
        ctx.save_for_backward(normalized, weight, scale, count)
        ctx.kind = given.dtype
        if weight is not None:
            normalized = normalized * _spread(weight, given) + _spread(bias, given)
        return normalized.to(given.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        normalized, weight, scale, count = ctx.saved_tensors
        gradient = gradient.to(normalized.dtype)
        # Over this rank's elements; DistributedOptimizer combines them over the ranks.
        sums = torch.stack([_by_channel(gradient).sum(1), _by_channel(gradient * normalized).sum(1)])
        to_bias, to_weight = (sums[0].clone(), sums[1].clone()) if weight is not None else (None, None)
        to_given = None
        if ctx.needs_input_grad[0]:
            allreduce_(sums, op=Sum, name=f"sync_batch_norm.backward.{sums.shape[1]}")
            factor = scale if weight is None else scale * weight
            shared = _spread(sums[0] / count, gradient) + normalized * _spread(sums[1] / count, gradient)
            to_given = ((gradient - shared) * _spread(factor, gradient)).to(ctx.kind)
        return to_given, to_weight, to_bias, None, None, None, None


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of (N, C, ...), whose statistics in training are those of the batches of all ranks together.

    Arguments are those of torch.nn.BatchNorm1d. It works on the CPU.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm takes a tensor of at least 2 dimensions, (N, C, ...), not of {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalize; in training every rank calls it."""
        self._check_input_dim(input)
        if not self.training and self.track_running_stats or size() == 1:
            return super().forward(input)
        with torch.no_grad():
            mean, variance, count = _statistics(_by_channel(input))
            if self.training and self.track_running_stats:
                self._update_running(mean, variance, count)
        return _Normalize.apply(input, self.weight, self.bias, mean, variance, count, self.eps)

    def _update_running(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        self.num_batches_tracked.add_(1)
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var.dtype), part)
