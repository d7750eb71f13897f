# SPDX-License-Identifier: Apache-2.0
"""Metrics and progress of a run, which the platform draws.

Nothing happens where nobody listens (WEFT_METRICS is not set). What cannot be written is a RuntimeWarning: a full disk or a slow reader must
not end a training run.
"""
from __future__ import annotations

import atexit
import os
import warnings
from typing import Any, Optional, Tuple

from . import _native
from .errors import ArgumentError, Error, check, result

_UNOPENED = object()
_reporter: Any = _UNOPENED  # None: nothing is reported


def _open() -> Optional[Any]:
    global _reporter
    if _reporter is _UNOPENED:
        try:
            _reporter = result(_native.reporter(None))
        except Error as error:
            _reporter = None
            warnings.warn(f"no metrics are reported: {error}", RuntimeWarning, stacklevel=3)
    return _reporter


def _forget() -> None:
    """In a process that was forked: lines that are still buffered are the parent's."""
    global _reporter
    _reporter = _UNOPENED


os.register_at_fork(after_in_child=_forget)


def _warn_of(outcome: Optional[Tuple[int, str]]) -> None:
    try:
        check(outcome)
    except ArgumentError:
        raise
    except Error as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=3)


def report(name: str, value: float, step: int) -> None:
    """Report the value of a metric ("train/loss") at a step."""
    reporter = _open()
    if reporter is not None:
        _warn_of(_native.report(reporter, name, step, float(value)))


def progress(done: float, total: float, seconds_left: float = -1.0) -> None:
    """Report that `done` of `total` units of the run's work are done; a negative `seconds_left`: the platform estimates it."""
    reporter = _open()
    if reporter is not None:
        _warn_of(_native.progress(reporter, done, total, seconds_left))


def flush() -> None:
    """Write what is buffered now, as happens within a tenth of a second and at the program's end by itself."""
    if _reporter is not _UNOPENED and _reporter is not None:
        _warn_of(_native.flush(_reporter))


atexit.register(flush)
