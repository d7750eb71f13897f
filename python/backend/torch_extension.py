# SPDX-License-Identifier: Apache-2.0
"""Compiles weft._torch, the backend of torch.distributed, where PyTorch is installed: torch/*.cpp, in C++.

PyTorch's C++ interface is different in each version, so the extension is for the one that is found, and its name says which
(weft/torch/extension.py looks for it). Without PyTorch, its headers or a compiler the package is complete but for weft.torch.
"""
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig

# Whose interface the sources are written for.
VERSION = "1.13."
# Run by the interpreter without pip's isolated environment, which hides what is installed.
QUESTION = """
import json, os, torch
print(json.dumps([torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI, os.path.dirname(os.path.abspath(torch.__file__))]))
"""


def find_torch():
    """(version, whether it uses the ABI of C++11, its directory) of the PyTorch that this interpreter imports, or None."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run([sys.executable, "-c", QUESTION], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
                          cwd=os.sep, env=clean)
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else None


def problem_with(version, directory, compiler):
    """What is missing, or None."""
    headers = os.path.join(directory, "include")
    if not version.startswith(VERSION):
        return f"PyTorch {version} is installed; the sources are for {VERSION}x"
    if not shutil.which(compiler):
        return f"there is no C++ compiler {compiler} (Debian: g++)"
    if not os.path.exists(os.path.join(headers, "torch", "csrc", "distributed", "c10d", "ProcessGroup.hpp")):
        return f"the headers of PyTorch are missing in {headers} (Debian: libtorch-dev)"
    if not any(os.path.exists(os.path.join(place, "pybind11", "pybind11.h")) for place in (headers, "/usr/include")):
        return "pybind11's headers are missing (Debian: pybind11-dev)"
    return None


def compile_extension(headers, libraries, into):
    """Compile torch/*.cpp of the current directory into the directory `into`, for libweft in these directories.

    Returns the path of the extension, which belongs into the package weft; or None, after printing why there is none.
    """
    found = find_torch()
    if found is None:
        print(f"weft.torch is left out: {sys.executable} finds no PyTorch")
        return None
    version, cxx11, directory = found
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    problem = problem_with(version, directory, compiler[0])
    if problem:
        print(f"weft.torch is left out: {problem}")
        return None
    path = os.path.join(into, f"_torch-{version}-{'cxx11' if cxx11 else 'cxx03'}{sysconfig.get_config_var('EXT_SUFFIX')}")
    command = [*compiler, "-std=c++17", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(cxx11)}", *shlex.split(os.environ.get("CXXFLAGS", "")), "-isystem", os.path.join(directory, "include"),
               "-isystem", sysconfig.get_paths()["include"], f"-I{headers}", "-Itorch", "-x", "c++", "-", "-x", "none", "-shared", "-o", path,
               f"-L{os.path.join(directory, 'lib')}", f"-L{libraries}", "-lweft", "-ltorch_python", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}"]
    # As one translation unit: nearly all of the time goes into PyTorch's headers.
    unit = "".join(f'#include "{os.path.basename(source)}"\n' for source in sorted(glob.glob(os.path.join("torch", "*.cpp"))))
    done = subprocess.run(command, input=unit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(f"weft.torch is left out, because it was not compiled: {shlex.join(command)}\n{done.stdout}")
        return None
    if done.stdout:
        print(done.stdout)
    return path
