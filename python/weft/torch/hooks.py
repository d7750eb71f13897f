# SPDX-License-Identifier: Apache-2.0
"""Communication hooks of DistributedDataParallel: the same bits on any number of ranks; gradients as bf16."""
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .extension import native
from .groups import default_group


class Canonical:
    """Sums over micro-batches in one order, whatever the number of ranks: the state of canonical_hook().

        ddp = DistributedDataParallel(model)
        ddp.register_comm_hook(weft.torch.Canonical(micro_batches=4), weft.torch.canonical_hook)
        for batch in batches:
            optimizer.zero_grad()
            for micro_batch in batch.chunk(4):          # without ddp.no_sync()
                loss_of(ddp(micro_batch)).backward()    # the mean over the micro-batch
            optimizer.step()

    `micro_batches` is how many backward passes a rank makes in a step. After the last one the gradients are the mean over all micro-batches
    of all ranks; before, they are zero. Rank r has the r-th part of the global batch. The micro-batches of all ranks, in this order, are the
    leaves of libweft's canonical tree, so the same global batch gives the same bits on 1 rank with 8 micro-batches, 2 ranks with 4, and so on,
    provided that

    - micro-batches have the same size and content, and each of them gives the same gradients on any rank: the same model, PyTorch and
      processor type, the same number of threads (torch.set_num_threads), random numbers that are drawn for the micro-batch and not for the
      rank, and no state that a forward pass changes (batch normalization in training mode);
    - every micro-batch uses every parameter;
    - `micro_batches` is a power of two unless there is one rank, since only then the micro-batches of a rank are a subtree.
    """

    def __init__(self, micro_batches: int, process_group: Optional[Any] = None):
        self.group = default_group(process_group)
        size = self.group.size()
        if micro_batches < 1:
            raise ValueError(f"micro_batches is {micro_batches}: a rank makes at least one backward pass in a step")
        if size > 1 and micro_batches & (micro_batches - 1):
            raise ValueError(f"micro_batches is {micro_batches}, which is not a power of two: on {size} ranks such parts are no subtrees of the "
                             "canonical order, and the bits would depend on the number of ranks")
        native.set_reproducible(self.group, True)
        self.micro_batches = micro_batches
        self._mean = dist._make_nccl_premul_sum(1 / (micro_batches * size))
        # Of each parameter: how many micro-batches are in, partial sums of ever fewer of them, and the version that they were computed with.
        self._sums: Dict[int, Tuple[int, List[torch.Tensor], int]] = {}

    def _merged(self, parameter: Any, gradient: torch.Tensor) -> Optional[torch.Tensor]:
        """Add the gradient of one more micro-batch; the sum of all after the last one."""
        number, sums, version = self._sums.pop(id(parameter), (0, [], parameter._version))
        if version != parameter._version:
            raise RuntimeError(f"parameters changed after {number} of the {self.micro_batches} micro-batches of a step: make {self.micro_batches} "
                               "backward passes before optimizer.step(), without no_sync()")
        level = 0
        while number >> level & 1:  # two sums of 2^level micro-batches become one
            gradient = sums.pop().add_(gradient)
            level += 1
        sums.append(gradient)
        if number + 1 < self.micro_batches:
            self._sums[id(parameter)] = (number + 1, sums, version)
            return None
        total = sums.pop()
        while sums:
            total = sums.pop().add_(total)
        return total

    def add(self, bucket: dist.GradBucket) -> bool:
        """Take a bucket of one micro-batch. Leaves the sums of this rank in it after the last one and returns True; before, zeros."""
        parameters, buffer = bucket.parameters(), bucket.buffer()
        part = buffer + 0.0  # a copy without negative zeros: gradients that are added to zeros lose them, others would not
        parts = part.split([parameter.numel() for parameter in parameters])
        totals = [self._merged(parameter, gradient) for parameter, gradient in zip(parameters, parts)]
        sums = [total for total in totals if total is not None]
        if sums and len(sums) < len(totals):
            raise RuntimeError("parameters of one bucket have taken part in different numbers of micro-batches: canonical_hook needs every parameter "
                               "in every micro-batch")
        if not sums:
            buffer.zero_()
            return False
        torch.cat(sums, out=buffer)
        return True


def canonical_hook(state: Canonical, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean over the micro-batches of all ranks, in the canonical order; see Canonical."""
    native.take_bucket(state.group, bucket.buffer())
    if not state.add(bucket):
        zeros: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        zeros.set_result(bucket.buffer())
        return zeros
    work = dist.all_reduce(bucket.buffer(), op=state._mean, group=state.group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def bf16_hook(process_group: Optional[Any], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean of the gradients, which travel as bf16: half the bytes. PyTorch 1.13 refuses its own bf16_compress_hook without CUDA.

        ddp.register_comm_hook(None, weft.torch.bf16_hook)     # or a process group in place of None
    """
    buffer = bucket.buffer()
    work = dist.all_reduce(buffer.to(torch.bfloat16), dist.ReduceOp.AVG, default_group(process_group), async_op=True)
    return work.get_future().then(lambda future: buffer.copy_(future.value()[0]))
