# SPDX-License-Identifier: Apache-2.0
"""The state of an elastic training with PyTorch: models, optimizers, samplers and other objects."""
from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple

import torch

from ...common.elastic import ObjectState
from ..functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from ..mpi_ops import rank
from .sampler import ElasticSampler


class StateHandler:
    """How the state of an object is saved, restored and synchronized. Here for objects with state_dict() and load_state_dict()."""

    def __init__(self, value: Any):
        self.value = value
        self.save()

    def save(self) -> None:
        """Remember the present state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Go back to what save() remembered."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Take rank 0's state, and save it."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()

    def set_value(self, value: Any) -> None:
        """The program has put another object in place."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Of a model: its parameters and buffers."""

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Of an optimizer: its options and state."""

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """Of a sampler: how much of the epoch is processed. Restoring and synchronizing divide what is left among the present ranks."""


_handler_registry: List[Tuple[type, type]] = [(torch.nn.Module, ModelStateHandler), (torch.optim.Optimizer, OptimizerStateHandler),
                                              (ElasticSampler, SamplerStateHandler)]


def get_handler_registry() -> List[Tuple[type, type]]:
    """Pairs of a class and the handler of its objects."""
    return _handler_registry


def set_handler_registry(registry: List[Tuple[type, type]]) -> None:
    """Replace the registry, to handle other classes."""
    global _handler_registry
    _handler_registry = registry


def _handler_of(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in _handler_registry if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """State of a training: TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0).

    Any number of models, optimizers and samplers, and objects that can be pickled and copied. All are attributes.
    """

    def __init__(self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None, **kwargs: Any):
        values = {"model": model, "optimizer": optimizer, **kwargs}
        handlers = {name: _handler_of(value) for name, value in values.items()}
        self._handlers: Dict[str, StateHandler] = {name: handler for name, handler in handlers.items() if handler is not None}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(broadcast_object, rank, **{name: value for name, value in values.items() if name not in self._handlers})

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_handlers", ()):
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)
