# SPDX-License-Identifier: Apache-2.0
"""The command horovodrun."""
from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import Any, BinaryIO, Iterable, List, Optional, Sequence

from . import flags
from .command import Plan, plan
from .errors import UsageError

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_KERNEL = 0x80  # si_code of a signal that the terminal sends; its whole process group gets it
_PR_SET_PDEATHSIG = 1


def _settle(mask: Iterable[Any]) -> None:
    """In the child, before exec: the former signal mask, and SIGTERM when horovodrun is killed."""
    import ctypes  # pylint: disable=import-outside-toplevel
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _copy_with_time(lines: BinaryIO, out: BinaryIO) -> None:
    for line in iter(lines.readline, b""):
        out.write(time.strftime("%Y-%m-%d %H:%M:%S ").encode() + line)
        out.flush()


def _supervise(job: Plan) -> int:
    """Run weft run as a child; returns its exit status."""
    import ctypes  # pylint: disable=import-outside-toplevel,unused-import  # loaded before the fork
    watched = {*_PASSED_ON, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    output = subprocess.PIPE if job.timestamps else None
    with subprocess.Popen(job.command, stdout=output, stderr=output, preexec_fn=lambda: _settle(mask)) as process:
        pairs = ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)) if job.timestamps else ()
        copiers = [threading.Thread(target=_copy_with_time, args=pair) for pair in pairs]
        for copier in copiers:
            copier.start()
        while process.poll() is None:
            caught = signal.sigtimedwait(watched, 1)
            if caught and caught.si_signo != signal.SIGCHLD and caught.si_code != _FROM_KERNEL:
                process.send_signal(caught.si_signo)
            if job.growth:
                job.growth.tick()
        for copier in copiers:
            copier.join()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def run(job: Plan) -> int:
    """Run the job; returns the exit status. Without a reason to stay, this process becomes weft run."""
    sys.stdout.flush()
    sys.stderr.flush()
    if not job.timestamps and not job.discovery:
        os.execv(job.command[0], job.command)
    try:
        return _supervise(job)
    finally:
        if job.discovery:
            job.discovery.close()


def main(words: Optional[Sequence[str]] = None) -> int:
    """horovodrun with these words, or those of the command line."""
    try:
        options = flags.parse(sys.argv[1:] if words is None else words)
        if options.version or options.check_build:
            from . import check_build  # pylint: disable=import-outside-toplevel
            print(check_build.version() if options.version else check_build.report())
            return 0
        job = plan(options)
    except UsageError as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        return 2
    lines: List[str] = list(job.remarks)
    if options.verbose:
        lines.append(f"running {shlex.join(job.command)}")
    for line in lines:
        print(f"horovodrun: {line}", file=sys.stderr)
    return run(job)
