# SPDX-License-Identifier: Apache-2.0
"""The file of --config-file: YAML with sections of keys. Flags of the command line come before it."""
from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, Tuple

from . import tuning
from .errors import UsageError

_CONTROLLERS = ("gloo", "mpi")  # as --gloo and --mpi: both are accepted, and change nothing


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{what} is {value!r}; write true or false")
    return value


def _keys() -> Dict[Tuple[str, str], Tuple[str, Callable[[Any, str], Any]]]:
    """{(section, key): (variable, how its value is read)}"""

    def converted(convert: Callable[[str], Any]) -> Callable[[Any, str], Any]:
        def read(value: Any, what: str) -> Any:
            try:
                return convert(str(value))
            except argparse.ArgumentTypeError as error:
                raise UsageError(f"{what}: {error}") from None
        return read

    def switched(on: int) -> Callable[[Any, str], Any]:
        return lambda value, what: on if _truth(value, what) else 1 - on

    keys = {(value.section, value.key): (value.variable, converted(value.convert)) for value in tuning.VALUES if value.section}
    keys.update({(switch.section, switch.key): (switch.variable, switched(switch.value)) for switch in tuning.SWITCHES})
    keys["logging", "hide_timestamp"] = ("HOROVOD_LOG_HIDE_TIME", switched(1))  # as in files of older Horovods
    return keys


def _parse(path: str) -> Dict[str, Any]:
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise UsageError(f"--config-file {path} needs the Python package yaml: install it (Debian: python3-yaml, pip: PyYAML), or give "
                         f"the settings as flags") from None
    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--config-file {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content or {}, dict):
        raise UsageError(f"--config-file {path} holds no sections; write, for example:\nparams:\n  cycle_time_ms: 2")
    return content or {}


def apply(path: str, options: argparse.Namespace) -> None:
    """Set what the file sets and the command line does not."""
    keys, content = _keys(), _parse(path)
    controller = content.pop("controller", None)
    if controller is not None and str(controller).lower() not in _CONTROLLERS:
        raise UsageError(f"{path}: controller is {controller!r}; leave it out: the ranks find each other through weft run")
    sections = sorted({section for section, _ in keys})
    for section, entries in content.items():
        if section not in sections:
            raise UsageError(f"{path}: there is no section {section!r}; there are {', '.join(sections)}")
        if not isinstance(entries, dict):
            raise UsageError(f"{path}: section {section} holds {entries!r}; write a line 'key: value' for each setting")
        for key, value in entries.items():
            if (section, key) not in keys:
                known = ", ".join(sorted(known for place, known in keys if place == section))
                raise UsageError(f"{path}: section {section} has no key {key!r}; it has {known}")
            variable, read = keys[section, key]
            read_value = read(value, f"{path}: {section}.{key}")
            if getattr(options, variable) is None:
                setattr(options, variable, read_value)
