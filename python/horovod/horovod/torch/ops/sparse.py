# SPDX-License-Identifier: Apache-2.0
"""All-reduce of sparse tensors, by gathering their entries."""
from __future__ import annotations

from typing import Callable, Optional

import torch

from ...common.process_sets import ProcessSet, global_process_set
from .allgather import grouped_allgather_async
from .allreduce import Average, Sum
from .handles import synchronize


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Start an all-reduce (hvd.Average or Sum) of a sparse tensor; call what it returns to wait for the result.

    The entries of all ranks are gathered; entries of the result with equal indices add up, as always in a sparse tensor.
    """
    if not tensor.is_sparse:
        raise ValueError(f"sparse_allreduce_async() takes a sparse tensor, not one of layout {tensor.layout}: use hvd.allreduce_async()")
    if op not in (Average, Sum):
        raise ValueError("a sparse tensor can be reduced by hvd.Average and hvd.Sum only: use to_dense() and hvd.allreduce_async()")
    divisor = (process_set._channel or process_set._open()).size if op == Average else 1
    # Gathered along the first dimension, so that there the entries must be.
    handle = grouped_allgather_async([tensor._indices().t(), tensor._values()], name, process_set)

    def result() -> torch.Tensor:
        indices, values = synchronize(handle)
        return torch.sparse_coo_tensor(indices.t(), values / divisor if divisor != 1 else values, tensor.size(), dtype=tensor.dtype)

    return result
