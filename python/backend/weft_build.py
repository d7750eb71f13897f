# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the package weft (PEP 517) with the C compiler alone: nothing is downloaded.

libweft is found, in this order, in the directory that WEFT_BUILD names (headers: include/ in it or beside it); where pkg-config says that it is installed; in the directory
build/ of the repository. The extension remembers that place.
"""
import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(HERE)
NAME, VERSION, TAG = "weft", "0.1.0", f"cp39-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
SUMMARY = "Distributed training: collectives on NumPy arrays and PyTorch tensors"


class BuildError(Exception):
    """The wheel cannot be built; the message says what to do."""


def get_requires_for_build_wheel(config_settings=None):
    return []


def pkg_config(*words):
    if not shutil.which("pkg-config"):
        return None
    done = subprocess.run(["pkg-config", *words, "weft"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def find_libweft():
    """(directory of headers, directory of libweft.so)."""
    chosen = os.environ.get("WEFT_BUILD")
    if chosen and not os.path.exists(os.path.join(chosen, "libweft.so")):
        raise BuildError(f"WEFT_BUILD names {chosen}, which has no libweft.so: build Weft there with make")
    installed = None if chosen else pkg_config("--variable=libdir")
    if installed:
        return pkg_config("--variable=includedir"), installed
    build = os.path.abspath(chosen or os.path.join(ROOT, "build"))
    places = [os.path.join(place, "include") for place in (build, os.path.dirname(build), ROOT)]
    headers = next((place for place in places if os.path.exists(os.path.join(place, "weft", "weft.h"))), None)
    if not os.path.exists(os.path.join(build, "libweft.so")) or not headers:
        raise BuildError("libweft was not found: run make in Weft's repository, or install it (make install), or set WEFT_BUILD to the directory "
                         "of libweft.so")
    return headers, build


def header_version(headers):
    with open(os.path.join(headers, "weft", "weft.h"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#define WEFT_VERSION_TEXT"):
                return line.split('"')[1]
    return "unknown"


def compile_extension(path):
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError("the package is for CPython 3.9 and later with its interpreter lock")
    headers, libraries = find_libweft()
    if header_version(headers) != VERSION:
        raise BuildError(f"this package is for libweft {VERSION}, but {headers}/weft/weft.h is of version {header_version(headers)}")
    includes = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(includes, "Python.h")):
        raise BuildError(f"{includes}/Python.h is missing: install CPython's headers (Debian: python3-dev)")
    sources = sorted(os.path.join(HERE, "src", name) for name in os.listdir(os.path.join(HERE, "src")) if name.endswith(".c"))
    words = lambda name, default="": shlex.split(os.environ.get(name, default))
    command = [*words("CC", "cc"), "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
               "-Wno-missing-field-initializers", *words("CFLAGS"), "-shared", f"-I{headers}", f"-I{includes}", *sources, "-o", path,
               f"-L{libraries}", "-lweft", f"-Wl,-rpath,{libraries}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"the extension was not compiled: {shlex.join(command)}\n{done.stdout}")
    if done.stdout:
        print(done.stdout)


def metadata():
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: {SUMMARY}\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel; returns its name."""
    information = f"{NAME}-{VERSION}.dist-info"
    with tempfile.TemporaryDirectory() as work:
        extension = os.path.join(work, "_native.abi3.so")
        compile_extension(extension)
        with open(extension, "rb") as file:
            files = {f"{NAME}/_native.abi3.so": file.read()}
    package = os.path.join(HERE, NAME)
    for name in sorted(os.listdir(package)):
        if name.endswith(".py") or name == "py.typed":
            with open(os.path.join(package, name), "rb") as file:
                files[f"{NAME}/{name}"] = file.read()
    files[f"{information}/METADATA"] = metadata().encode()
    files[f"{information}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: weft_build\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
                     for name, content in files.items())
    files[f"{information}/RECORD"] = (record + f"{information}/RECORD,,\n").encode()
    wheel = f"{NAME}-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel
