# SPDX-License-Identifier: Apache-2.0
"""The job: joining it, leaving it, ending it, and memory that other ranks reach without a copy."""
from __future__ import annotations

import atexit
import contextlib
import os
import sys
import weakref
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple, Union

from . import _native
from .communicator import Communicator, Request
from .errors import ArgumentError, Error, StateError, check, result

_process: Any = None  # libweft's memory of this process; it outlives contexts


class _Memory:
    """Memory of the shared heap, as NumPy sees it. It is given back with the last array that refers to it."""

    def __init__(self, context: "Context", shape: Tuple[int, ...], kind: str, size: int):
        count = 1
        for extent in shape:
            count *= extent
        address = result(_native.allocate(context._handle, count * size))
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": kind, "data": (address, False)}
        self._context, self._address = weakref.ref(context), address

    def __del__(self) -> None:
        context = getattr(self, "_context", lambda: None)()
        if context is not None and context._handle is not None and not context._forked:
            _native.release(context._handle, self._address)


class Context:
    """This process's part in a job. weft.init() makes one; programs whose ranks are threads make one in each thread."""

    def __init__(self, *, rank: int = 0, ranks: int = 0, rendezvous: Optional[str] = None, secret: Optional[str] = None,
                 node: Optional[str] = None, fabric: Optional[str] = None, interface: Optional[str] = None, rendezvous_limit: float = 0,
                 time_limit: float = 0):
        global _process
        self._handle: Any = None
        self._pending: Dict[int, Request] = {}
        self._forked = False
        if _process is None:
            _process = result(_native.process(0))
        self._handle = result(_native.open(_process, rank, ranks, rendezvous, secret, node, fabric, interface, rendezvous_limit, time_limit))
        self.world = Communicator(self, _native.world(self._handle), is_world=True)
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _mark_forked(itself))

    def _check_usable(self) -> None:
        if self._forked:
            raise StateError("this process was forked from a rank after weft.init(): only the rank itself may use its communicators; start "
                             "workers before weft.init(), or with multiprocessing's method 'spawn'")
        if self._handle is None:
            raise StateError("the job was left by weft.finalize(): call weft.init() first")

    def empty(self, shape: Union[int, Sequence[int]], dtype: Any = "f4") -> Any:
        """A NumPy array in memory that other ranks of this host reach without a copy. It holds zeros."""
        import numpy
        self._check_usable()
        kind = numpy.dtype(dtype)
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        return numpy.asarray(_Memory(self, extents, kind.str, kind.itemsize))

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Calls within it begin together at its end, so that none waits for another: a send and a receive of neighbors, for example."""
        self._check_usable()
        check(_native.group(self._handle, True))
        try:
            yield
        finally:
            outcome = _native.group(self._handle, False)
        check(outcome)

    def abort(self, reason: str) -> None:
        """End the job: operations of all ranks fail with this reason and the rank's name."""
        self._check_usable()
        _native.abort(self._handle, reason)

    def finalize(self) -> None:
        """Leave the job. It waits until all ranks do; requests that were not waited for are waited for first."""
        if self._handle is None or self._forked:
            return
        for request in list(self._pending.values()):
            with contextlib.suppress(Error):
                request.wait()
        handle, self._handle = self._handle, None
        check(_native.close(handle))


def _mark_forked(reference: "weakref.ref[Context]") -> None:
    context = reference()
    if context is not None:
        context._forked = True


_current: Optional[Context] = None  # of weft.init()


def _end_with_exception(kind: Any, error: Any, trace: Any) -> None:
    """An exception that nobody catches ends the job, so that no other rank waits for this one."""
    if _current is not None and _current._handle is not None and not _current._forked:
        _native.abort(_current._handle, f"{kind.__name__}: {error}" if str(error) else kind.__name__)
    _former_hook(kind, error, trace)


_former_hook = sys.excepthook


def _leave_at_exit() -> None:
    try:
        finalize()
    except Error as error:
        print(f"weft: {error}", file=sys.stderr)


def init(**settings: Any) -> Communicator:
    """Join the job that weft run, mpirun, srun or torchrun has started; alone without a launcher. Returns the world.

    Settings are those of Context; without any, everything comes from the launcher. Call it once, before threads and workers are made. At
    its end the program leaves the job by itself; an exception that nobody catches ends the whole job with its message.
    """
    global _current, _former_hook
    if _current is not None and _current._handle is not None and not _current._forked:
        raise StateError("weft.init() was called already: use weft.world(), or call weft.finalize() first")
    _current = Context(**settings)
    if sys.excepthook is not _end_with_exception:
        _former_hook = sys.excepthook
        sys.excepthook = _end_with_exception
        atexit.register(_leave_at_exit)
    return _current.world


def _initialized() -> Context:
    if _current is None:
        raise StateError("call weft.init() first")
    _current._check_usable()
    return _current


def is_initialized() -> bool:
    """Whether this process has joined a job and not left it."""
    return _current is not None and _current._handle is not None and not _current._forked


def world() -> Communicator:
    """The communicator of all ranks."""
    return _initialized().world


def empty(shape: Union[int, Sequence[int]], dtype: Any = "f4") -> Any:
    """See Context.empty()."""
    return _initialized().empty(shape, dtype)


def group() -> Any:
    """See Context.group()."""
    return _initialized().group()


def abort(reason: str) -> None:
    """See Context.abort()."""
    if not reason:
        raise ArgumentError("weft.abort() needs a reason, which all ranks show")
    _initialized().abort(reason)


def finalize() -> None:
    """Leave the job; see Context.finalize(). weft.init() may follow. Nothing happens without a job."""
    global _current
    if _current is not None:
        context, _current = _current, None
        context.finalize()
