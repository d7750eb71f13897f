# SPDX-License-Identifier: Apache-2.0
"""Threads."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Optional, Tuple


def in_thread(target: Callable[..., Any], args: Tuple[Any, ...] = (), name: Optional[str] = None, daemon: bool = True,
              silent: bool = False) -> threading.Thread:
    """Start a thread that calls `target(*args)`; returns it. With `silent`, exceptions of `target` are dropped."""
    if not isinstance(args, tuple):
        raise ValueError(f"args is of type {type(args).__name__}; it must be a tuple: (value,) for one argument")

    def call() -> None:
        with contextlib.suppress(*([Exception] if silent else [])):
            target(*args)

    thread = threading.Thread(target=call, name=name, daemon=daemon)
    thread.start()
    return thread
