# SPDX-License-Identifier: Apache-2.0
"""Hosts that come and go: what --host-discovery-script prints, and ranks on slots that appear."""
from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from typing import List, Optional

from .errors import UsageError
from .hosts import Host, parse_lines, slots_of

SCRIPT_SECONDS = 10  # as long as weft run waits for it


class Discovery:
    """Runs the script, and keeps what it printed last. weft run runs it again, by `command`."""

    def __init__(self, script: str, slots: int):
        self._directory = tempfile.TemporaryDirectory(prefix="horovodrun-")
        self.job_directory = os.path.join(self._directory.name, "job")
        self._script, self._hosts = script, os.path.join(self._directory.name, "hosts")
        discover, new = os.path.join(self._directory.name, "discover"), f"{self._hosts}.new"
        # A host without a number gets the slots of --slots-per-host. The file is replaced as a whole, so that no reader sees half of it.
        with open(discover, "w", encoding="utf-8") as file:
            file.write(f"set -e\n( {script}\n) >{shlex.quote(new)}\n"
                       f"sed -E -i 's/^[[:space:]]*([^:#[:space:]]+)[[:space:]]*$/\\1:{slots}/' {shlex.quote(new)}\n"
                       f"mv {shlex.quote(new)} {shlex.quote(self._hosts)}\ncat {shlex.quote(self._hosts)}\n")
        self.command = f"sh {shlex.quote(discover)}"

    def listed(self) -> List[Host]:
        """The hosts that the script printed last."""
        with open(self._hosts, encoding="utf-8") as file:
            return parse_lines(file.read(), f"--host-discovery-script {self._script}")

    def _run(self) -> List[Host]:
        try:
            done = subprocess.run(["sh", "-c", self.command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True, timeout=SCRIPT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UsageError(f"--host-discovery-script {self._script} has not ended within {SCRIPT_SECONDS} s") from None
        if done.returncode != 0:
            raise UsageError(f"--host-discovery-script {self._script} ended with exit code {done.returncode}\n{done.stderr}".rstrip())
        return self.listed()

    def wait_for(self, ranks: int, limit: float) -> List[Host]:
        """The hosts, as soon as they have slots for so many ranks."""
        end = time.monotonic() + limit
        while True:
            hosts = self._run()
            if slots_of(hosts) >= ranks:
                return hosts
            if time.monotonic() >= end:
                raise UsageError(f"--host-discovery-script {self._script} listed {slots_of(hosts)} slots after {limit:g} s, too few for "
                                 f"-np {ranks}; raise --elastic-timeout to wait longer")
            time.sleep(1)

    def close(self) -> None:
        """Remove the files."""
        self._directory.cleanup()


class Growth:
    """Requests more ranks when the script lists more slots. Hosts that are no longer listed keep the ranks that they have."""

    def __init__(self, weft: str, discovery: Discovery, ranks: int, most: Optional[int]):
        self._weft, self._discovery, self._requested, self._most = weft, discovery, ranks, most

    def tick(self) -> None:
        """Call it every second."""
        try:
            slots = slots_of(self._discovery.listed())
        except (OSError, UsageError):  # weft run prints a warning
            return
        wanted = min(slots, self._most or slots)
        if wanted <= self._requested:
            return
        # It is refused as long as the ranks have not met; then the next try succeeds.
        try:
            subprocess.run([self._weft, "scale", self._discovery.job_directory, str(wanted)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SCRIPT_SECONDS, check=True)
        except subprocess.SubprocessError:
            return
        self._requested = wanted
