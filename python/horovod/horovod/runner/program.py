# SPDX-License-Identifier: Apache-2.0
"""Where the command weft is."""
from __future__ import annotations

import os
import shutil
from typing import Iterator

from .errors import UsageError


def _beside_library() -> Iterator[str]:
    """Places next to the libweft.so that the package weft loads: a build directory, or lib/ beside bin/."""
    try:
        import weft  # pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        return
    with open("/proc/self/maps", encoding="utf-8") as file:
        libraries = {line.split()[-1] for line in file if "/libweft.so" in line}
    for library in libraries:
        directory = os.path.dirname(library)
        yield os.path.join(directory, "weft")
        parent = os.path.dirname(directory)
        yield os.path.join(parent, "bin", "weft")
        yield os.path.join(os.path.dirname(parent), "bin", "weft")  # lib/x86_64-linux-gnu


def find_weft() -> str:
    """The path in $WEFT, or of weft in PATH, or of the one that was built or installed with libweft."""
    chosen = os.environ.get("WEFT")
    if chosen:
        found = shutil.which(chosen)
        if not found:
            raise UsageError(f"WEFT is {chosen}, which is not a program; set it to the path of the command weft, or unset it")
        return found
    found = shutil.which("weft") or next(filter(shutil.which, _beside_library()), None)
    if not found:
        raise UsageError("the command weft was not found: install Weft (make install), or set WEFT to the path of build/weft")
    return found
