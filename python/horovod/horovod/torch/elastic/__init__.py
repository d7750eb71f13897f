# SPDX-License-Identifier: Apache-2.0
"""Elastic training of PyTorch models.

    @hvd.elastic.run
    def train(state):
        while state.epoch < epochs:
            ...
            state.epoch += 1
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0))

    $ weft run -n 4 --min-ranks 2 --restarts 3 -- python3 program.py
"""
from __future__ import annotations

from typing import Any, Callable

from ...common.basics import basics
from ...common.elastic import ObjectState, State, run_fn
from ..ops.handles import forget_handles
from .sampler import ElasticSampler
from .state import TorchState


def _reset(failed: bool) -> None:
    basics.recover(failed)
    forget_handles()


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function whose first argument is a State. When ranks are lost, join or leave, it is called again from synchronized state."""
    return run_fn(func, _reset)


__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
