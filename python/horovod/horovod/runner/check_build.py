# SPDX-License-Identifier: Apache-2.0
"""What this installation can do: horovodrun --version and --check-build."""
from __future__ import annotations

import importlib.util
from typing import Sequence, Tuple

import horovod


def version() -> str:
    """One line: of the interface, which programs compare with, and of what provides it."""
    try:
        import weft  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        return f"{horovod.__version__} (the package weft is missing: {error})"
    return f"{horovod.__version__} (interface; weft-horovod with libweft {weft.__version__})"


def _part(title: str, entries: Sequence[Tuple[str, bool]]) -> str:
    return f"{title}:\n" + "".join(f"    [{'X' if present else ' '}] {name}\n" for name, present in entries)


def report() -> str:
    """The list of --check-build."""
    torch = importlib.util.find_spec("torch") is not None
    others = [(name, False) for name in ("NCCL", "DDL", "CCL", "MPI", "Gloo")]
    parts = (_part("Available frameworks", [("PyTorch", torch), ("TensorFlow", False), ("MXNet", False)]),
             _part("Available controllers", [("Weft", True), ("MPI", False), ("Gloo", False)]),
             _part("Available tensor operations", [("Weft", True), *others]))
    return f"Horovod {version()}\n\n" + "\n".join(parts).rstrip("\n")
