# SPDX-License-Identifier: Apache-2.0
"""What happens to a run of tests/chaos/chaos: a function for each kind of failure. It takes the run and its launcher, and returns what was
done, or None if that was not possible."""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build")))
WEFT = os.environ.get("WEFT", os.path.join(BUILD, "weft"))
CLUSTER = os.path.join(HERE, "..", "cluster", "cluster")
TROUBLED = os.path.join(BUILD, "tests", "integration", "libtroubled_process.so")
FLIP = signal.SIGRTMIN + 1  # to troubled_process.c; and how many hosts have a clock of their own there
CLOCKS = 8
LAUNCHER_SILENCE = 4  # seconds without a sign of life after which a launcher counts as lost (src/launch/README.md)
SLOTS = 6  # of all hosts, at least
KINDS = {"node": ("kill", "pair", "again", "stop", "helper", "launcher", "scale", "hang", "copy", "disk", "torn", "takeover",
                  "clock"),
         "cluster": ("kill", "pair", "again", "stop", "host", "launcher", "cut", "slow", "scale", "hang", "copy", "torn", "takeover", "clock",
                     "damage")}
ENDING = ("launcher", "copy", "torn")  # after these the command is run again
REFUSED = ("have not met yet", "the job is ending", "no job runs in", "free slots")  # requests to scale at such times


def processes(mark):
    """(process, variables, words) of all that run with this mark in their environment and are no zombies."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            if variables.get(b"WEFT_CHAOS_MARK") != mark.encode():
                continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{entry}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except (OSError, ValueError):
            continue
        if state != "Z":
            yield int(entry), variables, words


# ---- ranks, hosts and links ----


def ranks_of(run):
    return {int(variables[b"WEFT_RANK"]): (process, variables) for process, variables, words in processes(run.mark)
            if b"WEFT_RANK" in variables and words[:1] == [WEFT.encode()] and b"train" in words}


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def signal_some(run, count, number=signal.SIGKILL):
    ranks = sorted(ranks_of(run).items())
    victims = run.draw.sample(ranks, min(count, max(1, len(ranks) - 1), len(ranks)))
    for _, (process, _) in victims:
        send(process, number)
    return [rank for rank, _ in victims]


def kill_host(run, helper_alone):
    hosts = sorted({variables.get(b"WEFT_NODE") or variables.get(b"WEFT_HOST", b"") for _, variables in ranks_of(run).values()})
    if len(hosts) < 2:
        return None
    host = run.draw.choice(hosts)
    for process, variables, words in processes(run.mark):
        if (variables.get(b"WEFT_NODE") == host and b"--node" in words) or (not helper_alone and variables.get(b"WEFT_HOST") == host):
            send(process, signal.SIGKILL)
    return host.decode()


def change_link(*words):
    subprocess.run([CLUSTER, *words], check=True)


def trouble_link(run, begin, end):
    """For a while: `begin` and `end` are words of tests/cluster/cluster, with None for the host."""
    host, seconds = f"host{run.draw.randrange(3)}", run.draw.uniform(0.3, 3)
    change_link(*[word or host for word in begin])
    timer = threading.Timer(seconds, change_link, [word or host for word in end])
    run.timers.append(timer)
    timer.start()
    return f"{host} for {seconds:.1f} s"


def set_clock(run, job):
    """The clock of the day jumps on one host, the launcher's or another; until the end of the run, or until it jumps again."""
    host = run.draw.choice(("login", "host0", "host1", "host2")) if run.place == "cluster" else socket.gethostname()
    seconds = run.draw.choice((-1, 1)) * run.draw.choice((2, 90, 3600, 10 * 86400))
    with open(run.clock, "r+b") as file:
        file.seek(sum(host.encode()) % CLOCKS * 8)
        file.write(struct.pack("q", seconds))
    return f"{host} is {seconds:+} s off"


def kill_launcher(run, job):
    """And so the job: where its ranks would go on without it, they are killed as well."""
    job.kill()
    if "takeover" in run.failures:
        for process, _, _ in processes(run.mark):
            send(process, signal.SIGKILL)
    return "killed"


def take_over(run, job):
    """The launcher is killed, or stopped for so long that its job counts it as lost; after a while another one takes over."""
    run.launcher_changes.set()
    if run.draw.random() < 0.5:
        job.send_signal(signal.SIGSTOP)
        time.sleep(LAUNCHER_SILENCE + run.draw.uniform(1, 2))
        job.send_signal(signal.SIGCONT)
        how = "stopped"
    else:
        job.kill()
        how = "killed"
    job.wait()
    vacant = run.draw.uniform(0, 2)
    time.sleep(vacant)
    run.start_launcher([WEFT, "run", "--attach", run.job])
    return f"{how}; another one after {vacant:.1f} s"


def scale(run, job):
    lowest = 2 if any("tensor" in word for word in run.mesh) else 1
    ranks = run.draw.randint(lowest, SLOTS)
    done = subprocess.run([WEFT, "scale", run.job, str(ranks)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          check=False)
    if done.returncode == 0:
        return done.stdout.strip()
    if not any(words in done.stdout for words in REFUSED) and job.poll() is None:
        run.trouble.append(f"weft scale {ranks}: {done.stdout.strip()}")
    return None


# ---- storage ----


def steps_in(directory):
    """Of the checkpoints there, rising."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name) and
                  os.path.exists(os.path.join(directory, name, "manifest.json")))


def tear(run, directory, step, how):
    """Leave of a checkpoint what a disk may have when the power fails."""
    where = os.path.join(directory, f"step-{step:08}")
    names = sorted(name for name in os.listdir(where) if name.endswith(".safetensors"))
    victim = os.path.join(where, "manifest.json" if how == "manifest" else run.draw.choice(names))
    with open(victim, "rb") as file:
        data = file.read()
    cut = run.draw.randrange(len(data))
    os.truncate(victim, max(0, len(data[:cut + 1].rstrip(b"\0")) - 1))  # at a byte that is not zero
    if how == "zeros":
        os.truncate(victim, len(data))
    if how == "partial":
        os.remove(os.path.join(where, "manifest.json"))
        os.rename(where, where + ".partial")


def expect_resume(run, lost):
    """From the newest checkpoint that is left: not the one of step `lost` in the first directory."""
    left = [step for step in steps_in(run.where) if step != lost] + steps_in(run.copy)
    run.resumes_from = max(left, default=0)
    return f"resumes from {run.resumes_from}"


def lose_first(run):
    """Of two directories with the same checkpoints, the first one is destroyed or damaged, when nothing runs."""
    steps = steps_in(run.where)
    how = run.draw.choice(("removed", "truncated", "zeros", "manifest", "gone"))
    if how == "removed" or len(steps) + len(steps_in(run.copy)) < 2:
        shutil.rmtree(run.where, ignore_errors=True)
        return f"{run.where} removed; {expect_resume(run, None)}"
    if how == "gone":
        shutil.rmtree(os.path.join(run.where, f"step-{steps[-1]:08}"))
        return f"step {steps[-1]} removed; {expect_resume(run, None)}"
    tear(run, run.where, steps[-1], how)
    return f"step {steps[-1]}: {how}; {expect_resume(run, steps[-1])}"


def lose_newest(run):
    """The power failed while the newest checkpoint was written, or soon after."""
    steps = steps_in(run.where)
    if not steps:
        return f"no checkpoint yet; {expect_resume(run, None)}"
    others = len(steps) > 1 or steps_in(run.copy)
    how = run.draw.choice(("truncated", "zeros", "manifest", "partial")) if others else "partial"
    tear(run, run.where, steps[-1], how)
    return f"step {steps[-1]}: {how}; {expect_resume(run, steps[-1])}"


def end_and(change):
    """Kill the launcher; when nothing is left of the job, `change`."""
    def happen(run, job):
        run.afterwards.append(change)
        return kill_launcher(run, job)
    return happen


def fill_disk(run, job):
    """Until a checkpoint has found it full, and for a while after that."""
    with open(os.path.join(run.disk, "filler"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
        left = run.draw.choice((0, 1 << 12, 1 << 18, 1 << 20))
        file.truncate(max(0, file.tell() - left))
    run.disk_is_full = True
    return f"full, {left} bytes are free"


def empty_disk(run):
    run.disk_is_full = False
    if os.path.exists(os.path.join(run.disk, "filler")):
        os.remove(os.path.join(run.disk, "filler"))


def mount_disk(run):
    """A small one: three checkpoints fit."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "weft-chaos", run.disk], check=True)


HAPPEN = {
    "kill": lambda run, job: signal_some(run, 1),
    "again": lambda run, job: signal_some(run, 1),
    "pair": lambda run, job: signal_some(run, 2),
    "stop": lambda run, job: signal_some(run, 1, signal.SIGSTOP),
    "hang": lambda run, job: signal_some(run, 1, signal.SIGUSR2),
    "helper": lambda run, job: kill_host(run, True),
    "host": lambda run, job: kill_host(run, False),
    "launcher": kill_launcher,
    "takeover": take_over,
    "cut": lambda run, job: trouble_link(run, ("cut", None), ("mend", None)),
    "damage": lambda run, job: signal_some(run, 1, FLIP),
    "clock": set_clock,
    "slow": lambda run, job: trouble_link(run, ("rate", None, "5mbit"), ("rate", None, "1gbit")),
    "scale": scale,
    "copy": end_and(lose_first),
    "torn": end_and(lose_newest),
    "disk": fill_disk,
}
