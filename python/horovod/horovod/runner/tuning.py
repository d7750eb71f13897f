# SPDX-License-Identifier: Apache-2.0
"""Flags that become environment variables HOROVOD_* of the ranks. They may also stand in the file of --config-file."""
from __future__ import annotations

import argparse
import math
from typing import Any, Callable, Dict, NamedTuple, Tuple

_WEFT_CHOOSES = "Weft chooses the algorithm by the links that it finds between the ranks"
_NO_SEARCH = "there is no automatic search; try values of --fusion-threshold-mb and --cycle-time-ms"
_NO_MPI = "Weft does not use MPI"


def number(kind: Callable[[str], Any], least: float = 0, most: float = math.inf) -> Callable[[str], Any]:
    """A converter for argparse: int or float, from `least` to `most`."""
    what = "a whole number" if kind is int else "a number"
    limits = f"from {least:g} on" if most == math.inf else f"from {least:g} to {most:g}"

    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} {limits}")
        return value

    return convert


def mebibytes(text: str) -> int:
    """Bytes, given in MiB."""
    return number(int)(text) << 20


class Value(NamedTuple):
    """A flag with a value. `section` and `key` are its place in the configuration file; `unused` is why it has no effect."""

    flag: str
    variable: str
    section: str
    key: str
    convert: Callable[[str], Any]
    metavar: str
    text: str
    unused: str = ""


class Switch(NamedTuple):
    """A pair of flags that set a variable to `value` and to its opposite."""

    on: Tuple[str, ...]
    off: Tuple[str, ...]
    variable: str
    section: str
    key: str
    value: int
    text: str
    unused: str = ""


def _level(text: str) -> str:
    levels = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")
    if text.upper() not in levels:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(levels)}")
    return text.upper()


VALUES = (
    Value("--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", "params", "fusion_threshold_mb", mebibytes, "MIB",
          "sum tensors together until they have so many MiB (default: 128)"),
    Value("--cycle-time-ms", "HOROVOD_CYCLE_TIME", "params", "cycle_time_ms", number(float), "MS",
          "pause after a round of negotiation in which nothing could run (default: 1)"),
    Value("--cache-capacity", "HOROVOD_CACHE_CAPACITY", "params", "cache_capacity", number(int), "N",
          "how many names of tensors are remembered, which then need no negotiation (default: 1024)"),
    Value("--timeline-filename", "HOROVOD_TIMELINE", "timeline", "filename", str, "FILE",
          "write a timeline of the operations to FILE, for Perfetto and chrome://tracing"),
    Value("--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", "stall_check", "warning_time_seconds", number(int), "S",
          "warn when a tensor has waited so long for ranks (default: 60)"),
    Value("--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "stall_check", "shutdown_time_seconds", number(int), "S",
          "end the job when a tensor has waited so long; 0: never (default: 0)"),
    Value("--elastic-timeout", "HOROVOD_ELASTIC_TIMEOUT", "", "", number(int, 1), "S",
          "longest wait for enough slots, and of ranks for each other (default: $HOROVOD_ELASTIC_TIMEOUT, or 600 and 60)"),
    Value("--log-level", "HOROVOD_LOG_LEVEL", "logging", "level", _level, "LEVEL",
          "", "Weft prints warnings and errors, and with --verbose how the ranks started"),
    Value("--autotune-log-file", "HOROVOD_AUTOTUNE_LOG", "autotune", "log_file", str, "FILE", "", _NO_SEARCH),
    Value("--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "autotune", "warmup_samples", number(int), "N", "", _NO_SEARCH),
    Value("--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "autotune", "steps_per_sample", number(int), "N", "", _NO_SEARCH),
    Value("--autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "autotune", "bayes_opt_max_samples", number(int), "N",
          "", _NO_SEARCH),
    Value("--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "autotune", "gaussian_process_noise",
          number(float, 0, 1), "X", "", _NO_SEARCH),
    Value("--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS", "library_options", "num_nccl_streams", number(int), "N", "",
          "Weft does not use NCCL"),
    Value("--thread-affinity", "HOROVOD_THREAD_AFFINITY", "library_options", "thread_affinity", number(int), "CORE", "",
          "weft run --bind cores binds whole ranks"),
    Value("--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS", "library_options", "gloo_timeout_seconds", number(int), "S", "",
          "Weft does not use Gloo; WEFT_TIME_LIMIT is the longest wait of an operation for a rank"),
)

SWITCHES = (
    Switch(("--timeline-mark-cycles",), ("--no-timeline-mark-cycles",), "HOROVOD_TIMELINE_MARK_CYCLES", "timeline", "mark_cycles", 1,
           "mark the beginning of each cycle in the timeline"),
    Switch(("--stall-check",), ("--no-stall-check",), "HOROVOD_STALL_CHECK_DISABLE", "stall_check", "enabled", 0,
           "warn when a tensor waits long for ranks (default)"),
    Switch(("--log-with-timestamp", "--no-log-hide-timestamp"), ("--log-without-timestamp", "--log-hide-timestamp"), "HOROVOD_LOG_HIDE_TIME",
           "logging", "with_timestamp", 0, "", "--prefix-output-with-timestamp begins each line of output with the time"),
    Switch(("--hierarchical-allreduce",), ("--no-hierarchical-allreduce",), "HOROVOD_HIERARCHICAL_ALLREDUCE", "params",
           "hierarchical_allreduce", 1, "", _WEFT_CHOOSES),
    Switch(("--hierarchical-allgather",), ("--no-hierarchical-allgather",), "HOROVOD_HIERARCHICAL_ALLGATHER", "params",
           "hierarchical_allgather", 1, "", _WEFT_CHOOSES),
    Switch(("--torus-allreduce",), ("--no-torus-allreduce",), "HOROVOD_TORUS_ALLREDUCE", "params", "torus_allreduce", 1, "", _WEFT_CHOOSES),
    Switch(("--autotune",), ("--no-autotune",), "HOROVOD_AUTOTUNE", "autotune", "enabled", 1, "", _NO_SEARCH),
    Switch(("--mpi-threads-disable",), ("--no-mpi-threads-disable",), "HOROVOD_MPI_THREADS_DISABLE", "library_options",
           "mpi_threads_disable", 1, "", _NO_MPI),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of both tables. What they set is stored under the variable's name; None: the flag was not given."""
    group = parser.add_argument_group("tuning, for the ranks (or in --config-file)")
    for value in VALUES:
        group.add_argument(value.flag, dest=value.variable, metavar=value.metavar, type=value.convert,
                           help=argparse.SUPPRESS if value.unused else value.text)
    for switch in SWITCHES:
        pair = group.add_mutually_exclusive_group()
        pair.add_argument(*switch.on, dest=switch.variable, action="store_const", const=switch.value,
                          help=argparse.SUPPRESS if switch.unused else switch.text)
        pair.add_argument(*switch.off, dest=switch.variable, action="store_const", const=1 - switch.value,
                          help=argparse.SUPPRESS if switch.unused else f"the opposite of {switch.on[0]}")


def variables(options: argparse.Namespace) -> Dict[str, str]:
    """The variables that flags and configuration file set."""
    return {entry.variable: str(getattr(options, entry.variable)) for entry in (*VALUES, *SWITCHES)
            if getattr(options, entry.variable) is not None}


def without_effect(options: argparse.Namespace) -> Dict[str, str]:
    """{flag: why it has no effect} of those that are set. What is switched off needs no remark."""
    given = {value.flag: value.unused for value in VALUES if value.unused and getattr(options, value.variable) is not None}
    given.update({switch.on[0]: switch.unused for switch in SWITCHES if switch.unused and getattr(options, switch.variable) == switch.value})
    return given
