# SPDX-License-Identifier: Apache-2.0
"""Elastic training: the program goes on when ranks are lost, join or leave.

State is what all ranks must agree on. commit() saves it, and lets ranks join or leave. After a failure the ranks that are left restore the
last commit, form a new job, and get rank 0's state, as do ranks that join.
"""
from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Dict, List, Optional, Sequence

from .basics import basics
from .exceptions import HorovodInternalError, HostsUpdatedInterrupt


class State:
    """State of a training. Programs use TorchState, or derive a class of their own."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]):
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Functions to call when the ranks have changed, before state is synchronized: for example to adapt the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """The ranks have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """save(), and check_host_updates(). Every rank calls it at the same place of the program, as often as a loss of work is bearable."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raise HostsUpdatedInterrupt on all ranks if ranks wait to join or are to leave. Every rank calls it."""
        if basics.ranks_wait():
            raise HostsUpdatedInterrupt()

    def save(self) -> None:
        """Remember the present state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to what save() remembered."""
        raise NotImplementedError

    def sync(self) -> None:
        """Take rank 0's state. Every rank calls it."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt to a change of the ranks."""


class ObjectState(State):
    """State that consists of Python objects, which are attributes: ObjectState(..., epoch=0) has an attribute `epoch`."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any):
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = kwargs
        self._set_attributes()

    def save(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attributes()

    def sync(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object({name: getattr(self, name) for name in self._saved_state})
            self._set_attributes()

    def _set_attributes(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))


def run_fn(func: Callable[..., Any], reset: Optional[Callable[[bool], None]] = None) -> Callable[..., Any]:
    """`func(state, ...)`, called again from synchronized state when the ranks have changed. `reset(failed)` opens the job again."""
    reset = basics.recover if reset is None else reset

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except HorovodInternalError:
                state.restore()
                skip_sync, failed = False, True
            except HostsUpdatedInterrupt as interrupt:
                skip_sync, failed = interrupt.skip_sync, False
            reset(failed)
            state.on_reset()

    return wrapper
