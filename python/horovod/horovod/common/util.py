# SPDX-License-Identifier: Apache-2.0
"""Small helpers that programs and tests import from here."""
from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, TypeVar

Item = TypeVar("Item")


def _cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, computed once for each combination of arguments."""
    return functools.lru_cache(maxsize=None)(function)


@contextlib.contextmanager
def env(**variables: Optional[str]) -> Iterator[None]:
    """Set variables of the environment within a block. None leaves a variable as it is."""
    changes: Dict[str, str] = {name: value for name, value in variables.items() if value is not None}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether horovod.`ext_base_name` can be used: PyTorch is installed, and it is "torch"."""
    available = ext_base_name == "torch" and importlib.util.find_spec("torch") is not None
    if verbose:
        print(f"horovod.{ext_base_name} is {'available' if available else 'not available'}")
    return available


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """False: operations work on tensors on the CPU."""
    return False


def mpi_built(verbose: bool = False) -> bool:
    """False: Weft connects the ranks."""
    return False


def gloo_built(verbose: bool = False) -> bool:
    """True: programs ask for it where they need operations without MPI, and Weft provides those."""
    return True


def nccl_built(verbose: bool = False) -> bool:
    """False: operations work on tensors on the CPU."""
    return False


def ddl_built(verbose: bool = False) -> bool:
    """False: Weft connects the ranks."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """False: Weft connects the ranks."""
    return False


def op_of(op: Optional[int], average: Optional[bool], averaged: int = 0, summed: int = 1) -> int:
    """The reduction that the arguments `op` and `average` (older, deprecated) of an all-reduce ask for. The default is the average."""
    if average is None:
        return averaged if op is None else op
    if op is not None:
        raise ValueError("pass op or average, not both: op replaces average")
    warnings.warn("the argument average is deprecated: pass op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=3)
    return averaged if average else summed


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Optional[int], Optional[bool]], int]:
    """A function of (op, average) that returns the reduction, one of those of `reduce_ops`."""
    return lambda op, average: op_of(op, average, reduce_ops.Average, reduce_ops.Sum)


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether it is a power of two, as Adasum needs."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items: Sequence[Item], parts: int) -> List[Sequence[Item]]:
    """`items` in consecutive parts whose lengths differ by one at most."""
    ends = [len(items) * part // parts for part in range(parts + 1)]
    return [items[begin:end] for begin, end in zip(ends, ends[1:])]


def is_iterable(value: Any) -> bool:
    """Whether iter() accepts it."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether version `ver` is `target` ("1.2.3") or later."""
    from packaging import version
    if not isinstance(ver, str) or not isinstance(target, str):
        raise ValueError(f"versions are strings, not {type(ver).__name__} and {type(target).__name__}")
    if target.count(".") != 2:
        raise ValueError(f"the version to compare with must have the form major.minor.patch: {target}")
    return version.parse(ver) >= version.parse(target)
