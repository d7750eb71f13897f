# SPDX-License-Identifier: Apache-2.0
"""Builds the distributions of this repository's Python packages (PEP 517, PEP 660) with the compiler alone: nothing is downloaded.

One backend serves all: the current directory, which pip makes the source directory, has a pyproject.toml that says the rest. All packages
of the directory are taken. Where it has sources of extensions, they are compiled, and the wheel is for this platform; otherwise it is for all.

libweft is found, in this order, in the directory that WEFT_BUILD names (headers: include/ in it or beside it); where pkg-config says that
it is installed; in the directory build/ of the repository. The extensions remember that place.
"""
import ast
import base64
import hashlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

import torch_extension

PACKAGE_FILES = (".py", ".typed")
# In the source distribution, besides the packages.
SOURCE_FILES = ("pyproject.toml", "README.md", "src", "torch", "backend")


class BuildError(Exception):
    """The distribution cannot be built; the message says what to do."""


# ---- pyproject.toml ----


def read_project():
    """{section: {key: value}} of pyproject.toml, as far as our files use TOML: strings and lists of strings, each on a line.

    CPython has a parser from 3.11 on only.
    """
    sections, section = {}, {}
    with open("pyproject.toml", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line.endswith("]"):
                section = sections.setdefault(line[1:-1], {})
                continue
            key, equals, value = (part.strip() for part in line.partition("="))
            if value.startswith("{"):  # of an inline table, the value of its only key
                value = value.strip("{} ").partition("=")[2].strip()
            try:
                section[key.strip('"')] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                raise BuildError(f"pyproject.toml, line {number}: expected key = \"text\" or a list of texts, but found: {line}") from None
    return sections


class Project:
    """What pyproject.toml says."""

    def __init__(self):
        sections = read_project()
        project = sections["project"]
        self.name, self.version, self.summary = project["name"], project["version"], project["description"]
        self.python, self.license = project["requires-python"], project["license"]
        self.dependencies = project.get("dependencies", [])
        self.scripts = sections.get("project.scripts", {})
        self.base = f"{self.name.replace('-', '_')}-{self.version}"  # as file names begin

    def metadata(self):
        with open("README.md", encoding="utf-8") as file:
            readme = file.read()
        requires = "".join(f"Requires-Dist: {requirement}\n" for requirement in self.dependencies)
        return (f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\nSummary: {self.summary}\nLicense: {self.license}\n"
                f"Requires-Python: {self.python}\n{requires}Description-Content-Type: text/markdown\n\n{readme}")


# ---- extensions ----


def pkg_config(*words):
    if not shutil.which("pkg-config"):
        return None
    done = subprocess.run(["pkg-config", *words, "weft"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def find_libweft():
    """(directory of headers, directory of libweft.so)."""
    root = os.path.dirname(os.getcwd())
    chosen = os.environ.get("WEFT_BUILD")
    if chosen and not os.path.exists(os.path.join(chosen, "libweft.so")):
        raise BuildError(f"WEFT_BUILD names {chosen}, which has no libweft.so: build Weft there with make")
    installed = None if chosen else pkg_config("--variable=libdir")
    if installed:
        return pkg_config("--variable=includedir"), installed
    build = os.path.abspath(chosen or os.path.join(root, "build"))
    places = [os.path.join(place, "include") for place in (build, os.path.dirname(build), root)]
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


def compile_native(into, project):
    """weft._native, from src/*.c: libweft's calls for Python."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError("the package is for CPython 3.9 and later with its interpreter lock")
    headers, libraries = find_libweft()
    if header_version(headers) != project.version:
        raise BuildError(f"this package is for libweft {project.version}, but {headers}/weft/weft.h is of version {header_version(headers)}")
    includes = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(includes, "Python.h")):
        raise BuildError(f"{includes}/Python.h is missing: install CPython's headers (Debian: python3-dev)")
    sources = sorted(os.path.join("src", name) for name in os.listdir("src") if name.endswith(".c"))
    path = os.path.join(into, "_native.abi3.so")
    words = lambda name, default="": shlex.split(os.environ.get(name, default))
    command = [*words("CC", "cc"), "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter",
               "-Wno-missing-field-initializers", *words("CFLAGS"), "-shared", f"-I{headers}", f"-I{includes}", *sources, "-o", path,
               f"-L{libraries}", "-lweft", f"-Wl,-rpath,{libraries}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"the extension was not compiled: {shlex.join(command)}\n{done.stdout}")
    if done.stdout:
        print(done.stdout)
    return path


def compile_torch(into, project):
    """weft._torch, if PyTorch is there."""
    return torch_extension.compile_extension(*find_libweft(), into)


# A directory of sources that a source directory may have; a function that compiles it into a directory and returns the path, or None.
EXTENSIONS = (("src", compile_native), ("torch", compile_torch))
EXTENSIONS_PACKAGE = "weft"


def extensions_here():
    return [compile_into for directory, compile_into in EXTENSIONS if os.path.isdir(directory)]


def compile_extensions(project):
    """{path in the package: content} of the extensions."""
    files = {}
    with tempfile.TemporaryDirectory() as work:
        for compile_into in extensions_here():
            path = compile_into(work, project)
            if path:
                files[f"{EXTENSIONS_PACKAGE}/{os.path.basename(path)}"] = read_bytes(path)
    return files


def wheel_tag():
    if not extensions_here():
        return "py3-none-any"
    return f"cp39-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


# ---- files ----


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def package_files():
    """{path: content} of the packages: directories with an __init__.py, and those within them that have one."""
    files = {}

    def take(directory):
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name) if directory != "." else name
            if os.path.isdir(path) and os.path.exists(os.path.join(path, "__init__.py")):
                take(path)
            elif directory != "." and name.endswith(PACKAGE_FILES):
                files[path] = read_bytes(path)

    take(".")
    return files


def write_wheel(wheel_directory, project, files):
    """Write the wheel with these {path: content}; returns its name."""
    tag, information = wheel_tag(), f"{project.base}.dist-info"
    pure = "true" if tag.endswith("none-any") else "false"
    files[f"{information}/METADATA"] = project.metadata().encode()
    files[f"{information}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: weft_build\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode()
    if project.scripts:
        lines = "".join(f"{name} = {function}\n" for name, function in project.scripts.items())
        files[f"{information}/entry_points.txt"] = f"[console_scripts]\n{lines}".encode()
    record = "".join(f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
                     for name, content in files.items())
    files[f"{information}/RECORD"] = (record + f"{information}/RECORD,,\n").encode()
    wheel = f"{project.base}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel


# ---- what pip calls, in the source directory ----


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel; returns its name."""
    project = Project()
    return write_wheel(wheel_directory, project, {**package_files(), **compile_extensions(project)})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel for pip install -e: it refers to this directory, and extensions are compiled into it. Returns its name."""
    project = Project()
    for name, content in compile_extensions(project).items():
        with open(f"{name}.new", "wb") as file:
            file.write(content)
        os.replace(f"{name}.new", name)  # a program may have the former one loaded
    return write_wheel(wheel_directory, project, {f"__editable__.{project.base}.pth": f"{os.getcwd()}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    """Write the source distribution; returns its name. It is built where libweft is installed, or WEFT_BUILD names it."""
    project, files = Project(), package_files()
    for top in filter(os.path.exists, SOURCE_FILES):
        if os.path.isfile(top):
            files[top] = read_bytes(top)
        for directory, _, names in os.walk(top):
            files.update({os.path.join(directory, name): read_bytes(os.path.join(directory, name)) for name in sorted(names)
                          if not name.endswith(".pyc")})
    files["PKG-INFO"] = project.metadata().encode()
    sdist = f"{project.base}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, sdist), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{project.base}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return sdist
