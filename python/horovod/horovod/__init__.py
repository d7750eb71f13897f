# SPDX-License-Identifier: Apache-2.0
"""Horovod's interface, on Weft: programs written for `horovod.torch` run without changes, on the CPU.

    import horovod.torch as hvd
    hvd.init()

    $ weft run -n 4 -- python3 program.py
"""
from __future__ import annotations

from typing import Any

__version__ = "0.28.1"  # of Horovod, whose interface this is


def __getattr__(name: str) -> Any:
    """horovod.run() starts programs: it is imported on first use, since ranks do not need it."""
    if name == "run":
        from horovod.runner import run
        return run
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
