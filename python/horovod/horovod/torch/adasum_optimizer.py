# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer with Adasum: each rank makes its own step, and Adasum combines the changes of the parameters."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from .mpi_ops import Adasum, allreduce_async_, synchronize
from .parameters import CombiningMixin, hook_gradients, named, too_many_passes


class AdasumMixin(CombiningMixin):
    """The methods that DistributedOptimizer(op=hvd.Adasum) adds to an optimizer's class.

    When a gradient is complete, the optimizer steps that parameter alone. The parameter then holds the change until step() adds the
    combined change to its former value.
    """

    def _prepare(self, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]], compression: Any,
                 backward_passes_per_step: int) -> None:
        self._parameter_names = named(self, named_parameters)
        self._compression = compression
        self.backward_passes_per_step = backward_passes_per_step
        self._trained = [parameter for group in self.param_groups for parameter in group["params"] if parameter.requires_grad]
        self._starts: Dict[torch.Tensor, torch.Tensor] = {  # values before the step
            parameter: torch.zeros_like(parameter, requires_grad=False) for parameter in self._trained}
        self._forget_gradients()
        self._accumulators = hook_gradients(self._trained, self._gradient_ready)

    def _forget_gradients(self) -> None:
        self._started: Dict[torch.Tensor, Tuple[int, Any]] = {}  # handle, and what the compression needs
        self._passes = {parameter: 0 for parameter in self._trained}

    def _gradient_ready(self, parameter: torch.Tensor) -> None:
        """backward() has added to the gradient of a parameter."""
        if parameter in self._started:
            raise too_many_passes(self._parameter_names[parameter], self.backward_passes_per_step)
        self._passes[parameter] += 1
        if self._passes[parameter] >= self.backward_passes_per_step:
            self._start(parameter)

    @contextlib.contextmanager
    def _only(self, parameter: torch.Tensor) -> Iterator[None]:
        """A block in which the optimizer has this parameter alone."""
        whole: List[List[torch.Tensor]] = [group["params"] for group in self.param_groups]
        for group in self.param_groups:
            group["params"] = [parameter] if any(member is parameter for member in group["params"]) else []
        try:
            yield
        finally:
            for group, members in zip(self.param_groups, whole):
                group["params"] = members

    def _start(self, parameter: torch.Tensor) -> None:
        """Step the parameter, and start to combine its change."""
        if parameter.grad is None:  # not computed here, but maybe on another rank
            parameter.grad = torch.zeros_like(parameter, requires_grad=False)
        start = self._starts[parameter]
        start.copy_(parameter.data)
        with self._only(parameter):
            super().step()
        parameter.data.sub_(start)
        compressed, context = self._compression.compress(parameter.data)
        self._started[parameter] = allreduce_async_(compressed, name=self._parameter_names[parameter], op=Adasum), context

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Wait for the combined changes, and apply them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for parameter in self._trained:
            if parameter not in self._started:
                self._start(parameter)
        for parameter, (handle, context) in self._started.items():
            change = self._compression.decompress(synchronize(handle), context)
            torch.add(self._starts[parameter], change, out=parameter.data)
        self._forget_gradients()
        return loss

    def synchronize(self) -> None:
        """Nothing: changes are combined after the optimizer has applied the gradients."""

    def skip_synchronize(self) -> Any:
        """Not possible: there is no step without combining."""
        raise AssertionError("skip_synchronize() is not possible with hvd.Adasum, which combines changes of parameters and not gradients")
