# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment that start with HOROVOD_.

Those that mean something here become Settings. The others that Horovod has are listed in IGNORED: a job with such a variable runs, but a
value that cannot be right is an error, as it most likely belongs to another variable.
"""
from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional


class Settings(NamedTuple):
    """What the environment asks for."""

    fusion_bytes: int            # HOROVOD_FUSION_THRESHOLD: most bytes that are combined into one operation; 0 combines nothing
    cycle_seconds: float         # HOROVOD_CYCLE_TIME, in milliseconds: pause after a round of negotiation in which nothing could run
    cache: int                   # HOROVOD_CACHE_CAPACITY: how many operations are remembered; 0 remembers nothing
    stall_seconds: float         # HOROVOD_STALL_CHECK_TIME_SECONDS, or 0 for HOROVOD_STALL_CHECK_DISABLE: when missing ranks are reported
    stall_end_seconds: float     # HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: when missing ranks end the operations; 0: never
    timeline: Optional[str]      # HOROVOD_TIMELINE: the file; None if it is not set or DYNAMIC
    mark_cycles: bool            # HOROVOD_TIMELINE_MARK_CYCLES
    dynamic_process_sets: bool   # HOROVOD_DYNAMIC_PROCESS_SETS
    arrival_seconds: float       # HOROVOD_ELASTIC_TIMEOUT: how long ranks wait for each other, also after a failure; 0: Weft's default


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "yes", "on"):
        return True
    if word in ("false", "no", "off", ""):
        return False
    return int(word) > 0


def _level(text: str) -> str:
    if text.lower() not in ("trace", "debug", "info", "warning", "error", "fatal"):
        raise ValueError
    return text


_EXPECTED = {_number: "a number that is not negative", _count: "a whole number that is not negative", _flag: "0 or 1",
             _level: "trace, debug, info, warning, error or fatal"}

# Accepted without effect: there is no counterpart in Weft, or Weft chooses by itself. Names of files and interfaces are not checked.
IGNORED: Dict[str, Callable[[str], Any]] = {
    "HIERARCHICAL_ALLREDUCE": _flag, "HIERARCHICAL_ALLGATHER": _flag, "TORUS_ALLREDUCE": _flag, "AUTOTUNE": _flag,
    "AUTOTUNE_LOG": str, "AUTOTUNE_WARMUP_SAMPLES": _count, "AUTOTUNE_STEPS_PER_SAMPLE": _count,
    "AUTOTUNE_BAYES_OPT_MAX_SAMPLES": _count, "AUTOTUNE_GAUSSIAN_PROCESS_NOISE": _number, "MPI_THREADS_DISABLE": _flag,
    "NUM_NCCL_STREAMS": _count, "CPU_OPERATIONS": str, "CONTROLLER": str, "GLOO_IFACE": str, "GLOO_TIMEOUT_SECONDS": _number,
    "GLOO_RENDEZVOUS_ADDR": str, "GLOO_RENDEZVOUS_PORT": _count, "ELASTIC": _flag, "START_TIMEOUT": _number, "THREAD_AFFINITY": str,
    "BATCH_D2D_MEMCOPIES": _flag, "DISABLE_GROUP_FUSION": _flag, "ENABLE_ASYNC_COMPLETION": _flag, "ADASUM_MPI_CHUNK_SIZE": _count,
    "CCL_CACHE": _flag, "ENABLE_XLA_OPS": _flag, "DISABLE_NVTX_RANGES": _flag, "LOG_LEVEL": _level, "LOG_HIDE_TIME": _flag,
}


def _value(variables: Mapping[str, str], name: str, read: Callable[[str], Any], default: Any) -> Any:
    text = variables.get("HOROVOD_" + name)
    if text is None:
        return default
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"HOROVOD_{name} is '{text}', but must be {_EXPECTED[read]}: correct the variable, or unset it") from error


def read_settings(variables: Optional[Mapping[str, str]] = None) -> Settings:
    """The settings of this process's environment. Raises ValueError for a value that cannot be right."""
    variables = os.environ if variables is None else variables
    for name, read in IGNORED.items():
        _value(variables, name, read, None)
    stall_seconds = _value(variables, "STALL_CHECK_TIME_SECONDS", _number, 60.0)
    timeline = variables.get("HOROVOD_TIMELINE") or None
    return Settings(fusion_bytes=_value(variables, "FUSION_THRESHOLD", _count, 128 << 20),
                    cycle_seconds=_value(variables, "CYCLE_TIME", _number, 1.0) / 1000,
                    cache=_value(variables, "CACHE_CAPACITY", _count, 1024),
                    stall_seconds=0.0 if _value(variables, "STALL_CHECK_DISABLE", _flag, False) else stall_seconds,
                    stall_end_seconds=_value(variables, "STALL_SHUTDOWN_TIME_SECONDS", _number, 0.0),
                    timeline=None if timeline is None or timeline.upper() == "DYNAMIC" else timeline,
                    mark_cycles=_value(variables, "TIMELINE_MARK_CYCLES", _flag, False),
                    dynamic_process_sets=_value(variables, "DYNAMIC_PROCESS_SETS", _flag, False),
                    arrival_seconds=_value(variables, "ELASTIC_TIMEOUT", _number, 0.0))
