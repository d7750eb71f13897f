# SPDX-License-Identifier: Apache-2.0
"""Making process groups: the first one joins the job, if the program has not; all are closed before the process leaves it."""
from __future__ import annotations

import os
import secrets
import socket
import sys
from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from .. import context as job
from ..errors import Error
from .extension import native

NAME = "weft"
_HOST = "weft/host/"
_RENDEZVOUS = "weft/rendezvous"


class _OpenGroups:
    """What a context waits for before it is closed: all operations of the groups."""

    def wait(self) -> None:
        try:
            native.close()
        except RuntimeError as failure:
            if getattr(sys, "last_value", None) is None:  # otherwise the program has ended with an exception, and the user has seen it
                raise Error(str(failure)) from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _join_by_store(store: Any, rank: int, size: int) -> None:
    """Join where torch.distributed knows rank and size but no launcher of Weft's started the ranks: they meet by its store."""
    store.set(f"{_HOST}{rank}", socket.gethostname())
    if rank == 0:
        host = os.environ.get("MASTER_ADDR")
        if not host:
            alone = len({store.get(f"{_HOST}{other}") for other in range(size)}) == 1
            host = "127.0.0.1" if alone else socket.gethostname()
        place = f"[{host}]" if ":" in host else host
        store.set(_RENDEZVOUS, f"{place}:{_free_port()} {secrets.token_hex(16)}")
    address, secret = store.get(_RENDEZVOUS).decode().split()
    job.init(rank=rank, ranks=size, rendezvous=address, secret=secret)


def _make(options: Any, _: Any) -> Any:
    """Called by torch.distributed on each rank of a new group."""
    members = list(options.global_ranks_in_group) or list(range(options.group_size))
    if not job.is_initialized():
        if dist.is_initialized() and options.group_size != dist.get_world_size():
            raise RuntimeError(f"the first group of the backend weft joins the job, and must have all {dist.get_world_size()} ranks; this one has "
                               f"{members}")
        _join_by_store(options.store, options.group_rank, options.group_size)
    world = job.world()
    if world is None:
        raise RuntimeError("this rank has left the job: it cannot be in a process group")
    rank, size = members[options.group_rank], dist.get_world_size() if dist.is_initialized() else len(members)
    if rank != world.rank or size != world.size:
        raise RuntimeError(f"torch.distributed calls this process rank {rank} of {size}, but it is rank {world.rank} of {world.size} of Weft's job: "
                           "start the ranks with one launcher, and leave rank and world_size to it")
    world.context._pending[id(_OpenGroups)] = _OpenGroups()
    return native.make_group(world.context._handle, members, options.group_rank, options.store, options.timeout.total_seconds())


def register() -> None:
    """Make the backend known to torch.distributed."""
    dist.Backend.register_backend(NAME, _make, extended_api=True)


def default_group(group: Optional[Any]) -> Any:
    """`group`, or the default one."""
    chosen = group if group is not None else dist.group.WORLD
    if chosen is None:
        raise RuntimeError('call torch.distributed.init_process_group("weft") first')
    return chosen


def monitored_barrier(group: Optional[Any] = None, timeout: Optional[timedelta] = None) -> None:
    """Wait until all ranks of the group come, `timeout` (30 s) at most; then RuntimeError names those that are missing.

    The group stays usable. torch.distributed.monitored_barrier() refuses all backends but gloo, hence this one.
    """
    default_group(group).monitored_barrier(timeout or timedelta(seconds=30), True)
