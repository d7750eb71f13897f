# SPDX-License-Identifier: Apache-2.0
"""Handles: the numbers by which programs refer to operations that they have started."""
from __future__ import annotations

import itertools
from typing import Any, Dict

from ...common.channel import Pending

_pending: Dict[int, Pending] = {}
_numbers = itertools.count()


def handle_of(pending: Pending) -> int:
    """A handle. The operation and its tensors stay until synchronize()."""
    handle = next(_numbers)
    _pending[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """Whether the operation has ended, so that synchronize() returns at once."""
    pending = _pending.get(handle)
    if pending is None:
        raise ValueError(f"there is no operation with handle {handle}: it was never started, or synchronize() has returned its result")
    return pending.done()


def synchronize(handle: int) -> Any:
    """Wait for an operation, and return its result; None if there is no such handle. Raises HorovodInternalError if it failed."""
    pending = _pending.pop(handle, None)
    return None if pending is None else pending.wait()


def forget_handles() -> None:
    """Drop the operations of a job that was shut down."""
    _pending.clear()
