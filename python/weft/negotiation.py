# SPDX-License-Identifier: Apache-2.0
"""Operations by name, which ranks may submit in different orders: for gradients that become ready in an order of each rank's own.

    negotiator = Negotiator(weft.init())
    operation = negotiator.submit("allreduce", "layer1.weight", [(gradient, gradient)], op="average")
    ...
    operation.wait()

`include/weft/negotiation.h` says how it works.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _native
from .buffers import NUMBERS, buffer_of
from .communicator import Communicator
from .errors import ArgumentError, StateError, check, result

_KINDS = {name: number for number, name in enumerate(_native.NAMED_KINDS)}
_OPS = {name: number for number, name in enumerate(_native.OPS)}
_tensor_types: Dict[Any, int] = {}  # by torch.dtype; str() of it takes as long as a small operation


def _part(given: Any, output: Any, divided_by: Optional[Callable[[int], int]]) -> Tuple[int, int, int, Tuple[int, ...]]:
    """Addresses, type and shape of an input and its output, or None where the operation makes its result.

    `divided_by`: gives this rank's rows of so many, where the operation divides them.
    """
    kind = _tensor_types.get(getattr(given, "dtype", None))
    if kind is None or given.device.type != "cpu" or not given.is_contiguous():
        source = buffer_of(given, "the input")
        if hasattr(given, "data_ptr"):
            _tensor_types[given.dtype] = source.type
        address, kind, shape = source.address, source.type, source.shape
    else:
        address, shape = given.data_ptr(), tuple(given.shape)
    if output is None:
        return address, 0, kind, shape
    if output is given and hasattr(given, "data_ptr"):
        return address, address, kind, shape
    target = buffer_of(output, "the output", written=True)
    if target.type != kind:
        raise ArgumentError(f"the output is of type {_native.TYPES[target.type]}, the input of type {_native.TYPES[kind]}")
    count = math.prod(shape) if divided_by is None or not shape else divided_by(shape[0]) * math.prod(shape[1:])
    if target.count != count:
        raise ArgumentError(f"the output has {target.count} elements; the operation gives {count}")
    return address, target.address, kind, shape


class Operation:
    """An operation that was submitted. Its tensors must not be touched before its end."""

    __slots__ = ("_handle", "_tensors", "_ranks", "_negotiator", "_ended")

    def __init__(self, negotiator: "Negotiator", handle: Any, tensors: Any):
        self._negotiator, self._handle, self._tensors, self._ranks = negotiator, handle, tensors, negotiator.size
        self._ended = False

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and not self._negotiator._forked:
            _native.operation_free(self._handle)

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended or _native.operation_done(self._handle)

    def wait(self) -> None:
        """Wait for its end; raises what it failed with."""
        if self._negotiator._forked:
            self._negotiator._check_usable()
        outcome = _native.operation_wait(self._handle)
        self._ended = True
        if outcome is not None:
            check(outcome)

    @property
    def rows(self) -> List[Tuple[int, ...]]:
        """After an all-gather or all-to-all: for each tensor, how many rows came from each rank."""
        return [result(_native.operation_rows(self._handle, index, self._ranks)) for index in range(len(self._tensors))]

    def copy_result(self, index: int, out: Any) -> None:
        """After an all-gather or all-to-all: copy the result for a tensor to `out`, which is contiguous and has its size."""
        target = buffer_of(out, "the output", written=True)
        source = self._tensors[index][0]
        rows = sum(result(_native.operation_rows(self._handle, index, self._ranks)))
        count = rows * math.prod(tuple(source.shape)[1:])
        if target.count != count or target.type != buffer_of(source, "the input").type:
            raise ArgumentError(f"the output has {target.count} elements of type {_native.TYPES[target.type]}, the result {count} of the type of "
                                "the input")
        size = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2}.get(_native.TYPES[target.type], 1)
        check(_native.operation_copy(self._handle, index, target.address, count * size))

    @property
    def last_joined(self) -> int:
        """After a join: the rank that joined last."""
        return _native.operation_last_joined(self._handle)


class Negotiator:
    """Runs named operations once all ranks of a communicator have submitted them. All its ranks make one."""

    def __init__(self, communicator: Communicator, *, fusion_bytes: int = 128 << 20, cycle_seconds: float = 0.001, cache: int = 1024,
                 stall_seconds: float = 60.0, stall_end_seconds: float = 0.0):
        """Rank 0's settings hold for all.

        `fusion_bytes`: small all-reduces are copied together up to this size; 0: never. `cycle_seconds`: the pause after a round in which
        nothing could run. `cache`: how many operations ranks remember. After `stall_seconds` a missing rank is named (0: never), and after
        `stall_end_seconds` the negotiator ends (0: never).
        """
        self._handle: Any = None
        self.rank, self.size, self._context = communicator.rank, communicator.size, communicator.context
        self._handle = result(_native.negotiator_open(communicator._live(), fusion_bytes or 1, cycle_seconds or 1e-9, cache or -1,
                                                      stall_seconds or -1.0, stall_end_seconds))
        self._context._negotiators.add(self)

    @property
    def _forked(self) -> bool:
        return self._context._forked

    def _check_usable(self) -> None:
        if self._handle is None:
            raise StateError("the negotiator was closed")
        if self._context._forked:
            self._context._check_usable()

    def submit(self, kind: str, name: str, tensors: Sequence[Tuple[Any, Any]], *, op: str = "sum", prescale: float = 1.0, postscale: float = 1.0,
               root: int = 0, splits: Optional[Sequence[int]] = None, waits: bool = False) -> Operation:
        """Submit an operation; it runs once all ranks have submitted one of this name.

        `kind`: "allreduce", "adasum", "allgather", "broadcast", "alltoall", "reduce_scatter", "barrier" or "join". `tensors`: pairs of an
        input and an output, contiguous; several form a group. An all-gather or all-to-all has None as its output: see Operation.rows. `waits`:
        the caller calls wait() at once. Raises ArgumentError if an argument is not acceptable, or the name is in flight on this rank.
        """
        self._check_usable()
        if kind not in _KINDS or op not in _OPS:
            raise ArgumentError(f"there is no operation '{kind}' with '{op}': operations are {', '.join(_KINDS)}")
        if splits is not None and len(splits) != self.size:
            raise ArgumentError(f"splits must have an entry for each of the {self.size} ranks: {list(splits)}")
        tensors = tuple(tensors)
        divided_by = self._own_rows if kind == "reduce_scatter" else None
        parts = tuple([_part(given, output, divided_by) for given, output in tensors])
        handle = result(_native.submit(self._handle, _KINDS[kind], name, parts, _OPS[op], prescale, postscale, root,
                                       None if splits is None else tuple(splits), waits))
        return Operation(self, handle, tensors)

    def _own_rows(self, rows: int) -> int:
        return rows // self.size + (self.rank < rows % self.size)

    def start_timeline(self, path: str, mark_cycles: bool = False) -> None:
        """Write a timeline of the operations to a file (Chrome's trace events). Only rank 0 writes."""
        self._check_usable()
        check(_native.negotiator_timeline(self._handle, path, mark_cycles))

    def stop_timeline(self) -> None:
        """Complete the timeline."""
        self._check_usable()
        check(_native.negotiator_timeline(self._handle, None, False))

    def close(self) -> None:
        """End it on all ranks: operations that have not ended fail with a StateError. Takes up to a second if other ranks are idle."""
        if self._handle is not None and not self._context._forked:
            handle, self._handle = self._handle, None
            self._context._negotiators.discard(self)
            check(_native.negotiator_close(handle))
