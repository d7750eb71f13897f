# SPDX-License-Identifier: Apache-2.0
"""Named operations of the ranks of one process set."""
from __future__ import annotations

import itertools
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import weft
from weft.negotiation import Negotiator, Operation

from .environment import Settings
from .exceptions import HorovodInternalError

# Operations without a name get one of this many, in turn: names that return are negotiated faster.
UNNAMED = 256
# Whether a name is used twice at the same time must not depend on how fast the first operation is. So a name counts as used for this many
# seconds, unless the program waits for an operation meanwhile.
_NAME_SECONDS = 0.01
_NAMES = 4096  # remembered for that at most


class _Unnamed:
    """Names for operations of one kind that have none, and the operations that use them."""

    __slots__ = ("names", "numbers", "current")

    def __init__(self, label: str):
        self.names = [f"{label}.noname.{i}" for i in range(UNNAMED)]
        self.numbers: Iterator[int] = itertools.count()
        self.current: List[Optional[Operation]] = [None] * UNNAMED


class Pending:
    """A submitted operation, and what its caller gets in the end."""

    __slots__ = ("operation", "result", "finish", "unnamed", "place", "recent")

    def __init__(self, operation: Operation, unnamed: Optional[_Unnamed], place: int, recent: Dict[str, float]):
        self.operation, self.recent = operation, recent
        self.result: Any = None
        self.finish: Any = None  # called with the operation when it has ended well; it returns the result
        self.unnamed, self.place = unnamed, place

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        ended = self.operation.done
        if ended:
            self.recent.clear()
        return ended

    def wait(self) -> Any:
        """Wait for the end, and return the result."""
        operation = self.operation
        self.recent.clear()
        try:
            operation.wait()
        except weft.Error as error:
            raise HorovodInternalError(str(error)) from error
        finally:
            if self.unnamed is not None and self.unnamed.current[self.place] is operation:
                self.unnamed.current[self.place] = None
        return self.result if self.finish is None else self.finish(operation)


class Channel:
    """This process's access to a process set that it belongs to. Ranks of it are numbered within the set; `ranks` are those of the job."""

    def __init__(self, communicator: weft.Communicator, ranks: Sequence[int], settings: Settings):
        self.rank, self.size, self.ranks = communicator.rank, communicator.size, tuple(ranks)
        self.place_of = {rank: place for place, rank in enumerate(self.ranks)}
        self._unnamed: Dict[str, _Unnamed] = {}
        self._recent: Dict[str, float] = {}  # names in use, and since when
        self._negotiator = Negotiator(communicator, fusion_bytes=settings.fusion_bytes, cycle_seconds=settings.cycle_seconds,
                                      cache=settings.cache, stall_seconds=settings.stall_seconds,
                                      stall_end_seconds=settings.stall_end_seconds)

    def submit(self, label: str, kind: str, name: Optional[str], tensors: Sequence[Tuple[Any, Any]], **options: Any) -> Pending:
        """Submit an operation. Its full name is `label`.`name`; `kind` and `options` are those of weft.negotiation.

        Raises ValueError for arguments that cannot be right, and for a name that is in flight on this rank.
        """
        unnamed, place = None, 0
        if name is None:
            unnamed = self._unnamed.get(label) or self._unnamed.setdefault(label, _Unnamed(label))
            place = next(unnamed.numbers) % UNNAMED
            before = unnamed.current[place]
            if before is not None and not before.done:
                try:
                    before.wait()
                except weft.Error:
                    pass  # its own caller gets the error
            full = unnamed.names[place]
        else:
            full = f"{label}.{name}"
            self._check_name(full)
        try:
            operation = self._negotiator.submit(kind, full, tensors, **options)
        except weft.ArgumentError:  # a ValueError, with a message for the program's author
            raise
        except weft.Error as error:
            raise HorovodInternalError(str(error)) from error
        if unnamed is not None:
            unnamed.current[place] = operation
        else:
            self._recent[full] = time.monotonic()
        return Pending(operation, unnamed, place, self._recent)

    def _check_name(self, name: str) -> None:
        """Raise ValueError if the name was used just now."""
        since = self._recent.get(name)
        if since is not None and time.monotonic() - since < _NAME_SECONDS:
            raise ValueError(f"'{name}': an operation of this name is in flight on rank {self.rank}: wait for it, or give each its own name")
        if len(self._recent) >= _NAMES:
            self._recent.clear()

    def restart_names(self) -> None:
        """Count operations without a name from the beginning. All ranks do so together: after a join their numbers differ."""
        for unnamed in self._unnamed.values():
            unnamed.numbers = itertools.count()

    def start_timeline(self, path: str, mark_cycles: bool) -> None:
        self._negotiator.start_timeline(path, mark_cycles)

    def stop_timeline(self) -> None:
        self._negotiator.stop_timeline()

    def close(self) -> None:
        """End the operations of the set on all its ranks. Those that are not complete fail."""
        self._negotiator.close()
