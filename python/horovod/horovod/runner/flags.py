# SPDX-License-Identifier: Apache-2.0
"""The command line of horovodrun: Horovod's flags."""
from __future__ import annotations

import argparse
import difflib
import os
from typing import List, NoReturn, Sequence

from . import config_file, tuning
from .errors import UsageError

DESCRIPTION = """Start a program that uses Horovod's API as ranks on this machine or on several hosts.

The ranks are started by weft run. These are Horovod's flags; weft run has more (weft help run)."""

EXAMPLES = """examples:
  horovodrun -np 4 python3 train.py
  horovodrun -np 8 -H hosta:4,hostb:4 python3 train.py
  horovodrun -np 8 --min-np 4 --max-np 16 --host-discovery-script ./hosts.sh python3 train.py

All variables of this environment reach the ranks on other hosts, but for those of the login session. A rank also finds HOROVOD_RANK,
HOROVOD_SIZE, HOROVOD_LOCAL_RANK and HOROVOD_LOCAL_SIZE. The exit status is that of weft run: of the first rank that failed, or 0."""

# Flags that would change what runs, and what to do instead.
REFUSED = {
    "--mpi-args": "ranks are not started by mpirun; set variables in this environment, which all ranks get, and start ranks under mpirun "
                  "itself with: mpirun -np N PROGRAM",
    "--jsrun": "ranks are not started by jsrun; name the hosts with -H or --hostfile",
}
# Flags without an effect, and why. Those with an empty text ask for what happens anyway.
WITHOUT_EFFECT = {
    "--gloo": "", "--mpi": "", "--disable-cache": "",
    "--binding-args": "ranks are not started by mpirun; weft run --bind cores binds each rank to its own cores",
    "--blacklist-cooldown-range": "a rank that fails again soon is started again after 1 s, then 2 s, up to 30 s, and no host is excluded",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; 'horovodrun --help' lists the flags")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="horovodrun", usage="horovodrun -np N [flags] PROGRAM [ARGUMENTS]", description=DESCRIPTION, epilog=EXAMPLES,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add, hidden, count = parser.add_argument, argparse.SUPPRESS, tuning.number(int, 1)
    add("-v", "--version", action="store_true", help="print the version")
    add("-cb", "--check-build", action="store_true", help="print what this installation can do")
    add("-np", "--num-proc", dest="ranks", metavar="N", type=count, help="number of ranks")
    add("--verbose", action="store_true", help="print the command that is run, how the ranks started and which network they use")
    add("--config-file", metavar="FILE", help="read settings for the ranks from FILE (YAML)")
    add("command", nargs=argparse.REMAINDER, help=hidden)

    group = parser.add_argument_group("hosts")
    hosts = group.add_mutually_exclusive_group()
    hosts.add_argument("-H", "--hosts", metavar="LIST", help="start on these hosts: name:slots,name:slots")
    hosts.add_argument("-hostfile", "--hostfile", metavar="FILE", help="read the hosts from FILE: a line 'name slots=number' for each")
    hosts.add_argument("--host-discovery-script", dest="discovery", metavar="COMMAND",
                       help="COMMAND prints the hosts there are now, a line name:slots for each; it is run again every few seconds")
    group.add_argument("-p", "--ssh-port", metavar="PORT", type=tuning.number(int, 1, 65535), help="port of ssh on the other hosts")
    group.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key for ssh")
    group.add_argument("--network-interfaces", "--network-interface", dest="interfaces", metavar="LIST",
                       help="network interfaces to use, with commas between (default: those that reach the other ranks)")
    group.add_argument("--tcp", action="store_true", help="use TCP alone between hosts")
    group.add_argument("--start-timeout", metavar="S", type=tuning.number(float, 0.1, 86400),
                       help="time for a host to answer, and for the ranks to meet after the first one arrives (default: "
                            "$HOROVOD_START_TIMEOUT, or 30 and 60)")

    group = parser.add_argument_group("elastic training (with --min-np or --host-discovery-script)")
    group.add_argument("--min-np", "--min-num-proc", dest="least", metavar="N", type=count,
                       help="go on as long as N ranks are left (default: -np)")
    group.add_argument("--max-np", "--max-num-proc", dest="most", metavar="N", type=count,
                       help="use at most N slots (default: all that there are)")
    group.add_argument("--slots-per-host", dest="slots", metavar="N", type=count,
                       help="slots of hosts that the discovery script prints without a number (default: 1)")
    group.add_argument("--reset-limit", metavar="N", type=tuning.number(int, 0, 10000),
                       help="start at most N ranks in place of lost ones (default: 100)")

    group = parser.add_argument_group("output")
    group.add_argument("--output-filename", dest="output", metavar="DIR",
                       help="write each rank's output to DIR/rank-N.out and DIR/rank-N.err")
    group.add_argument("-prefix-timestamp", "--prefix-output-with-timestamp", dest="timestamps", action="store_true",
                       help="begin each line of output with the time")
    tuning.add_flags(parser)

    controllers = parser.add_mutually_exclusive_group()
    controllers.add_argument("--gloo", action="store_true", help=hidden)
    controllers.add_argument("--mpi", action="store_true", help=hidden)
    controllers.add_argument("--jsrun", action="store_true", help=hidden)
    add("--disable-cache", action="store_true", help=hidden)
    add("--binding-args", help=hidden)
    add("--mpi-args", help=hidden)
    add("--blacklist-cooldown-range", nargs=2, type=tuning.number(int), help=hidden)
    return parser


def _refuse_unknown(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    flag = unknown[0].partition("=")[0]
    known = [name for action in parser._actions for name in action.option_strings]  # pylint: disable=protected-access
    near = difflib.get_close_matches(flag, known, 1)
    guess = f"did you mean {near[0]}?" if near else "a program's flags come after its name;"
    raise UsageError(f"there is no flag {flag}; {guess} 'horovodrun --help' lists them")


def _check(options: argparse.Namespace) -> None:
    for flag, remedy in REFUSED.items():
        if getattr(options, flag[2:].replace("-", "_")):
            raise UsageError(f"{flag} is not supported: {remedy}")
    if not options.command:
        raise UsageError("no program is named; write it after the flags, as in: horovodrun -np 4 python3 train.py")
    if options.ranks is None and not (options.hosts or options.hostfile):
        raise UsageError("the number of ranks is missing; write -np N")
    if options.least and options.ranks and options.least > options.ranks:
        raise UsageError(f"--min-np {options.least} is more than -np {options.ranks}")
    if options.most and options.ranks and options.most < options.ranks:
        raise UsageError(f"--max-np {options.most} is less than -np {options.ranks}")
    elastic = options.least or options.discovery
    for flag, given in (("--max-np", options.most), ("--reset-limit", options.reset_limit)):
        if given is not None and not elastic:
            raise UsageError(f"{flag} is for elastic training; add --min-np N")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The flags, checked, with the settings of --config-file; `command` is the program with its arguments."""
    parser = _parser()
    options, unknown = parser.parse_known_args(list(words))
    if unknown:
        _refuse_unknown(parser, unknown)
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if options.version or options.check_build:
        return options
    if options.config_file:
        config_file.apply(options.config_file, options)
    if options.start_timeout is None and os.environ.get("HOROVOD_START_TIMEOUT"):
        try:
            options.start_timeout = tuning.number(float, 0.1, 86400)(os.environ["HOROVOD_START_TIMEOUT"])
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"HOROVOD_START_TIMEOUT: {error}") from None
    _check(options)
    return options


def remarks(options: argparse.Namespace) -> List[str]:
    """A line for each flag that has no effect."""
    given = {flag: reason for flag, reason in WITHOUT_EFFECT.items() if reason and getattr(options, flag[2:].replace("-", "_"))}
    given.update(tuning.without_effect(options))
    if options.slots and not options.discovery:
        given["--slots-per-host"] = "it is for hosts of --host-discovery-script"
    return [f"{flag} has no effect: {reason}" for flag, reason in given.items()]
