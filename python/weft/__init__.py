# SPDX-License-Identifier: Apache-2.0
"""Weft for Python: collectives on NumPy arrays and PyTorch tensors, without copies.

    import numpy, weft
    world = weft.init()
    total = world.allreduce(numpy.full(4, world.rank, "f4"))

    $ weft run -n 4 -- python3 program.py
"""
from . import _native

__version__ = _native.version()

if __version__ != _native.BUILT_FOR:
    raise ImportError(f"the Python package weft was built for libweft {_native.BUILT_FOR}, but libweft {__version__} is loaded: install the "
                      f"package again (pip install), or the libweft that it was built for")

# pylint: disable=wrong-import-position
from .communicator import Communicator, Request, wait_all
from .context import Context, abort, empty, epoch, finalize, group, grow, init, is_initialized, shrink, waiting, world
from .errors import (AbortedError, ArgumentError, DataError, Error, MismatchError, NetworkError, OutOfMemoryError, PeerError, RendezvousError,
                     ScheduleError, StateError, SystemRefusedError, TimeLimitError)
from .ops import (AVERAGE, BITWISE_AND, BITWISE_OR, BITWISE_XOR, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR, MAX, MIN, PRODUCT, SUM, Op, scaled_sum)
from .reporting import flush, progress, report

__all__ = ["init", "finalize", "is_initialized", "world", "shrink", "grow", "waiting", "epoch", "empty", "group", "abort", "Context",
           "Communicator", "Request", "wait_all", "SUM", "AVERAGE", "PRODUCT", "MIN", "MAX", "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR",
           "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR", "scaled_sum", "Op", "report", "progress", "flush", "Error", "AbortedError",
           "ArgumentError", "DataError", "MismatchError", "NetworkError", "OutOfMemoryError", "PeerError", "RendezvousError", "ScheduleError",
           "StateError", "SystemRefusedError", "TimeLimitError"]
