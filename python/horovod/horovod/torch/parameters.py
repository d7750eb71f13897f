# SPDX-License-Identifier: Apache-2.0
"""What both distributed optimizers share: methods, names of parameters, hooks on gradients, the class that wraps an optimizer."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import torch


class CombiningMixin:
    """The methods that are the same with and without Adasum."""

    backward_passes_per_step: int
    _started: Dict[torch.Tensor, Any]  # operations under way, by parameter
    _passes: Dict[torch.Tensor, int]  # calls of backward() since the last step

    def _forget_gradients(self) -> None:
        """Begin with nothing under way."""
        raise NotImplementedError

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """The optimizer's own; not between backward() and step()."""
        if self._started:
            raise AssertionError("optimizer.zero_grad() was called between backward() and step() or synchronize(), while gradients are being "
                                 "combined: call it before backward(), or after step()")
        super().zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many calls of backward() add up before gradients, or with Adasum changes of parameters, are combined."""
        self.backward_passes_per_step = passes
        self._passes = dict.fromkeys(self._passes, 0)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """The optimizer's own. Operations under way are dropped. With Adasum load the parameters, too."""
        self._forget_gradients()
        super().load_state_dict(*args, **kwargs)


def wrap(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """An object of a class that derives from `mixin` and the optimizer's own. It shares parameters, options and state with `optimizer`."""
    cls = type(type(optimizer).__name__, (mixin, type(optimizer)), {"__doc__": type(optimizer).__doc__})
    made = cls.__new__(cls)
    # A scheduler may have put its own step() on the optimizer, which would call that of the wrong object.
    made.__dict__.update({name: value for name, value in vars(optimizer).items() if name not in ("step", "zero_grad")})
    return made


def named(optimizer: Any, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]]) -> Dict[torch.Tensor, str]:
    """The names of the optimizer's parameters. Raises ValueError unless each has one of its own."""
    if named_parameters is None:
        return {parameter: f"parameter.{i}.{j}"
                for i, group in enumerate(optimizer.param_groups) for j, parameter in enumerate(group["params"])}
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError("named_parameters must be a sequence of tuples (name, parameter), such as model.named_parameters()")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise ValueError(f"names in named_parameters must be unique, and these are there more than once: {', '.join(twice)}")
    found = {parameter: name for name, parameter in pairs}
    missing = [(i, j) for i, group in enumerate(optimizer.param_groups)
               for j, parameter in enumerate(group["params"]) if parameter not in found]
    if missing:
        places = ", ".join(f"{j} of group {i}" for i, j in missing[:5])
        raise ValueError(f"named_parameters lacks {len(missing)} of the optimizer's parameters (the first are parameter {places}): pass the "
                         "named_parameters() of all models that it trains")
    return found


def hook_gradients(parameters: Sequence[torch.Tensor], ready: Callable[[torch.Tensor], None]) -> List[Any]:
    """Call `ready` with a parameter each time that backward() has added to its gradient. The result must be kept: it holds the hooks."""
    accumulators = []
    for parameter in parameters:
        accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda *_, parameter=parameter: ready(parameter))
        accumulators.append(accumulator)
    return accumulators


def too_many_passes(name: str, passes: int) -> AssertionError:
    """What to raise when a gradient is computed while it is being combined."""
    return AssertionError(f"the gradient of {name} was computed more than backward_passes_per_step = {passes} times before step(): increase "
                          "backward_passes_per_step to add gradients up")

