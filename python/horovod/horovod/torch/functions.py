# SPDX-License-Identifier: Apache-2.0
"""State of a training from one rank to all: parameters, the state of optimizers, objects."""
from __future__ import annotations

import io
import pickle
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import torch

from .mpi_ops import ProcessSet, broadcast_, broadcast_async_, global_process_set, rank, synchronize
from .ops.allgather import allgather_with_rows

try:
    from cloudpickle import dumps as _dumps  # which can pickle functions and classes of the main program, too
except ImportError:
    from pickle import dumps as _dumps

Parameters = Union[Mapping[str, torch.Tensor], Iterable[torch.Tensor], Iterable[Tuple[str, torch.Tensor]]]


def broadcast_parameters(params: Parameters, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Copy tensors from one rank to all: a model's state_dict(), named_parameters() or parameters()."""
    if isinstance(params, Mapping):
        pairs: List[Tuple[Optional[str], torch.Tensor]] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (str, torch.Tensor)):
        pairs = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    else:
        raise ValueError(f"invalid params of type {type(params).__name__}: pass model.state_dict() or model.named_parameters()")
    for handle in [broadcast_async_(tensor, root_rank, name, process_set) for name, tensor in pairs]:
        synchronize(handle)


def _bytes_of(pickled: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickled), dtype=torch.uint8)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """The object of one rank, which can be pickled; other ranks pass anything. Ranks that start operations in different orders pass a name."""
    is_root = rank() == root_rank
    content = _bytes_of(_dumps(obj)) if is_root else torch.empty(0, dtype=torch.uint8)
    size = broadcast_(torch.tensor([len(content)]), root_rank, name and f"{name}.size", process_set)
    if not is_root:
        content = torch.empty(int(size), dtype=torch.uint8)
    broadcast_(content, root_rank, name and f"{name}.content", process_set)
    return obj if is_root else pickle.loads(content.numpy().tobytes())


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks, which can be pickled, in rank order."""
    content, sizes = allgather_with_rows(_bytes_of(_dumps(obj)), name, process_set)
    return [pickle.loads(part.numpy().tobytes()) for part in content.split(list(sizes))]


class _Pickler(pickle.Pickler):
    """Pickles an object with its tensors left out: they are collected in `tensors`."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors: List[torch.Tensor] = []

    def persistent_id(self, obj: Any) -> Optional[Tuple[Any, ...]]:
        """What is pickled for a tensor: its index, type and shape."""
        if not isinstance(obj, torch.Tensor):
            return None
        if obj.layout != torch.strided:
            raise ValueError(f"the state of the optimizer has a tensor of layout {obj.layout}, which cannot be broadcast")
        self.tensors.append(obj)
        return len(self.tensors) - 1, obj.dtype, tuple(obj.shape)


class _Unpickler(pickle.Unpickler):
    """Makes the object again, with tensors that are yet to be filled."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self.tensors: Dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: Tuple[Any, ...]) -> torch.Tensor:
        """The tensor that was pickled so."""
        index, dtype, shape = pid
        return self.tensors.setdefault(index, torch.empty(shape, dtype=dtype))


def _broadcast_structure(structure: Any, root_rank: int) -> Any:
    """An object with tensors anywhere in it. These are sent as they are, and not pickled."""
    is_root = rank() == root_rank
    content = None
    if is_root:
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(structure)
        content, tensors = file.getvalue(), pickler.tensors
    content = broadcast_object(content, root_rank)
    if not is_root:
        unpickler = _Unpickler(io.BytesIO(content))
        structure = unpickler.load()
        tensors = [tensor for _, tensor in sorted(unpickler.tensors.items())]
    broadcast_parameters(tensors, root_rank)
    return structure


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Optional[torch.nn.Module] = None) -> None:
    """Copy the options and the state of an optimizer from one rank to all. Its parameters are not copied.

    Any state can be copied, also to an optimizer that does not have any yet. Gradients that are not there are zero afterwards if the root's
    optimizer has no state. `model` shows which of them are sparse.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    index_of = {parameter: index for index, parameter in enumerate(parameters)}
    options = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    state = [(index_of.get(key, key), value) for key, value in optimizer.state.items()]
    count, options, state = _broadcast_structure((len(parameters), options, state), root_rank)
    if count != len(parameters) or len(options) != len(optimizer.param_groups):
        raise ValueError(f"the optimizer of rank {rank()} has {len(parameters)} parameters in {len(optimizer.param_groups)} groups, and that "
                         f"of rank {root_rank} has {count} in {len(options)}: all ranks must make the same optimizer")
    if not state:
        _add_zero_gradients(optimizer, parameters, model)
    if rank() == root_rank:
        return
    for group, received in zip(optimizer.param_groups, options):
        group.update(received)
    optimizer.state.clear()
    for key, value in state:
        optimizer.state[parameters[key] if isinstance(key, int) else key] = value


def _add_zero_gradients(optimizer: torch.optim.Optimizer, parameters: List[torch.Tensor], model: Optional[torch.nn.Module]) -> None:
    """Programs written for Horovod find gradients after broadcast_optimizer_state()."""
    sparse = {id(module.weight) for module in (model.modules() if model is not None else ())
              if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse}
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            zeros = torch.zeros_like(parameter, requires_grad=False)
            parameter.grad = zeros.to_sparse() if isinstance(optimizer, torch.optim.SparseAdam) or id(parameter) in sparse else zeros
