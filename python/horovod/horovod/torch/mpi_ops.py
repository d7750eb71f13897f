# SPDX-License-Identifier: Apache-2.0
"""All operations, and what can be asked about the job. Programs import from here what horovod.torch has, too."""
from __future__ import annotations

from ..common.basics import basics as _basics
from ..common.exceptions import HorovodInternalError
from ..common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ..common.util import get_average_backwards_compatibility_fun as _compatibility
from .compression import Compression
from .ops.allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from .ops.allreduce import (Adasum, Average, Max, Min, Product, Sum, allreduce, allreduce_, allreduce_async, allreduce_async_,
                            grouped_allreduce, grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_)
from .ops.alltoall import alltoall, alltoall_async
from .ops.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from .ops.control import barrier, init, join, shutdown
from .ops.handles import poll, synchronize
from .ops.reducescatter import grouped_reducescatter, grouped_reducescatter_async, reducescatter, reducescatter_async
from .ops.sparse import sparse_allreduce_async

is_initialized, start_timeline, stop_timeline = _basics.is_initialized, _basics.start_timeline, _basics.stop_timeline
size, local_size, cross_size = _basics.size, _basics.local_size, _basics.cross_size
rank, local_rank, cross_rank = _basics.rank, _basics.local_rank, _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported, mpi_enabled, mpi_built = _basics.mpi_threads_supported, _basics.mpi_enabled, _basics.mpi_built
gloo_enabled, gloo_built = _basics.gloo_enabled, _basics.gloo_built
nccl_built, ddl_built, ccl_built, cuda_built, rocm_built = (_basics.nccl_built, _basics.ddl_built, _basics.ccl_built, _basics.cuda_built,
                                                            _basics.rocm_built)
handle_average_backwards_compatibility = _compatibility(_basics)

__all__ = ["Adasum", "Average", "Compression", "HorovodInternalError", "Max", "Min", "ProcessSet", "Product", "Sum", "add_process_set",
           "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async",
           "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "ccl_built", "cross_rank", "cross_size",
           "cuda_built", "ddl_built", "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allgather_async",
           "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
           "grouped_reducescatter_async", "handle_average_backwards_compatibility", "init", "is_homogeneous", "is_initialized", "join",
           "local_rank", "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "reducescatter",
           "reducescatter_async", "remove_process_set", "rocm_built", "shutdown", "size", "sparse_allreduce_async", "start_timeline",
           "stop_timeline", "synchronize"]
