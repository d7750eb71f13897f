# SPDX-License-Identifier: Apache-2.0
"""Namespaces of the kernel for hosts that tests make on one machine: what tests/cluster and tests/slurm share."""
import ctypes
import os
import subprocess

NEW_MOUNT, NEW_HOST_NAME, NEW_IPC, NEW_PROCESS, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MOUNT_BIND, MOUNT_RECURSIVE, MOUNT_PRIVATE, MOUNT_SLAVE = 0x1000, 0x4000, 0x40000, 0x80000
DEATH_SIGNAL, ADOPT_ORPHANS = 1, 36  # of prctl
SKIP = 77  # the exit status of what cannot run on this machine
libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """What went wrong, in a message, and the exit status it is worth."""

    def __init__(self, text, status=2):
        super().__init__(text)
        self.status = status


def call(name, *arguments):
    """Call a function of the C library that returns -1 and errno on failure."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise Refused(f"{name} is refused here: {os.strerror(number)}", SKIP)


def mount(source, target, kind, flags, settings=None):
    call("mount", source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags),
         settings.encode() if settings else None)


def run(*command, text=None):
    """Run a command. What the kernel lacks (a bridge, a token bucket) is no fault of the caller's: such a machine skips."""
    done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Refused(f"'{' '.join(command)}' failed: {done.stdout.strip()}" + (f" (given: {text.strip()})" if text else ""), SKIP)


def set_host_name(name):
    call("sethostname", name.encode(), len(name))


def set_switch(name, value):
    """Of this network namespace."""
    try:
        with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as switch:
            switch.write(value)
    except OSError:
        pass  # there is none


def set_switches():
    """The same on every machine. IPv6's address detection would make the first second of every cluster noisy. Congestion
    control is the one that every kernel has: BBR, if it is the default, holds messages back for tens of milliseconds by
    what it has seen of a token bucket."""
    for scope in ("all", "default"):
        set_switch(f"ipv6/conf/{scope}/disable_ipv6", "1")
    set_switch("ipv4/tcp_congestion_control", "reno")
