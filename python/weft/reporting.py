# SPDX-License-Identifier: Apache-2.0
"""Metrics and progress of a run, which the platform draws; nothing happens, and nothing is lost, where nobody listens."""
from __future__ import annotations

import atexit
from typing import Any, Optional

from . import _native
from .errors import check, result

_UNOPENED = object()
_reporter: Any = _UNOPENED  # None: WEFT_METRICS is not set


def _open() -> Optional[Any]:
    global _reporter
    if _reporter is _UNOPENED:
        _reporter = result(_native.reporter(None))
        atexit.register(flush)  # the last tenth of a second is still buffered
    return _reporter


def report(name: str, value: float, step: int) -> None:
    """Report the value of a metric ("train/loss") at a step."""
    reporter = _open()
    if reporter is not None:
        check(_native.report(reporter, name, step, float(value)))


def progress(done: float, total: float, seconds_left: float = -1.0) -> None:
    """Report that `done` of `total` units of the run's work are done; a negative `seconds_left`: the platform estimates it."""
    reporter = _open()
    if reporter is not None:
        check(_native.progress(reporter, done, total, seconds_left))


def flush() -> None:
    """Write what is buffered now."""
    reporter = _open()
    if reporter is not None:
        check(_native.flush(reporter))
