# SPDX-License-Identifier: Apache-2.0
"""Communicators: collectives and messages on arrays, blocking or as requests.

Arrays are NumPy arrays, tensors of PyTorch on the CPU, or objects with __dlpack__(). Nothing is copied, except an input that is not
contiguous. Collectives that join or divide do so along the first axis: an all-gather of arrays of shape (n, m) over 4 ranks has the shape
(4 n, m). Results are made where no `out` is given; `out` may be the input (in place) wherever the shapes are the same.
"""
from __future__ import annotations

import math
import operator
import struct
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from . import _native, ops
from .buffers import NUMBERS, Buffer, buffer_of, contiguous, empty_like
from .errors import ArgumentError, StateError, check, result

_NUMBERS = {name: number for number, name in enumerate(_native.OPERATIONS)}
_NOTHING = Buffer(0, 0, NUMBERS["u8"], (), None)


class Call(NamedTuple):
    """An operation on checked buffers, and its result for the program."""

    name: str
    input: Buffer
    output: Buffer
    count: int
    result: Any
    op: ops.Op = ops.SUM
    root: int = 0
    vectors: Optional[Tuple[Optional[bytes], ...]] = None


def _pack(numbers: Optional[Sequence[int]]) -> Optional[bytes]:
    """As an array of size_t."""
    return None if numbers is None else struct.pack(f"@{len(numbers)}N", *numbers)


def _whole(numbers: Optional[Sequence[int]], what: str, size: int) -> Optional[List[int]]:
    """As Python's own whole numbers, which do not overflow."""
    if numbers is None:
        return None
    try:
        whole = [operator.index(number) for number in numbers]
    except TypeError as error:
        raise ArgumentError(f"{what} must be whole numbers, one for each rank: {numbers}") from error
    if len(whole) != size or min(whole) < 0 or max(whole) >= 1 << 63:
        raise ArgumentError(f"{what} must have an entry for each of the {size} ranks, from 0 on: {whole}")
    return whole


class Operations:
    """Collectives and messages. What they return is up to `_do()`: results (Communicator), or requests (Communicator.start)."""

    size: int
    rank: int

    def _do(self, call: Call) -> Any:
        raise NotImplementedError

    # Arguments

    def _input(self, given: Any) -> Tuple[Any, Buffer]:
        given = contiguous(given)
        return given, buffer_of(given, "the input")

    def _output(self, out: Optional[Any], like: Any, shape: Tuple[int, ...], source: Buffer) -> Tuple[Any, Buffer]:
        """`out`, or a new array of `shape`; checked against what the operation writes."""
        out = empty_like(like, shape) if out is None else out
        buffer = buffer_of(out, "the output", written=True)
        count = math.prod(shape)
        if buffer.count != count or buffer.type != source.type:
            raise ArgumentError(f"the output has {buffer.count} elements of type {_native.TYPES[buffer.type]}; the operation gives {count} of "
                                f"type {_native.TYPES[source.type]}: pass an output of shape {shape}")
        return out, buffer

    def _joined(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        return (self.size * shape[0], *shape[1:]) if shape else (self.size,)

    def _divided(self, shape: Tuple[int, ...]) -> Tuple[int, ...]:
        if not shape or shape[0] % self.size:
            raise ArgumentError(f"an input of shape {shape} cannot be divided among {self.size} ranks: its first axis must be a multiple of that")
        return (shape[0] // self.size, *shape[1:])

    def _check_op(self, op: ops.Op) -> None:
        if not isinstance(op, ops.Op):
            raise ArgumentError(f"the operation is of type {type(op).__name__}; pass weft.SUM or another of weft's, and an output as out=")

    def _reduced(self, name: str, given: Any, op: ops.Op, out: Optional[Any]) -> Any:
        self._check_op(op)
        given, source = self._input(given)
        out, target = self._output(out, given, source.shape, source)
        return self._do(Call(name, source, target, source.count, out, op))

    # Collectives

    def allreduce(self, input: Any, op: ops.Op = ops.SUM, *, out: Optional[Any] = None) -> Any:
        """Combine the inputs of all ranks, element by element; every rank gets the result, with the same bits."""
        return self._reduced("allreduce", input, op, out)

    def scan(self, input: Any, op: ops.Op = ops.SUM, *, out: Optional[Any] = None) -> Any:
        """Rank r gets the combination of the inputs of ranks 0 to r."""
        return self._reduced("scan", input, op, out)

    def exscan(self, input: Any, op: ops.Op = ops.SUM, *, out: Optional[Any] = None) -> Any:
        """Rank r gets the combination of the inputs of the ranks before it; rank 0 gets zeros, or its `out` as it is."""
        if out is None and self.rank == 0:
            given, source = self._input(input)
            out = empty_like(given, source.shape)
            out[...] = 0
        return self._reduced("exscan", input, op, out)

    def reduce(self, input: Any, op: ops.Op = ops.SUM, *, root: int = 0, out: Optional[Any] = None) -> Any:
        """Combine the inputs of all ranks; the root gets the result, others None."""
        self._check_op(op)
        given, source = self._input(input)
        if self.rank != root:
            return self._do(Call("reduce", source, _NOTHING, source.count, None, op, root))
        out, target = self._output(out, given, source.shape, source)
        return self._do(Call("reduce", source, target, source.count, out, op, root))

    def reduce_scatter(self, input: Any, op: ops.Op = ops.SUM, *, out: Optional[Any] = None) -> Any:
        """Combine the inputs of all ranks; rank r gets block r of the result."""
        self._check_op(op)
        given, source = self._input(input)
        out, target = self._output(out, given, self._divided(source.shape), source)
        return self._do(Call("reduce_scatter", source, target, target.count, out, op))

    def allgather(self, input: Any, *, out: Optional[Any] = None) -> Any:
        """Every rank gets the inputs of all ranks, in rank order."""
        given, source = self._input(input)
        out, target = self._output(out, given, self._joined(source.shape), source)
        return self._do(Call("allgather", source, target, source.count, out))

    def broadcast(self, buffer: Any, *, root: int = 0) -> Any:
        """Copy the root's buffer to the buffer of every rank; returns the buffer."""
        target = buffer_of(buffer, "the buffer", written=self.rank != root)
        return self._do(Call("broadcast", _NOTHING, target, target.count, buffer, root=root))

    def alltoall(self, input: Any, *, out: Optional[Any] = None) -> Any:
        """Block j of rank i's input becomes block i of rank j's output."""
        given, source = self._input(input)
        self._divided(source.shape)
        out, target = self._output(out, given, source.shape, source)
        return self._do(Call("alltoall", source, target, source.count // self.size, out))

    def gather(self, input: Any, *, root: int = 0, out: Optional[Any] = None) -> Any:
        """The root gets the inputs of all ranks, in rank order; others None."""
        given, source = self._input(input)
        if self.rank != root:
            return self._do(Call("gather", source, _NOTHING, source.count, None, root=root))
        out, target = self._output(out, given, self._joined(source.shape), source)
        return self._do(Call("gather", source, target, source.count, out, root=root))

    def scatter(self, input: Optional[Any] = None, *, root: int = 0, out: Optional[Any] = None) -> Any:
        """Rank r gets block r of the root's input. Ranks other than the root pass `out`, and no input."""
        if self.rank != root:
            if out is None:
                raise ArgumentError(f"rank {self.rank} receives from a scatter, and does not know the shape of its block: pass out")
            target = buffer_of(out, "the output", written=True)
            return self._do(Call("scatter", _NOTHING, target, target.count, out, root=root))
        given, source = self._input(input)
        out, target = self._output(out, given, self._divided(source.shape), source)
        return self._do(Call("scatter", source, target, target.count, out, root=root))

    def barrier(self) -> Any:
        """Return when all ranks have called it."""
        return self._do(Call("barrier", _NOTHING, _NOTHING, 0, None))

    # Blocks of different sizes. Counts and displacements are in elements.

    def allgatherv(self, input: Any, counts: Sequence[int], out: Any, *, displacements: Optional[Sequence[int]] = None) -> Any:
        """Rank r's input of counts[r] elements becomes the elements of `out` from displacements[r] on (None: one block after the other)."""
        counts, displacements = self._blocks(counts, displacements)
        _, source = self._input(input)
        self._own(counts, source.count, "input")
        target = self._places(out, counts, displacements, source.type)
        return self._do(Call("allgatherv", source, target, 0, out, vectors=(None, None, _pack(counts),
                                                                            _pack(displacements))))

    def gatherv(self, input: Any, counts: Sequence[int], out: Optional[Any] = None, *, root: int = 0,
                displacements: Optional[Sequence[int]] = None) -> Any:
        """As allgatherv(), to the root alone. Other ranks need to know only their own count."""
        counts, displacements = self._blocks(counts, displacements)
        _, source = self._input(input)
        self._own(counts, source.count, "input")
        target = self._places(out, counts, displacements, source.type) if self.rank == root else _NOTHING._replace(type=source.type)
        return self._do(Call("gatherv", source, target, 0, out if self.rank == root else None, root=root,
                             vectors=(None, None, _pack(counts), _pack(displacements))))

    def scatterv(self, input: Optional[Any], counts: Sequence[int], out: Any, *, root: int = 0,
                 displacements: Optional[Sequence[int]] = None) -> Any:
        """Rank r's output of counts[r] elements comes from the root's input, from displacements[r] on. Others know only their own count."""
        counts, displacements = self._blocks(counts, displacements)
        target = buffer_of(out, "the output", written=True)
        self._own(counts, target.count, "output")
        source = self._places(input, counts, displacements, target.type, False) if self.rank == root else _NOTHING._replace(type=target.type)
        return self._do(Call("scatterv", source, target, 0, out, root=root,
                             vectors=(_pack(counts), _pack(displacements), None, None)))

    def alltoallv(self, input: Any, send_counts: Sequence[int], out: Any, receive_counts: Sequence[int], *,
                  send_displacements: Optional[Sequence[int]] = None, receive_displacements: Optional[Sequence[int]] = None) -> Any:
        """send_counts[j] elements go to rank j, receive_counts[j] come from it."""
        send_counts, send_displacements = self._blocks(send_counts, send_displacements)
        receive_counts, receive_displacements = self._blocks(receive_counts, receive_displacements)
        source = self._places(input, send_counts, send_displacements, None, False)
        target = self._places(out, receive_counts, receive_displacements, source.type)
        return self._do(Call("alltoallv", source, target, 0, out,
                             vectors=(_pack(send_counts), _pack(send_displacements),
                                      _pack(receive_counts), _pack(receive_displacements))))

    def _blocks(self, counts: Sequence[int], displacements: Optional[Sequence[int]]) -> Tuple[List[int], Optional[List[int]]]:
        if counts is None:
            raise ArgumentError(f"counts must have an entry for each of the {self.size} ranks")
        return _whole(counts, "counts", self.size) or [], _whole(displacements, "displacements", self.size)

    def _own(self, counts: Sequence[int], count: int, which: str) -> None:
        if counts[self.rank] != count:
            raise ArgumentError(f"the count of rank {self.rank} must be {count}, the number of elements of its {which}: {list(counts)}")

    def _places(self, given: Any, counts: Sequence[int], displacements: Optional[Sequence[int]], kind: Optional[int],
                written: bool = True) -> Buffer:
        """A buffer that holds a block for each rank."""
        which = "output" if written else "input"
        if given is None:
            raise ArgumentError(f"rank {self.rank} must pass an {which}")
        buffer = buffer_of(given if written else contiguous(given), f"the {which}", written)
        if kind is not None and buffer.type != kind:
            raise ArgumentError(f"the {which} is of type {_native.TYPES[buffer.type]}, the other side of type {_native.TYPES[kind]}")
        ends: List[int] = []
        for rank, count in enumerate(counts):
            begin = displacements[rank] if displacements is not None else ends[-1] if ends else 0
            ends.append(begin + count)
            if count and begin + count > buffer.count:
                raise ArgumentError(f"the block of rank {rank} ends at element {begin + count}, but the {which} has {buffer.count}")
        return buffer

    # Messages

    def send(self, input: Any, peer: int) -> Any:
        """Send the elements of `input` to a rank, which must call receive()."""
        _, source = self._input(input)
        return self._do(Call("send", source, _NOTHING, source.count, None, root=peer))

    def receive(self, out: Any, peer: int) -> Any:
        """Receive as many elements as `out` has from a rank; returns `out`."""
        target = buffer_of(out, "the output", written=True)
        return self._do(Call("receive", _NOTHING, target, target.count, out, root=peer))


class Request:
    """A started operation. Its buffers must not be touched before wait() has returned."""

    def __init__(self, communicator: "Communicator", call: Call):
        self._communicator, self._call = communicator, call
        self._handle: Any = None  # set when it begins, at once or at the end of a group
        self._ended, self._outcome = False, None
        self._lock = threading.Lock()

    def _begin(self) -> None:
        self._handle = result(_native.start(*self._communicator._arguments(self._call)))
        self._communicator.context._pending[id(self)] = self  # keeps the buffers alive, too

    def _check_begun(self) -> None:
        self._communicator.context._check_usable()
        if self._handle is None:
            raise StateError("the request begins at the end of its group, and cannot be waited for before")

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not; wait() says which."""
        if self._ended:
            return True
        self._check_begun()
        return result(_native.done(self._communicator._handle, self._handle))

    def wait(self) -> Any:
        """Wait for the end; returns what the blocking operation returns, or raises what it raises."""
        with self._lock:
            if not self._ended:
                self._check_begun()
                self._outcome = _native.wait(self._communicator._handle, self._handle)
                self._ended, self._handle = True, None
                self._communicator.context._pending.pop(id(self), None)
        check(self._outcome)
        return self._call.result


def wait_all(requests: Sequence[Request]) -> List[Any]:
    """Wait for all of them; their results. If several fail, the first failure is raised after all have ended."""
    results: List[Any] = []
    first: Optional[Exception] = None
    for request in requests:
        try:
            results.append(request.wait())
        except Exception as error:  # pylint: disable=broad-except
            first = first or error
    if first:
        raise first
    return results


class _Started(Operations):
    """The operations of a communicator as requests."""

    def __init__(self, communicator: "Communicator"):
        self.communicator, self.size, self.rank = communicator, communicator.size, communicator.rank

    def _do(self, call: Call) -> Request:
        request = Request(self.communicator, call)
        self.communicator._begin_or_queue(request._begin)
        return request


class Communicator(Operations):
    """Ranks that communicate. Collectives block; those of `start` return requests.

        world = weft.init()
        total = world.allreduce(gradient)
        request = world.start.allreduce(gradient)
        ...
        total = request.wait()
    """

    def __init__(self, context: Any, handle: Any):
        self.context, self._handle = context, handle
        self.rank, self.size, self.local_rank, self.local_size, self.node, self.nodes = _native.describe(handle)
        self.start = _Started(self)

    def __repr__(self) -> str:
        return f"<weft.Communicator: rank {self.rank} of {self.size}>"

    def _arguments(self, call: Call) -> Tuple[Any, ...]:
        kind = call.output.type if call.input is _NOTHING else call.input.type
        return (self._live(), _NUMBERS[call.name], call.input.address, call.output.address, call.count, kind, call.op.kind, call.op.factor,
                call.root, call.vectors)

    def _live(self) -> Any:
        self.context._check_usable()
        if self._handle is None:
            raise ArgumentError("the communicator was freed")
        return self._handle

    def _begin_or_queue(self, begin: Callable[[], None]) -> None:
        """Begin an operation now, or at the end of the group that is open."""
        self._live()
        if self.context._grouped is None:
            begin()
        else:
            self.context._grouped.append(begin)

    def _do(self, call: Call) -> Any:
        self._begin_or_queue(lambda: check(_native.run(*self._arguments(call))))
        return call.result

    def host(self, rank: int) -> str:
        """The name of the host that a rank runs on."""
        if not 0 <= rank < self.size:
            raise ArgumentError(f"there is no rank {rank}; there are 0 to {self.size - 1}")
        return _native.host(self._live(), rank)

    # Making others. Each is an operation of this communicator: all its ranks call it.

    def _made(self, handle: Any) -> Optional["Communicator"]:
        return None if handle is None else Communicator(self.context, handle)

    def split(self, color: int, key: int = 0) -> Optional["Communicator"]:
        """Communicators of the ranks with equal colors, in the order of their keys. None for a negative color: in none of them."""
        return self._made(result(_native.split(self._live(), color, key)))

    def subset(self, ranks: Sequence[int]) -> Optional["Communicator"]:
        """A communicator of these ranks, in this order. Only they call it."""
        return self._made(result(_native.subset(self._live(), tuple(ranks))))

    def free(self) -> None:
        """Free it; all its ranks do. The world is freed by finalize()."""
        check(_native.free(self._live()))
        self._handle = None

    # Settings, equal on all ranks

    def set_algorithm(self, collective: str, algorithm: Optional[str]) -> None:
        """Use this algorithm for a collective ("allreduce", "ring"); None: what the tuner chooses. `weft explain` lists them."""
        check(_native.set_algorithm(self._live(), collective, algorithm))

    def set_reproducible(self, reproducible: bool = True) -> None:
        """Sums in the canonical order on any placement of ranks."""
        check(_native.set_reproducible(self._live(), reproducible))

    def set_time_limit(self, seconds: float) -> None:
        """The longest that an operation may wait for a rank that is alive; 0: the default."""
        check(_native.set_time_limit(self._live(), seconds))
