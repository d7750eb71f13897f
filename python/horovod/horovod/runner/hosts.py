# SPDX-License-Identifier: Apache-2.0
"""Hosts and their slots, as -H, --hostfile and --host-discovery-script name them."""
from __future__ import annotations

from typing import List, NamedTuple, Optional

from .errors import UsageError


class Host(NamedTuple):
    """A machine and how many ranks it takes; without a number, `slots` is left out (None)."""

    name: str
    slots: Optional[int]


def _host(name: str, slots: Optional[str], where: str) -> Host:
    if not name:
        raise UsageError(f"{where}: a host has no name; write NAME:SLOTS")
    if slots is not None and (not slots.isdigit() or int(slots) < 1):
        raise UsageError(f"{where}: host {name} has {slots!r} slots, which is not a number from 1 on; write {name}:SLOTS")
    return Host(name, None if slots is None else int(slots))


def parse_list(text: str) -> List[Host]:
    """Hosts of -H: "name:slots,name:slots"."""
    hosts = []
    for entry in text.split(","):
        name, colon, slots = entry.strip().partition(":")
        hosts.append(_host(name, slots if colon else None, "-H"))
    return hosts


def parse_lines(text: str, where: str) -> List[Host]:
    """A host a line: "name", "name:slots" or "name slots=number"; "#" begins a comment."""
    hosts = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, colon, slots = words[0].partition(":")
        if not colon and len(words) > 1:
            colon, slots = "=", words[1][len("slots="):] if words[1].startswith("slots=") else words[1]
        hosts.append(_host(name, slots if colon else None, where))
    return hosts


def read_file(path: str) -> List[Host]:
    """Hosts of --hostfile."""
    try:
        with open(path, encoding="utf-8") as file:
            hosts = parse_lines(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--hostfile {path} cannot be read: {error}") from None
    if not hosts:
        raise UsageError(f"--hostfile {path} names no host; write a line 'NAME slots=NUMBER' for each")
    return hosts


def slots_of(hosts: List[Host]) -> int:
    """All slots; a host that leaves their number open has one."""
    return sum(host.slots or 1 for host in hosts)
