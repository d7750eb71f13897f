# SPDX-License-Identifier: Apache-2.0
"""The backend "weft" of torch.distributed, for tensors in the host's memory.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft")
    model = torch.nn.parallel.DistributedDataParallel(model)

    $ weft run -n 2 -- python3 train.py

init_process_group() needs nothing else under weft run, mpirun and srun; with torchrun, or with the variables RANK, WORLD_SIZE, MASTER_ADDR
and MASTER_PORT, it works as with any backend. Without a launcher the program is one rank. The group and weft.init() share one job: whichever
comes first joins it, and the program leaves it at its end. Failures are RuntimeErrors with libweft's message.

Call torch.set_flush_denormal(True), if at all, before init_process_group(), so that all threads that add gradients do the same.
"""
from . import groups, rendezvous
from .groups import monitored_barrier
from .hooks import Canonical, bf16_hook, canonical_hook

groups.register()
rendezvous.register()

__all__ = ["Canonical", "bf16_hook", "canonical_hook", "monitored_barrier"]
