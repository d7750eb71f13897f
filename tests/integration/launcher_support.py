# SPDX-License-Identifier: Apache-2.0
"""Trainings whose launcher is killed or stopped (weft run --launcher-loss), and others that take over (weft run --attach)."""
import json
import os
import signal
import subprocess
import time

from killed_runs_support import DIRECTORY, TRAIN, WEFT, expect, processes_of, reference

LIMIT = 90  # seconds for what takes a few, on a machine with other work
LINKED = ["--model", "gpt-nano"]


def until(condition, what, seconds=LIMIT):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = condition()
        if seen:
            return seen
        time.sleep(0.02)
    expect(f"{what} within {seconds} s", False)
    return None


class Job:
    """`weft run LAUNCH -- weft train`, or another program; its directory is `job`, that of its checkpoints `where`."""

    def __init__(self, name, launch, words=(), steps=700, program=None, loss="continue"):
        self.name, self.steps = name, steps
        self.mark = f"{os.getpid()}-{name}"
        self.where = os.path.join(DIRECTORY.name, name)
        self.job = os.path.join(DIRECTORY.name, "job-" + name)
        self.log = os.path.join(DIRECTORY.name, "log-" + name)
        self.words = [*LINKED, "--steps", str(steps), *words]
        self.program = program or [WEFT, *TRAIN, "--checkpoint-dir", self.where, "--metrics", self.where + ".jsonl", *self.words]
        self.launch = launch
        self.launcher = self.start("--no-record", "--job-dir", self.job, "--launcher-loss", loss, "--env", "WEFT_TEST_MARK", *launch, "--",
                                   *self.program)

    def start(self, *words):
        with open(self.log, "a") as log:
            return subprocess.Popen([WEFT, "run", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, "WEFT_TEST_MARK": self.mark})

    def attach(self):
        self.launcher = self.start("--attach", self.job)

    def output(self):
        with open(self.log) as file:
            return file.read()

    def processes(self):
        return list(processes_of(self.mark))

    def ranks(self):
        return {int(variables[b"WEFT_RANK"]): process for process, variables, _ in self.processes() if b"WEFT_RANK" in variables}

    def helpers(self):
        """The processes that have started ranks."""
        parents = set()
        for process in self.ranks().values():
            try:
                with open(f"/proc/{process}/stat") as file:
                    parents.add(int(file.read().rsplit(")", 1)[1].split()[1]))
            except OSError:
                pass
        return parents

    def events(self, kind=None):
        try:
            with open(os.path.join(self.job, "events.jsonl")) as file:
                seen = [json.loads(line) for line in file]
        except OSError:
            return []
        return [e for e in seen if kind in (None, e["event"])]

    def step(self):
        try:
            with open(self.where + ".jsonl") as file:
                return max([json.loads(line)["step"] for line in file if line.endswith("\n") and '"step"' in line], default=0)
        except OSError:
            return 0

    def wait_for_step(self, step):
        until(lambda: self.step() >= step or self.launcher.poll() is not None, f"{self.name}: step {step}")
        expect(f"{self.name}: reaches step {step}", self.step() >= step, self.output())

    def kill_launcher(self):
        self.launcher.kill()
        self.launcher.wait()

    def lose_launcher(self):
        self.kill_launcher()
        until(lambda: self.events("launcher_lost"), f"{self.name}: the loss of its launcher is recorded", 10)

    def wait(self, code):
        """The launcher ends with this code."""
        try:
            self.launcher.wait(2 * LIMIT)
        except subprocess.TimeoutExpired:
            expect(f"{self.name}: its launcher ends", False, self.output())
            self.kill_launcher()
        expect(f"{self.name}: exit code {code}, not {self.launcher.returncode}", self.launcher.returncode == code,
               f"{self.output()}\n{self.events()}")

    def nothing_is_left(self, seconds=5):
        end = time.monotonic() + seconds
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        left = self.processes()
        expect(f"{self.name}: no process is left", not left, left)
        for process, _, _ in left:
            os.kill(process, signal.SIGKILL)

    def has_the_same_bits(self):
        done = subprocess.run([WEFT, "checkpoint", "hash", self.where], capture_output=True, text=True, check=False)
        expected = reference(["-n", "1"], self.words)
        expect(f"{self.name}: the same bits", done.stdout.strip() == expected, f"{done.stdout} {done.stderr} {expected}\n{self.output()}")


def refused(what, words, code, sentence):
    """This weft run ends with that code and one message, which says so."""
    done = subprocess.run([WEFT, "run", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=LIMIT)
    expect(f"{what}: refused with '{sentence}'", done.returncode == code and sentence in done.stdout and done.stdout.count("\n") == 1,
           (done.returncode, done.stdout))
