# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of libweft, each with libweft's message."""
from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _native


class Error(Exception):
    """A call failed. `status` is libweft's status as a word ("peer"), str() its message."""

    status = "unknown"


class ArgumentError(Error, ValueError):
    """A value is not acceptable. The operation has not started, and the context stays whole."""


class MismatchError(Error):
    """Ranks disagree about an operation; the message names both calls. The context is broken."""


class PeerError(Error, ConnectionError):
    """A rank died, or the link to it was cut; the message names rank and host. The context is broken."""


class TimeLimitError(Error, TimeoutError):
    """An operation, or the arrival of a rank, took longer than its limit."""


class AbortedError(Error):
    """A rank ended the job: it called abort(), or an exception ended its program. The message is that rank's."""


class OutOfMemoryError(Error, MemoryError):
    """Memory ran out, or a memory limit is too small."""


class SystemRefusedError(Error, OSError):
    """The operating system refused something."""


class NetworkError(Error, OSError):
    """A network provider failed, or no usable one was found."""


class RendezvousError(Error, ConnectionError):
    """The ranks could not meet: wrong secret, version, address or port."""


class DataError(Error, ValueError):
    """A file or message holds something other than it should."""


class ScheduleError(Error):
    """A schedule is corrupt or breaks its own rules."""


class StateError(Error, RuntimeError):
    """The call is not allowed now: in a group, after finalize(), on a broken context, in a process that was forked."""


# By libweft's words for its statuses.
CLASSES = {"argument": ArgumentError, "mismatch": MismatchError, "peer": PeerError, "timeout": TimeLimitError,
           "aborted": AbortedError, "memory": OutOfMemoryError, "system": SystemRefusedError, "network": NetworkError,
           "rendezvous": RendezvousError, "data": DataError, "schedule": ScheduleError, "state": StateError}
for _word, _class in CLASSES.items():
    _class.status = _word


def check(outcome: Optional[Tuple[int, str]]) -> None:
    """Raise what a native call returned, but for None, which is success."""
    if outcome is not None:
        raise CLASSES.get(_native.STATUSES[outcome[0]], Error)(outcome[1])


def result(outcome: Tuple[Optional[Tuple[int, str]], Any]) -> Any:
    """The second part of a native call's result, if the first is success."""
    check(outcome[0])
    return outcome[1]
