# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: gradients are combined over the ranks as backward() computes them, before the optimizer applies them."""
from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from ..common.util import split_list
from .adasum_optimizer import AdasumMixin
from .compression import Compression
from .mpi_ops import (Adasum, Average, ProcessSet, allreduce_async_, global_process_set, grouped_allreduce_async_, size,
                      sparse_allreduce_async, synchronize)
from .parameters import CombiningMixin, hook_gradients, named, too_many_passes, wrap

Groups = Union[None, int, Sequence[Sequence[torch.Tensor]]]


class _Started(NamedTuple):
    """An all-reduce of gradients under way."""

    parameters: Tuple[torch.Tensor, ...]  # whose gradients it combines
    finish: Callable[[], Sequence[torch.Tensor]]  # waits, and returns the combined gradients


class ReducingMixin(CombiningMixin):
    """The methods that DistributedOptimizer adds to an optimizer's class."""

    def _prepare(self, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]], compression: Any, backward_passes_per_step: int,
                 op: int, gradient_predivide_factor: float, groups: Groups, sparse_as_dense: bool, process_set: ProcessSet) -> None:
        self._parameter_names = named(self, named_parameters)
        self._compression = compression
        self.backward_passes_per_step = backward_passes_per_step
        self.op, self.gradient_predivide_factor = op, gradient_predivide_factor
        self.sparse_as_dense, self.process_set = sparse_as_dense, process_set
        self._groups: List[Tuple[torch.Tensor, ...]] = []
        self._group_of: Dict[torch.Tensor, Tuple[torch.Tensor, ...]] = {}
        self._should_synchronize = True
        self._hooked: List[torch.Tensor] = []
        self._forget_gradients()
        _check_groups(groups)
        if process_set.included():
            trained = [parameter for group in self.param_groups for parameter in group["params"] if parameter.requires_grad]
            if groups is not None:
                self._make_groups(trained, groups)
            self._hooked = trained
            self._accumulators = hook_gradients(trained, self._gradient_ready)

    def _make_groups(self, trained: List[torch.Tensor], groups: Union[int, Sequence[Sequence[torch.Tensor]]]) -> None:
        if isinstance(groups, int):
            # The order of param_groups is the same on all ranks. One that joins an elastic job could not ask the others for theirs.
            self._groups = [tuple(part) for part in split_list(trained, groups) if part]
        else:
            chosen = set(trained)
            self._groups = [tuple(parameter for parameter in group if parameter in chosen) for group in groups]
            self._groups = [group for group in self._groups if group]
        self._group_of = {parameter: group for group in self._groups for parameter in group}

    def _forget_gradients(self) -> None:
        self._started: Dict[torch.Tensor, _Started] = {}  # by parameter; those of a group have the same
        self._passes = {parameter: 0 for parameter in self._parameter_names}  # since the last step
        self._synchronized = False

    @property
    def _active(self) -> bool:
        """Whether there are ranks to combine with. That may change in elastic training."""
        return bool(self._hooked) and self.process_set._open().size > 1

    # Gradients

    def _gradient_ready(self, parameter: torch.Tensor) -> None:
        """backward() has added to the gradient of a parameter."""
        if not self._active:
            return
        if parameter in self._started:
            raise too_many_passes(self._parameter_names[parameter], self.backward_passes_per_step)
        self._passes[parameter] += 1
        if self._passes[parameter] < self.backward_passes_per_step:
            return
        group = self._group_of.get(parameter, (parameter,))
        if all(self._passes[member] >= self.backward_passes_per_step for member in group):
            self._start(group)

    def _start(self, group: Tuple[torch.Tensor, ...]) -> None:
        """Start the all-reduce of the gradients of some parameters."""
        for parameter in group:
            if parameter.grad is None:  # not computed here, but maybe on another rank
                parameter.grad = torch.zeros_like(parameter, requires_grad=False)
        is_sparse = group[0].grad.is_sparse and group[0] not in self._group_of and not self.sparse_as_dense
        started = self._start_sparse(group[0]) if is_sparse else self._start_dense(group)
        for parameter in group:
            self._started[parameter] = started

    def _start_sparse(self, parameter: torch.Tensor) -> _Started:
        result = sparse_allreduce_async(parameter.grad, self._parameter_names[parameter], self.op, self.process_set)
        return _Started((parameter,), lambda: (result(),))

    def _start_dense(self, group: Tuple[torch.Tensor, ...]) -> _Started:
        gradients = [parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad for parameter in group]
        compressed, contexts = zip(*[self._compression.compress(gradient) for gradient in gradients])
        factor = self.gradient_predivide_factor
        options = {"name": self._parameter_names[group[0]], "op": self.op, "process_set": self.process_set}
        if factor != 1:  # of an average: divide before the sum, too, to stay in the type's range
            options.update(prescale_factor=1 / factor, postscale_factor=factor)
        if group[0] in self._group_of:
            handle = grouped_allreduce_async_(compressed, **options)
        else:
            handle = allreduce_async_(compressed[0], **options)

        def finish() -> Sequence[torch.Tensor]:
            results = synchronize(handle)
            results = results if isinstance(results, list) else [results]
            return [self._compression.decompress(result, context) for result, context in zip(results, contexts)]

        return _Started(group, finish)

    def synchronize(self) -> None:
        """Wait until the gradients of all parameters are combined; start those that backward() has not."""
        if self._active:
            for parameter in self._hooked:
                if parameter not in self._started:
                    self._start(self._group_of.get(parameter, (parameter,)))
            done = set()
            for started in self._started.values():
                if id(started) not in done:
                    done.add(id(started))
                    for parameter, combined in zip(started.parameters, started.finish()):
                        _replace_gradient(parameter, combined)
        self._forget_gradients()
        self._synchronized = True

    # An optimizer's methods

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A block in which step() does not call synchronize(), since the program has:

            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """synchronize(), and the optimizer's own step. `closure` computes gradients, which are combined each time."""
        if not self._should_synchronize:
            self._synchronized = False
            return super().step(closure)
        if self._synchronized:
            warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(): gradients "
                          "are combined twice; call step() within `with optimizer.skip_synchronize():`", stacklevel=2)
        if closure is None:
            self.synchronize()
            self._synchronized = False
            return super().step()

        def compute() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        loss = super().step(compute)
        self._synchronized = False
        return loss


def _check_groups(groups: Groups) -> None:
    if groups is None or isinstance(groups, int) and groups > 0:
        return
    if isinstance(groups, int) or not isinstance(groups, (list, tuple)):
        raise ValueError(f"groups must be a number above 0 or a list of lists of tensors, not {groups!r}")
    seen = set()
    for parameter in (entry for group in groups for entry in group):
        if not isinstance(parameter, torch.Tensor):
            raise ValueError(f"groups must consist of tensors, and has an entry of type {type(parameter).__name__}")
        if id(parameter) in seen:
            raise ValueError("a parameter can be in one group only, and groups has one twice")
        seen.add(id(parameter))


def _replace_gradient(parameter: torch.Tensor, combined: torch.Tensor) -> None:
    """Make `combined` the gradient, in its place."""
    gradient = parameter.grad
    if combined is gradient:
        return
    if not gradient.is_sparse:
        gradient.data.copy_(combined)
    else:
        parameter.grad = combined if combined.is_sparse else combined.to_sparse()


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1, op: int = Average,
                         gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups: Groups = None,
                         sparse_as_dense: bool = False, process_set: ProcessSet = global_process_set) -> torch.optim.Optimizer:
    """An optimizer like `optimizer`, with its parameters and state, that combines gradients over the ranks before each step.

    `named_parameters`: model.named_parameters(), which names the operations. `compression`: hvd.Compression.fp16 or bf16 send less.
    `backward_passes_per_step`: so many calls of backward() add up before gradients are combined. `op`: hvd.Average, Sum, Min, Max or Product;
    with hvd.Adasum each rank makes its own step, and the changes of parameters are combined. `gradient_predivide_factor` divides gradients
    before they are summed for an average, and multiplies the average. `groups`: a number of groups, or lists of parameters whose gradients
    are sent together, sparse ones as dense (`num_groups` is its older name). `sparse_as_dense` sends all sparse gradients as dense ones.
    Ranks outside `process_set` step by themselves.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor is for op=hvd.Average only")
    if backward_passes_per_step <= 0:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}, and must be above 0")
    if num_groups != 0:
        warnings.warn("num_groups is deprecated: pass groups", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if op == Adasum and size() > 1:
        if process_set is not global_process_set:
            raise NotImplementedError("Adasum works on all ranks, and not on a process set")
        made = wrap(optimizer, AdasumMixin)
        made._prepare(named_parameters, compression, backward_passes_per_step)
        return made
    made = wrap(optimizer, ReducingMixin)
    made._prepare(named_parameters, compression, backward_passes_per_step, op, gradient_predivide_factor, groups, sparse_as_dense,
                  process_set)
    return made
