# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the compiled part, which is for exactly one version of PyTorch, one C++ ABI and one CPython: its name says which."""
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import List

import torch

DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX = "_torch-"
VERSION = "1.13."


def build_of(version: str, cxx11_abi: bool) -> str:
    """What the name of the extension has between PREFIX and the suffix of CPython's extensions."""
    return f"{version}-{'cxx11' if cxx11_abi else 'cxx03'}"


def _others() -> List[str]:
    """What extensions there are: the middle of their names, and the suffix."""
    return [name[len(PREFIX):] for name in sorted(os.listdir(DIRECTORY)) if name.startswith(PREFIX) and name.endswith(".so")]


def load() -> ModuleType:
    """weft._torch. Raises ImportError if it was not built, or for another PyTorch."""
    wanted = build_of(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI) + importlib.machinery.EXTENSION_SUFFIXES[0]
    path = os.path.join(DIRECTORY, PREFIX + wanted)
    if not os.path.exists(path):
        others = _others()
        remedy = "install the package weft again, for example: pip install -v --force-reinstall --no-deps ./python"
        if not torch.__version__.startswith(VERSION):
            raise ImportError(f"weft.torch is for PyTorch {VERSION}x, but this is {torch.__version__}")
        if others:
            raise ImportError(f"weft.torch was built for {', '.join(others)}, but this is {wanted}: {remedy}")
        raise ImportError("weft.torch was not built, because PyTorch, its headers (Debian: libtorch-dev, pybind11-dev) or a C++ compiler "
                          f"were missing when the package weft was installed: {remedy}")
    if not torch.distributed.is_available():
        raise ImportError("this PyTorch was built without torch.distributed, so there is nothing that weft.torch could serve")
    spec = importlib.util.spec_from_file_location("weft._torch", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["weft._torch"] = module
    spec.loader.exec_module(module)
    return module


native = load()
