# SPDX-License-Identifier: Apache-2.0
"""A run of tests/chaos/chaos: the command, started again when that is right, and what must be so when it has ended."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

from chaos_failures import CLOCKS, ENDING, HAPPEN, HERE, SLOTS, TROUBLED, WEFT, empty_disk, mount_disk, processes, steps_in

APART = os.path.join(HERE, "..", "integration", "apart")
DATA = os.path.join(HERE, "..", "..", "LICENSE")
STEPS = 400
FAILURES = 4  # in a run
ATTEMPTS = 8
RUN_LIMIT = 240.0  # seconds for an attempt: longer is a hang
END_LIMIT = 20.0  # until nothing is left of an attempt
HANG_LIMIT = "2"
LOST_ALL = ("all ranks that had the run are lost", "the job that this rank was to join has ended", "only the larger side continues",
            "hangs, and is killed", "warning: ")
FULL = "the disk is full"
STORED = {"copy", "disk", "torn"}  # failures for which there should be checkpoints
MESHES = (["--mesh", "data=4"], ["--mesh", "data=4", "--zero", "1"], ["--mesh", "data=4", "--zero", "2"], ["--mesh", "data=4", "--zero", "3"],
          ["--mesh", "data=2,pipeline=2"], ["--mesh", "data=2,pipeline=2", "--zero", "3"], ["--mesh", "pipeline=4"],
          ["--mesh", "data=2,tensor=2"], ["--mesh", "pipeline=2,tensor=2"])
TROUBLES = {"hang", "damage", "clock"}  # of troubled_process.c
PASSED_ON = ("WEFT_CHAOS_MARK", "WEFT_CHECK_MESSAGES", "LD_PRELOAD", "TROUBLE_SLEEPS", "TROUBLE_FLIPS", "TROUBLE_CLOCK")
FLIP_BYTES = 2000  # of a message that is damaged, at least: rows between two layers have more
OPTIMIZERS = ("adamw", "sgd", "lamb")


def training(words):
    return [WEFT, "train", "--data", DATA, "--model", "gpt-nano", "--sequence", "16", "--batch", "8", "--micro-batch", "1", "--steps",
            str(STEPS), "--sample", "0", "--evaluate-sequences", "0", "--log-every", "1", *words]


def hash_of(directory):
    return subprocess.run([WEFT, "checkpoint", "hash", directory], capture_output=True, text=True, check=False).stdout.strip()


def deal(place, seed, kinds):
    """Failures of a run, from shuffled decks that have each kind once. The same seed gives the same ones."""
    dealt = []
    for card in range((seed - 1) * FAILURES, seed * FAILURES):
        deck, number = divmod(card, len(kinds))
        dealt.append(random.Random(f"{place} {deck}").sample(kinds, len(kinds))[number])
    return dealt


class Run:
    """One run and what happens to it."""

    def __init__(self, place, seed, kinds, directory):
        self.draw = random.Random(f"{place} {seed}")
        self.place, self.seed = place, seed
        self.mark = f"{os.getpid()}-{place}-{seed}"
        self.optimizer = self.draw.choice(OPTIMIZERS)
        self.mesh = self.draw.choice(MESHES)
        self.failures = deal(place, seed, kinds)
        self.goes_on = self.draw.random() < 0.5  # when a checkpoint fails
        self.sleeps = self.draw.random() < 0.5  # a rank that hangs: otherwise it loops
        self.left = list(self.failures)
        self.happened, self.trouble, self.events, self.timers, self.afterwards = [], [], [], [], []
        self.top = os.path.join(directory, f"{place}-{seed}")
        self.disk, self.copy, self.job, self.metrics, self.clock = (os.path.join(self.top, name)
                                                                    for name in ("disk", "copy", "job", "metrics.jsonl", "clock"))
        self.where = os.path.join(self.disk, "run")
        self.disk_is_full = False
        self.resumes_from = None  # step, as far as that is known
        self.output, self.begin = "", 0  # of all attempts; where that of this one begins
        self.attempts = 0
        self.launcher, self.launcher_changes = None, threading.Event()

    def launch_words(self):
        words = ["-n", "4"]
        if self.place == "cluster":
            words += ["--hosts", "host0:2,host1:2,host2:2", "--agent", os.environ["WEFT_AGENT"]]
        elif "helper" in self.failures:
            words += ["--hosts", "node1:2,node2:2,node3:2,node4:2", "--agent", APART]
        elif "scale" in self.failures:
            words += ["--hosts", f"localhost:{SLOTS}"]
        if {"scale", "takeover", "clock"} & set(self.failures):
            words += ["--job-dir", self.job]
        if "takeover" in self.failures:
            words += ["--launcher-loss", "continue"]
        for name in PASSED_ON:
            words += ["--env", name]
        return words

    def train_words(self):
        words = ["--optimizer", self.optimizer, "--checkpoint-dir", self.where, "--checkpoint-every", "25" if STORED & set(self.failures) else "100",
                 "--resume", "auto", "--metrics", self.metrics, *self.mesh]
        if "copy" in self.failures:
            words += ["--checkpoint-copy", self.copy]
        if "disk" in self.failures and self.goes_on:
            words += ["--checkpoint-failure", "continue"]
        if "hang" in self.failures:
            words += ["--hang-limit", HANG_LIMIT]
        return words

    def words(self):
        return [WEFT, "run", "--no-record", *self.launch_words(), "--min-ranks", "1", "--restarts", "50", "--", *training(self.train_words())]

    def environment(self):
        variables = {**os.environ, "WEFT_CHAOS_MARK": self.mark}
        if TROUBLES & set(self.failures):
            variables["LD_PRELOAD"] = TROUBLED
        if "hang" in self.failures and self.sleeps:
            variables["TROUBLE_SLEEPS"] = "1"
        if "damage" in self.failures:
            variables |= {"WEFT_CHECK_MESSAGES": "1", "TROUBLE_FLIPS": str(FLIP_BYTES)}
        if "clock" in self.failures:
            variables["TROUBLE_CLOCK"] = self.clock
        return variables

    # ---- an attempt ----

    def fail(self, job):
        """The next failure; whether the attempt ends by it."""
        kind = self.left.pop(0)
        done = HAPPEN[kind](self, job)
        self.output += f"---- {kind}: {done}\n"
        if done is None:
            return False
        self.happened.append(kind)
        while self.left[:1] == ["again"]:  # while the others are still at it
            time.sleep(self.draw.uniform(0.01, 0.6))
            self.happened.append(self.left.pop(0))
            self.output += f"---- again: {HAPPEN['again'](self, job)}\n"
        return kind in ENDING

    def start_launcher(self, words):
        """The first one of an attempt, or one that takes over from it."""
        self.launcher = subprocess.Popen(words, stdout=self.pipe, stderr=subprocess.STDOUT, env=self.environment())
        self.launcher_changes.clear()

    def watch_launchers(self):
        """The output of an attempt ends with its last launcher."""
        while self.launcher.poll() is None or self.launcher_changes.is_set():
            time.sleep(0.01)
        os.close(self.pipe)

    def attempt(self):
        """Run the command once; its exit code, and whether a failure has ended it."""
        output, self.pipe = os.pipe()
        self.start_launcher(self.words())
        watch = threading.Thread(target=self.watch_launchers)
        watch.start()
        hang = threading.Event()

        def give_up():
            hang.set()
            self.launcher.kill()

        limit = threading.Timer(RUN_LIMIT, give_up)
        limit.start()
        ended, after, self.begin = False, None, len(self.output)
        for line in open(output, errors="replace"):
            self.output += line
            if self.disk_is_full and FULL in line:
                self.disk_is_full = False
                self.timers.append(threading.Timer(self.draw.uniform(0, 2), empty_disk, [self]))
                self.timers[-1].start()
            found = re.search(r"step +(\d+)/", line)
            if not found or not self.left:
                continue
            if after is None:
                after = int(found[1]) + self.draw.randint(3, 50)
            if int(found[1]) < after and self.left[0] != "again":
                continue
            after = None
            time.sleep(self.draw.uniform(0, 0.03))
            ended |= self.fail(self.launcher)
        watch.join()
        code = self.launcher.wait()
        limit.cancel()
        if hang.is_set():
            self.trouble.append(f"the run had not ended after {RUN_LIMIT:g} s")
        return code, ended

    def said(self):
        """The output of this attempt."""
        return self.output[self.begin:]

    def lost_all(self, code):
        """Whether the run has ended because all ranks that had it were killed: no rank says anything else."""
        said = [line for line in self.said().splitlines() if "] weft: " in line]
        return code in (1, 128 + signal.SIGKILL) and all(any(words in line for words in LOST_ALL) for line in said)

    def run(self, expected):
        os.makedirs(self.disk)
        with open(self.clock, "wb") as file:
            file.write(bytes(8 * CLOCKS))
        begin = time.monotonic()
        if "disk" in self.failures:
            mount_disk(self)
        self.memory = set(os.listdir("/dev/shm"))
        while self.attempts < ATTEMPTS:
            self.attempts += 1
            code, ended = self.attempt()
            self.check_resume()
            if code == 0 or self.trouble:
                break
            was_full = "disk" in self.happened and FULL in self.said()
            if not ended and not was_full and not self.lost_all(code):
                self.trouble.append(f"the run ended with exit code {code}")
                break
            self.wait_for_end()
            self.bury_job()
            if was_full and not ended:
                self.check_names(self.where)
            empty_disk(self)
            for change in self.afterwards:
                self.output += f"---- then: {change(self)}\n"
            self.afterwards.clear()
        for timer in self.timers:
            timer.join()
        self.check(expected, time.monotonic() - begin)

    # ---- what must be so ----

    def wait_for_end(self):
        """Nothing is left of a job soon after its launcher."""
        end = time.monotonic() + END_LIMIT
        while list(processes(self.mark)) and time.monotonic() < end:
            time.sleep(0.02)
        left = [(process, words) for process, _, words in processes(self.mark)]
        if left:
            self.trouble.append(f"processes are left: {left[:4]}")
        for process, _ in left:
            os.kill(process, signal.SIGKILL)

    def bury_job(self):
        """A job on several hosts of which nothing is left may still run, as far as the next launcher knows: it has to look."""
        if os.path.exists(os.path.join(self.job, "job")):
            done = subprocess.run([WEFT, "run", "--attach", self.job], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                                  check=False, env=self.environment())
            self.output += done.stdout

    def check_resume(self):
        if self.resumes_from is not None and re.search(r"step +\d+/", self.said()):
            found = re.search(r"resume after step (\d+) from ", self.said())
            if int(found[1] if found else 0) != self.resumes_from:
                self.trouble.append(f"resumed from step {found[1] if found else 0}, not {self.resumes_from}")
        self.resumes_from = None

    def check_names(self, directory):
        names = [name for name in os.listdir(directory) if not re.fullmatch(r"step-\d+", name)] if os.path.exists(directory) else [".writer"]
        if names != [".writer"]:  # the lock
            self.trouble.append(f"unfinished files are left in {directory}: {names[:4]}")

    def check_lines(self, path):
        """The events in a file, an object a line."""
        events = []
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    try:
                        events.append(json.loads(line))
                    except ValueError:
                        self.trouble.append(f"a line of {path} is damaged: {line[:80]}")
        return events

    def check(self, expected, seconds):
        self.wait_for_end()
        for directory in [self.where] + [self.copy] * ("copy" in self.failures):
            found = hash_of(directory)
            if not self.trouble and found != expected:
                self.trouble.append(f"the hash of {directory} is {found}, not {expected}")
            self.check_names(directory)
        odd = set(os.listdir("/dev/shm")) - self.memory
        if odd:
            self.trouble.append(f"shared memory is left: {sorted(odd)[:4]}")
        if any(event.get("elapsed", 0) > seconds for event in self.check_lines(os.path.join(self.job, "events.jsonl"))):
            self.trouble.append(f"an event comes after more than the {seconds:.1f} s of the run")
        if os.path.exists(os.path.join(self.job, "job")):
            self.trouble.append("the record for other launchers is left")
        self.events = self.check_lines(self.metrics)
        if "disk" in self.failures:
            subprocess.run(["umount", "--lazy", self.disk], check=True)
        if not self.trouble:
            shutil.rmtree(self.top, ignore_errors=True)
