# SPDX-License-Identifier: Apache-2.0
"""Process sets: operations among some of the ranks."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

from .channel import Channel
from .exceptions import HorovodInternalError


class ProcessSet:
    """Ranks that run operations together. Pass it to init() or add_process_set(), and then to operations."""

    def __init__(self, ranks: Sequence[int]):
        try:
            numbers = sorted(ranks)
        except TypeError as error:
            raise ValueError(f"a ProcessSet is made from a list of ranks, not from {type(ranks).__name__}: pass for example [0, 1]; "
                             f"communicators of MPI are not supported") from error
        if any(not isinstance(rank, int) or rank < 0 for rank in numbers) or len(set(numbers)) != len(numbers):
            raise ValueError(f"a ProcessSet is made from different ranks, which are whole numbers from 0 on, not from {list(ranks)}")
        self.ranks: List[int] = numbers
        self.process_set_id: Optional[int] = None
        self.mpi_comm: Any = None  # part of Horovod's interface; there is no MPI here
        self._channel: Optional[Channel] = None  # None: not initialized, or this rank does not belong to it

    def size(self) -> Optional[int]:
        """How many ranks it has; None if it is not initialized."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self) -> Optional[int]:
        """This process's number within the set; None if it is not initialized. Roots of broadcasts are numbers of the whole job."""
        if self.process_set_id is None:
            return None
        return self._open().rank

    def included(self) -> bool:
        """Whether this process belongs to it."""
        from .basics import basics
        return basics.rank() in self.ranks

    def _open(self) -> Channel:
        """Its channel; raises why there is none."""
        if self._channel is not None:
            return self._channel
        from .basics import basics
        if not basics.is_initialized():
            raise HorovodInternalError("Horovod has not been initialized; use hvd.init().")
        if self.process_set_id is None:
            raise ValueError(f"{self} is not initialized: pass it to hvd.init() or hvd.add_process_set() first. An elastic reset leaves out sets "
                             "with ranks that do not exist any more, and those of hvd.add_process_set()")
        raise ValueError(f"rank {basics.rank()} does not belong to {self}: only ranks of a process set call its operations")

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


global_process_set = ProcessSet([])  # all ranks; init() fills it


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Initialize a process set after init(), and return it. Every rank of the job calls it with the same ranks.

    Needs HOROVOD_DYNAMIC_PROCESS_SETS=1, or init(process_sets="dynamic").
    """
    from .basics import basics
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    basics.add_process_set(made)
    return made


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set; whether it was there. Every rank of the job calls it. The set of all ranks stays."""
    from .basics import basics
    return basics.remove_process_set(process_set)
