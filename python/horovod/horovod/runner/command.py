# SPDX-License-Identifier: Apache-2.0
"""The command line of weft run for the flags of horovodrun."""
from __future__ import annotations

import argparse
import os
import re
from typing import List, NamedTuple, Optional

from . import flags, hosts, tuning
from .discovery import Discovery, Growth
from .errors import UsageError
from .program import find_weft

RESTARTS = 100  # without --reset-limit: a program that fails again and again ends within an hour
ELASTIC_SECONDS = 600.0
# Variables of the login session, which other hosts have themselves, and those that weft run passes on. CUDA_VISIBLE_DEVICES is a host's own.
_SESSION = re.compile(r"(_|PWD|OLDPWD|SHLVL|HOME|USER|LOGNAME|SHELL|MAIL|TERM|DISPLAY|HOSTNAME|TMPDIR|LS_COLORS|CUDA_VISIBLE_DEVICES"
                      r"|(SSH|XDG|DBUS|BASH_FUNC|WEFT|OMP|FI)_.*|WEFT)")
# Programs read these before they call hvd.init().
_RANK_VARIABLES = ('export HOROVOD_RANK="$WEFT_RANK" HOROVOD_SIZE="$WEFT_RANKS" HOROVOD_LOCAL_RANK="$WEFT_LOCAL_RANK" '
                   'HOROVOD_LOCAL_SIZE="$WEFT_LOCAL_RANKS"; exec "$@"')


class Plan(NamedTuple):
    """What to run, the lines to print before, and what to do meanwhile."""

    command: List[str]
    remarks: List[str]
    timestamps: bool = False
    discovery: Optional[Discovery] = None
    growth: Optional[Growth] = None


def _agent(options: argparse.Namespace) -> List[str]:
    """How to reach other hosts, if ssh needs settings."""
    words = ["ssh"]
    if options.ssh_port:
        words += ["-p", str(options.ssh_port)]
    if options.ssh_identity_file:
        words += ["-i", options.ssh_identity_file]
    if len(words) == 1:
        return []
    return ["--agent", " ".join(word.replace("\\", "\\\\").replace(" ", "\\ ") for word in words)]


def _environment(options: argparse.Namespace, elastic: bool, elsewhere: bool) -> List[str]:
    variables = tuning.variables(options)
    if options.interfaces:
        variables["WEFT_INTERFACE"] = options.interfaces
    if options.tcp:
        variables["FI_PROVIDER"] = "tcp,net"  # both of libfabric's; Weft takes the better one
    if elastic:
        variables["HOROVOD_ELASTIC"] = "1"
    words = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    if elsewhere:  # a name alone copies the value, which so is not seen in lists of processes
        words += [word for name in sorted(os.environ) if not _SESSION.fullmatch(name) and name not in variables for word in ("--env", name)]
    return words


def _elastic(options: argparse.Namespace, ranks: int, remarks: List[str]) -> List[str]:
    least = options.least or options.ranks or ranks
    words = ["--min-ranks", str(least)]
    restarts = RESTARTS if options.reset_limit is None else options.reset_limit
    if least >= ranks:
        remarks.append("lost ranks are not replaced, as the job begins with no more ranks than --min-np")
    elif restarts > 0:
        words += ["--restarts", str(restarts)]
    return words


def _elastic_seconds(options: argparse.Namespace) -> float:
    """How long to wait for slots."""
    if options.HOROVOD_ELASTIC_TIMEOUT:
        return options.HOROVOD_ELASTIC_TIMEOUT
    try:
        return tuning.number(float)(os.environ.get("HOROVOD_ELASTIC_TIMEOUT") or "0") or ELASTIC_SECONDS
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"HOROVOD_ELASTIC_TIMEOUT: {error}") from None


def _elastic_ranks(options: argparse.Namespace, listed: List[hosts.Host]) -> int:
    """As many ranks as the slots allow. Fewer slots than -np are left to weft run to refuse."""
    slots = hosts.slots_of(listed)
    wanted = min(slots, options.most or slots)
    return max(wanted, options.ranks or 1)


def plan(options: argparse.Namespace) -> Plan:
    """What to run for these flags, after waiting for the hosts of a discovery script. plan.discovery is to be closed."""
    weft, elastic, remarks = find_weft(), bool(options.least or options.discovery), flags.remarks(options)
    words, ranks, elsewhere, discovery, growth = [weft, "run"], options.ranks, False, None, None
    if options.discovery:
        discovery = Discovery(options.discovery, options.slots or 1)
        try:
            ranks = _elastic_ranks(options, discovery.wait_for(options.ranks, _elastic_seconds(options)))
        except UsageError:
            discovery.close()
            raise
        words += ["--hosts-command", discovery.command, "--job-dir", discovery.job_directory]
        growth, elsewhere = Growth(weft, discovery, ranks, options.most), True
    elif options.hosts or options.hostfile:
        listed = hosts.parse_list(options.hosts) if options.hosts else hosts.read_file(options.hostfile)
        words += ["--hosts", options.hosts] if options.hosts else ["--hostfile", options.hostfile]
        elsewhere = any(host.name != "localhost" for host in listed)
        ranks = _elastic_ranks(options, listed) if elastic else ranks
    if ranks:
        words += ["-n", str(ranks)]
    if elastic:
        words += _elastic(options, ranks, remarks)
    words += _agent(options)
    if options.start_timeout:
        words += ["--start-timeout", f"{options.start_timeout:g}", "--timeout", f"{options.start_timeout:g}"]
    if options.output:
        words += ["--output-dir", options.output]
    if options.verbose:
        words += ["--verbose"]
    words += [*_environment(options, elastic, elsewhere), "--", "sh", "-c", _RANK_VARIABLES, "horovodrun", *options.command]
    return Plan(words, remarks, options.timestamps, discovery, growth)
