# SPDX-License-Identifier: Apache-2.0
"""Operations without tensors: join and barrier; and init() and shutdown() with the handles of operations."""
from __future__ import annotations

from typing import Any

from ...common.basics import basics
from ...common.process_sets import ProcessSet, global_process_set
from .handles import forget_handles


def join(device: int = -1) -> int:
    """Say that this rank has no more data, and wait until all ranks have said so; returns the rank that joined last.

    Meanwhile it takes part in the all-reduces of the others with zeros. Their other operations fail. `device` is not used.
    """
    channel = global_process_set._open()
    pending = channel.submit("join", "join", None, (), waits=True)
    pending.finish = lambda operation: operation.last_joined
    try:
        return pending.wait()
    finally:
        channel.restart_names()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set have called it."""
    (process_set._channel or process_set._open()).submit("barrier", "barrier", None, (), waits=True).wait()


def init(*args: Any, **kwargs: Any) -> None:
    """Join the job: see horovod.common.basics.HorovodBasics.init()."""
    if not basics.is_initialized():
        forget_handles()
    basics.init(*args, **kwargs)


def shutdown() -> None:
    """End the operations on all ranks; those that are not complete fail with HorovodInternalError. init() may follow."""
    basics.shutdown()
