# SPDX-License-Identifier: Apache-2.0
"""The job of this process: init and shutdown, ranks and sizes, process sets, and the ranks that remain after a failure.

A process joins its job once: shutdown() ends the operations and keeps Weft's context, so that init() may follow. Calls that change the
job use a communicator of their own (`_control`), in the same order on all ranks.
"""
from __future__ import annotations

import atexit
import os
import sys
import warnings
import zlib
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy
import weft

from . import util
from .channel import Channel
from .environment import Settings, read_settings
from .exceptions import HorovodInternalError
from .process_sets import ProcessSet, global_process_set

_DESCRIPTION = 256  # bytes of a description that ranks compare
# Errors after which the ranks that are left can open the job again.
_COMMUNICATION = (weft.PeerError, weft.TimeLimitError, weft.AbortedError, weft.NetworkError, weft.RendezvousError, weft.StateError)


class HorovodBasics:
    """What programs can ask and change about the job. There is one: `basics`."""

    Average, Sum, Adasum, Min, Max, Product = range(6)

    def __init__(self) -> None:
        self._world: Optional[weft.Communicator] = None  # the one that _control was made from
        self._control: Optional[weft.Communicator] = None
        self._members: Optional[Tuple[int, ...]] = None  # the ranks that init(comm=) named; None: all
        self._settings: Optional[Settings] = None
        self._dynamic = False
        self._requested: List[ProcessSet] = []  # those of init(process_sets=)
        self._sets: List[ProcessSet] = []  # initialized ones, the global one first
        self._next_id = 0
        self._size = self._rank = self._local_size = self._local_rank = self._cross_size = self._cross_rank = 0
        self._homogeneous = True
        self._process: Optional[int] = None  # that called init(); None: not initialized
        self._registered = False

    # The job

    def init(self, comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
        """Join the job. `comm`: the ranks that form it, each of which passes the same list; None: all.

        `process_sets`: a list of ProcessSet to initialize; "dynamic" allows add_process_set() later. All ranks pass the same. A second call
        does nothing. After shutdown() it opens the same job again.
        """
        dynamic = isinstance(process_sets, str)
        if dynamic and process_sets.lower() != "dynamic":
            raise ValueError(f"process_sets is '{process_sets}': pass a list of ProcessSet, or \"dynamic\"")
        requested = [] if process_sets is None or dynamic else list(process_sets)
        for entry in requested:
            if not isinstance(entry, ProcessSet):
                raise ValueError(f"process_sets has an entry of type {type(entry).__name__}: each must be a hvd.ProcessSet")
        if self.is_initialized():
            if any(entry not in self._sets for entry in requested):
                raise ValueError("Horovod is initialized already, without these process sets: call hvd.add_process_set(), or hvd.shutdown() "
                                 "first")
            self._dynamic = self._dynamic or dynamic
            return
        settings = read_settings()
        self._join_job(comm, settings)
        self._settings, self._dynamic = settings, dynamic or settings.dynamic_process_sets
        self._requested = requested
        try:
            self._open(strict=self._control.context.epoch == 0)
        except weft.Error as error:
            raise HorovodInternalError(f"Horovod could not be initialized: {error}") from error

    def _join_job(self, comm: Optional[Sequence[int]], settings: Settings) -> None:
        """Make _control."""
        members = None
        if comm is not None and not (util.is_iterable(comm) and all(isinstance(rank, int) for rank in comm)):
            raise ValueError(f"comm must be a list of ranks, or None for all, not {comm!r}: communicators of MPI are not supported")
        if comm:
            members = tuple(comm)
        try:
            if not weft.is_initialized():
                weft.init(rendezvous_limit=settings.arrival_seconds)
            world = weft.world()
            if members is not None and world.rank not in members:
                raise ValueError(f"rank {world.rank} calls hvd.init(comm={list(members)}), which leaves it out: pass a list with this rank")
            if self._control is None or self._world is not world or self._members != members:
                self._control = world.split(0) if members is None else world.subset(members)
                self._world, self._members = world, members
        except weft.Error as error:
            raise HorovodInternalError(f"Horovod could not be initialized: {error}") from error
        if not self._registered:  # after weft.init(), so that it runs before the job is left
            atexit.register(self.shutdown)
            self._registered = True

    def _open(self, strict: bool) -> None:
        """Start operations on _control's ranks.

        `strict`: a process set that has a rank that does not exist, or all ranks, is an error. After a change of the ranks the first is left
        out, and the second allowed. A timeline that cannot be written is an error, or a warning.
        """
        control = self._control
        self._rank, self._size = control.rank, control.size
        self._local_rank, self._local_size = control.local_rank, control.local_size
        places = control.allgather(numpy.array([[control.node, control.local_rank, control.local_size]], "i4")).tolist()
        peers = [node for node, local_rank, _ in places if local_rank == control.local_rank]
        self._cross_rank, self._cross_size = peers.index(control.node), len(peers)
        self._homogeneous = len({local_size for _, _, local_size in places}) == 1
        everyone = list(range(self._size))
        wanted = [entry for entry in self._requested if strict or entry.ranks[-1:] < [self._size]]
        self._agree("init", [entry.ranks for entry in wanted])
        for entry in wanted:
            self._check_new(entry, [other.ranks for other in wanted if other is not entry] + ([everyone] if strict else []))
        global_process_set.ranks = everyone
        self._sets, self._next_id = [], 0
        self._process = os.getpid()
        try:
            for entry in [global_process_set, *wanted]:
                self._initialize(entry)
        except weft.Error:
            self._close()
            raise
        os.environ.update(HOROVOD_RANK=str(self._rank), HOROVOD_SIZE=str(self._size), HOROVOD_LOCAL_RANK=str(self._local_rank),
                          HOROVOD_LOCAL_SIZE=str(self._local_size), HOROVOD_CROSS_RANK=str(self._cross_rank),
                          HOROVOD_CROSS_SIZE=str(self._cross_size))
        if self._settings.timeline is not None:
            try:
                self.start_timeline(self._settings.timeline, self._settings.mark_cycles)
            except weft.Error as error:
                if strict:
                    raise
                warnings.warn(f"no timeline is written from now on: {error}")

    def _close(self) -> None:
        """End all operations."""
        inherited = self._process != os.getpid()  # by a process that was forked, and does not have the threads
        for entry in reversed(self._sets):
            channel, entry._channel, entry.process_set_id = entry._channel, None, None
            if channel is not None and not inherited:
                try:
                    channel.close()
                except weft.Error:
                    pass  # the job has failed, which the operations reported
        self._sets, self._process = [], None

    def shutdown(self) -> None:
        """End the operations on all ranks; those that are not complete fail. init() may follow."""
        if self._process is not None:
            self._close()

    def recover(self, failed: bool) -> None:
        """Open the job again with the ranks that are left and those that wait to join. Every rank calls it.

        `failed`: an operation has failed. Without, nothing is in flight, and ranks wait or are to leave. On a rank that is to leave it ends
        the program.
        """
        if self._members is not None:
            raise ValueError("elastic training is for all ranks of a job: call hvd.init() without comm")
        reason = f"rank {self._rank} restarts its operations after a failure"
        self._close()
        context = self._control.context
        while True:
            try:
                world = self._shrink(context, reason) if failed else context.grow()
            except weft.Error as error:
                if failed:
                    raise HorovodInternalError(f"this rank cannot go on: {error}") from error
                failed = True
                continue
            if world is None:
                weft.finalize()
                sys.exit(0)
            try:
                self._control, self._world, self._members = world.split(0), world, None
                self._open(strict=False)
                return
            except _COMMUNICATION:  # another rank was lost
                self._process, failed = None, True
            except weft.Error as error:
                raise HorovodInternalError(f"this rank cannot go on: {error}") from error

    def _shrink(self, context: weft.Context, reason: str) -> Optional[weft.Communicator]:
        try:
            return context.shrink()
        except weft.StateError:
            if self._world.size == 1:
                return self._world
            # Ranks disagreed about an operation, or one has shut down, and nothing is broken: let all come here.
            context.abort(reason)
            try:
                while True:
                    self._control.barrier()
            except weft.Error:
                return context.shrink()

    # Agreement

    def _agree(self, what: str, value: Any) -> None:
        """Raise ValueError on all ranks if they have different values."""
        whole = f"{what} {value}".encode()
        text = b"%08x%s" % (zlib.crc32(whole), whole[:_DESCRIPTION - 8])  # of long ones the beginning, and a checksum
        own = numpy.zeros((1, _DESCRIPTION), "u1")
        own[0, :len(text)] = numpy.frombuffer(text, "u1")
        gathered = self._control.allgather(own)
        for rank in range(1, len(gathered)):
            if (gathered[rank] != gathered[0]).any():
                texts = [bytes(gathered[i])[8:].rstrip(b"\0").decode(errors="replace") for i in (0, rank)]
                raise ValueError(f"ranks disagree about process sets: rank 0 calls '{texts[0]}', rank {rank} calls '{texts[1]}'; "
                                 f"all ranks must make the same calls with the same ranks")

    # Process sets

    def _check_new(self, entry: ProcessSet, others: Sequence[Sequence[int]]) -> None:
        if not entry.ranks or entry.ranks[-1] >= self._size:
            raise ValueError(f"{entry} must have ranks from 0 to {self._size - 1}, and at least one")
        if entry.ranks in others:
            raise ValueError(f"there is a process set with the ranks {entry.ranks} already: use that one; hvd.global_process_set has all ranks")

    def _initialize(self, entry: ProcessSet) -> None:
        """Collective over all ranks."""
        communicator = self._control
        if entry is not global_process_set:
            communicator = self._control.split(0 if self._rank in entry.ranks else -1)
        if communicator is not None:
            entry._channel = Channel(communicator, entry.ranks, self._settings)
            if communicator is not self._control:
                communicator.free()  # the channel has its own
        entry.process_set_id, self._next_id = self._next_id, self._next_id + 1
        self._sets.append(entry)

    def _check_dynamic(self) -> None:
        self._check_initialized()
        if not self._dynamic:
            raise ValueError("process sets can be added and removed only with HOROVOD_DYNAMIC_PROCESS_SETS=1 or "
                             "hvd.init(process_sets=\"dynamic\")")

    def add_process_set(self, entry: ProcessSet) -> None:
        """See horovod.common.process_sets.add_process_set()."""
        self._check_dynamic()
        try:
            self._agree("add_process_set", entry.ranks)
            self._check_new(entry, [other.ranks for other in self._sets])
            self._initialize(entry)
        except weft.Error as error:
            raise HorovodInternalError(str(error)) from error

    def remove_process_set(self, entry: ProcessSet) -> bool:
        """See horovod.common.process_sets.remove_process_set()."""
        self._check_dynamic()
        if entry is global_process_set or entry not in self._sets:
            return False
        try:
            self._agree("remove_process_set", entry.ranks)
            self._sets.remove(entry)
            channel, entry._channel, entry.process_set_id = entry._channel, None, None
            if channel is not None:
                channel.close()
        except weft.Error as error:
            raise HorovodInternalError(str(error)) from error
        return True

    # Ranks that wait

    def ranks_wait(self) -> bool:
        """Whether ranks wait to join or are to leave; the same on all ranks, which all call it."""
        waiting = numpy.array([self._control.context.waiting], "i4")
        global_process_set._open().submit("allreduce", "allreduce", "horovod.ranks_wait", [(waiting, waiting)], op="max", waits=True).wait()
        return bool(waiting[0])

    # Timeline

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Write a timeline of the operations of all ranks to a file, in Chrome's format. Rank 0 writes it."""
        self._check_initialized()
        global_process_set._open().start_timeline(os.fspath(file_path), bool(mark_cycles))

    def stop_timeline(self) -> None:
        """End the timeline."""
        self._check_initialized()
        global_process_set._open().stop_timeline()

    # Numbers

    def _check_initialized(self) -> None:
        if self._process is None:
            raise ValueError("Horovod has not been initialized; use hvd.init().")

    def is_initialized(self) -> bool:
        """Whether init() was called, and not shutdown() since."""
        return self._process is not None

    def size(self) -> int:
        """The number of ranks."""
        self._check_initialized()
        return self._size

    def rank(self) -> int:
        """This process's number among them, from 0 on."""
        self._check_initialized()
        return self._rank

    def local_size(self) -> int:
        """The number of ranks on this node."""
        self._check_initialized()
        return self._local_size

    def local_rank(self) -> int:
        """This process's number among those of its node."""
        self._check_initialized()
        return self._local_rank

    def cross_size(self) -> int:
        """The number of nodes that have a rank with this process's local_rank()."""
        self._check_initialized()
        return self._cross_size

    def cross_rank(self) -> int:
        """The number of this process's node among those."""
        self._check_initialized()
        return self._cross_rank

    def is_homogeneous(self) -> bool:
        """Whether all nodes have equal numbers of ranks."""
        self._check_initialized()
        return self._homogeneous

    # What Horovod may be built with. Weft takes the place of all of these.

    def mpi_threads_supported(self) -> bool:
        """Raises ValueError: there is no MPI that could be used beside Horovod."""
        raise ValueError("MPI is not used: Weft connects the ranks; ask hvd.mpi_enabled() first")

    def mpi_enabled(self) -> bool:
        """False."""
        return util.mpi_built()

    def mpi_built(self) -> bool:
        """False."""
        return util.mpi_built()

    def gloo_enabled(self) -> bool:
        """True: see gloo_built()."""
        return util.gloo_built()

    def gloo_built(self) -> bool:
        """True: programs ask for it where they need operations without MPI, and Weft provides those."""
        return util.gloo_built()

    def nccl_built(self) -> int:
        """0: operations work on tensors on the CPU."""
        return 0

    def ddl_built(self) -> bool:
        """False."""
        return util.ddl_built()

    def ccl_built(self) -> bool:
        """False."""
        return util.ccl_built()

    def cuda_built(self) -> bool:
        """False: operations work on tensors on the CPU."""
        return False

    def rocm_built(self) -> bool:
        """False: operations work on tensors on the CPU."""
        return False


basics = HorovodBasics()
