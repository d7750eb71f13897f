# SPDX-License-Identifier: Apache-2.0
"""The job: joining it, leaving it, going on after failures, and memory that other ranks reach without a copy."""
from __future__ import annotations

import atexit
import contextlib
import math
import operator
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

from . import _native
from .communicator import Communicator, Request
from .errors import ArgumentError, Error, StateError, check, result

_lock = threading.Lock()
_process: Any = None  # libweft's memory of this process; it outlives contexts
_memories: "weakref.WeakSet[_Memory]" = weakref.WeakSet()  # in that memory
_contexts: "weakref.WeakSet[Context]" = weakref.WeakSet()


def _memory_of_process() -> Any:
    """Contexts one after the other share it, unless arrays of a former one are still there: their place would be used again."""
    global _process
    with _lock:
        if _process is None or any(memory._context() is None or memory._context()._handle is None for memory in _memories):
            _process = result(_native.process(0))
        return _process


def _after_fork() -> None:
    """In the child: the memory and the communicators are the parent's."""
    global _process, _lock
    _process, _lock = None, threading.Lock()
    for context in list(_contexts):
        context._forked = True


os.register_at_fork(after_in_child=_after_fork)


class _Memory:
    """Memory of the shared heap, as NumPy sees it. It is given back with the last array that refers to it."""

    def __init__(self, context: "Context", shape: Tuple[int, ...], kind: str, size: int):
        address = result(_native.allocate(context._handle, math.prod(shape) * size))
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": kind, "data": (address, False)}
        self._context, self._address = weakref.ref(context), address
        _memories.add(self)

    def __del__(self) -> None:
        context = getattr(self, "_context", lambda: None)()
        if context is not None and context._handle is not None and not context._forked:
            _native.release(context._handle, self._address)


class Context:
    """This process's part in a job. weft.init() makes one; programs whose ranks are threads make one in each thread."""

    def __init__(self, *, rank: int = 0, ranks: int = 0, rendezvous: Optional[str] = None, secret: Optional[str] = None,
                 node: Optional[str] = None, fabric: Optional[str] = None, interface: Optional[str] = None, rendezvous_limit: float = 0,
                 time_limit: float = 0):
        self._handle: Any = None
        self._pending: Dict[int, Request] = {}
        self._grouped: Optional[List[Callable[[], None]]] = None  # operations of the group that is open
        self._forked = False
        self._negotiators: Set[Any] = set()  # that are open
        if rank and not ranks:
            raise ArgumentError(f"rank {rank} was given without ranks: give both, or neither to get them from the launcher")
        self._handle = result(_native.open(_memory_of_process(), rank, ranks, rendezvous, secret, node, fabric, interface, rendezvous_limit,
                                           time_limit))
        self.world: Optional[Communicator] = Communicator(self, _native.world(self._handle))
        _contexts.add(self)

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
        extents = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(extent) for extent in shape)
        return numpy.asarray(_Memory(self, extents, kind.str, kind.itemsize))

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Calls within it begin together at its end, so that none waits for another: a send and a receive of neighbors, for example.

        What the calls return is filled at the end, too. An exception within the group drops its calls.
        """
        self._check_usable()
        if self._grouped is not None:
            raise StateError("groups do not nest")
        self._check_no_negotiator("a group")
        self._grouped = queued = []
        try:
            yield
        finally:
            self._grouped = None
        self._check_usable()
        begun = _native.group(self._handle, True)
        failure: Optional[Exception] = None
        try:
            for begin in queued:
                begin()
        except Exception as error:  # pylint: disable=broad-except
            failure = error
            if begun is None:  # the others wait for the call that is missing
                _native.abort(self._handle, _text_of(type(error), error))
        ended = _native.group(self._handle, False)
        if failure:
            raise failure
        check(begun)
        check(ended)

    def _check_no_negotiator(self, what: str) -> None:
        if self._negotiators:
            raise StateError(f"{what} and an open Negotiator exclude each other, since its thread calls libweft at any time: close() it first")

    def _renew(self, renew: Callable[[Any], Optional[Tuple[int, str]]]) -> Optional[Communicator]:
        self._check_usable()
        if self._grouped is not None:
            raise StateError("the ranks of a job do not change within a group: end the group first")
        check(renew(self._handle))
        handle = _native.world(self._handle)
        self.world = None if handle is None else Communicator(self, handle)
        return self.world

    def shrink(self) -> Optional[Communicator]:
        """Go on without the ranks that are lost.

        Every surviving rank calls it after an operation has failed with a PeerError, MismatchError, TimeLimitError or AbortedError.
        Returns the new world; ranks that wait to join are in it, too. Earlier communicators are dead: make those that were split from the
        world again. Arrays of empty() stay. The contents of failed operations' outputs are undefined. None: this rank is to leave the job,
        as in grow(). No other thread may use the context meanwhile.
        """
        return self._renew(_native.shrink)

    def grow(self) -> Optional[Communicator]:
        """Admit the ranks that wait to join, and release those that are to leave. Every rank calls it, with no operation in flight.

        Returns the new world, in which newcomers follow the present ranks; otherwise as shrink(). None: this rank is to leave, by
        finalize() and with exit code 0. Raises the error of a failure that came first: then call shrink().
        """
        self._check_no_negotiator("grow()")
        return self._renew(_native.grow)

    @property
    def waiting(self) -> int:
        """How many ranks wait to join or are to leave. Rank 0 alone sees them, and has to let the others know that all must call grow()."""
        self._check_usable()
        return _native.waiting(self._handle)

    @property
    def epoch(self) -> int:
        """0 at the beginning, larger after each shrink() and grow(). Above 0 right after init(): this rank has joined a running job."""
        self._check_usable()
        return _native.epoch(self._handle)

    def abort(self, reason: str) -> None:
        """End the job: operations of all ranks fail with this reason and the rank's name."""
        self._check_usable()
        _native.abort(self._handle, reason)

    def finalize(self) -> None:
        """Leave the job. It waits until all ranks do; requests that were not waited for are waited for first.

        Raises what such a request raises, or the failure of a job of which this rank has not heard.
        """
        if self._handle is None or self._forked:
            return
        first: Optional[Error] = None
        for negotiator in list(self._negotiators):
            with contextlib.suppress(Error):  # the failure of a job is raised below
                negotiator.close()
        for request in list(self._pending.values()):
            try:
                request.wait()
            except Error as error:
                first = first or error
        handle, self._handle = self._handle, None
        outcome = _native.close(handle)
        if first:
            raise first
        check(outcome)


def _text_of(kind: Any, error: Any) -> str:
    """The exception as libweft takes it: valid UTF-8 without NUL."""
    try:
        text = f"{kind.__name__}: {error}" if str(error) else kind.__name__
    except Exception:  # pylint: disable=broad-except
        text = kind.__name__
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


_current: Optional[Context] = None  # of weft.init()


_former_hook: Optional[Callable[[Any, Any, Any], Any]] = None  # sys.excepthook before ours; None: ours is not there yet


def _end_with_exception(kind: Any, error: Any, trace: Any) -> None:
    """An exception that nobody catches ends the job, so that no other rank waits for this one. In a dialog the program goes on."""
    try:
        if is_initialized() and not hasattr(sys, "ps1") and not sys.flags.interactive:
            _native.abort(_initialized()._handle, _text_of(kind, error))
    finally:
        (_former_hook or sys.__excepthook__)(kind, error, trace)


def _leave_at_exit() -> None:
    try:
        finalize()
    except Error as error:
        print(f"weft: {error}", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # the only way to an exit code from here


def init(**settings: Any) -> Communicator:
    """Join the job that weft run, mpirun, srun or torchrun has started; alone without a launcher. Returns the world.

    Settings are those of Context; without any, everything comes from the launcher. Call it once, before threads and workers are made. At
    its end the program leaves the job by itself, and exits with code 1 if the job failed and no call reported it. An uncaught exception ends
    the whole job with its message; sys.exit() only leaves it.
    """
    global _current, _former_hook
    if _current is not None and _current._handle is not None and not _current._forked:
        raise StateError("weft.init() was called already: use weft.world(), or call weft.finalize() first")
    _current = Context(**settings)
    if _former_hook is None:
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


def world() -> Optional[Communicator]:
    """The communicator of all ranks; another one after shrink() and grow(). None after those two on a rank that is to leave."""
    return _initialized().world


def shrink() -> Optional[Communicator]:
    """See Context.shrink()."""
    return _initialized().shrink()


def grow() -> Optional[Communicator]:
    """See Context.grow()."""
    return _initialized().grow()


def waiting() -> int:
    """See Context.waiting."""
    return _initialized().waiting


def epoch() -> int:
    """See Context.epoch."""
    return _initialized().epoch


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
