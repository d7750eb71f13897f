# SPDX-License-Identifier: Apache-2.0
"""Training runs whose ranks are killed under weft run --min-ranks, compared with runs that lose none. The first argument of a test
is the seed of the times (1)."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

WEFT = os.environ["WEFT"]
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
HERE = os.path.dirname(os.path.abspath(__file__))
DIRECTORY = tempfile.TemporaryDirectory()
STEPS = 160
TRAIN = ["train", "--data", os.path.join(HERE, "../../LICENSE"), "--sequence", "16", "--batch", "8", "--micro-batch", "1", "--steps",
         str(STEPS), "--sample", "0", "--evaluate-sequences", "4", "--evaluate-every", "25", "--log-every", "1"]
APART = ["--hosts", "node1:2,node2:2", "--agent", os.path.join(HERE, "apart")]
draw = random.Random(SEED)
failures = 0


def expect(what, condition, seen=""):
    global failures
    if not condition:
        failures += 1
        print(f"not so: {what}\n    {str(seen)[:2500]} ... {str(seen)[-500:]}", flush=True)


def processes_of(mark, program=WEFT):
    """(process, variables, words) of each process that runs the program and has the mark in its environment."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if variables.get(b"WEFT_TEST_MARK") == mark.encode() and words[0] == program.encode():
            yield int(entry), variables, words


def ranks_of(mark, program=WEFT):
    return {int(variables[b"WEFT_RANK"]): process for process, variables, _ in processes_of(mark, program) if b"WEFT_RANK" in variables}


def helpers_of(mark, host):
    """What weft run started on a host of tests/integration/apart."""
    return [process for process, variables, words in processes_of(mark)
            if words[2] == b"--node" and variables.get(b"WEFT_NODE") == host.encode()]


def run(name, launch, words, kills=(), stop=0, program=WEFT, blow=signal.SIGKILL):
    """Train, kill the ranks of each (step, ranks) shortly after that step, and then send weft run the signal `stop`. A name in place
    of ranks is a host, whose helper is killed; a function is called. `blow`: the signal that ranks get in place of SIGKILL. Returns exit code, output, metrics, hash."""
    where = os.path.join(DIRECTORY.name, name)
    mark = f"{os.getpid()}-{name}"
    train = [*TRAIN[:7], *TRAIN[9:]] if "auto" in words else TRAIN  # which chooses the micro-batch
    job = subprocess.Popen([WEFT, "run", "--no-record", "--env", "WEFT_TEST_MARK", *launch, "--", program, *train,
                            "--checkpoint-dir", where, "--metrics", where + ".jsonl", *words],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env={**os.environ, "WEFT_TEST_MARK": mark})
    timer = threading.Timer(120, job.kill)
    timer.start()
    lines, left = [], list(kills)
    for line in job.stdout:
        lines.append(line)
        found = re.search(r"step +(\d+)/", line)
        if left and found and int(found[1]) >= left[0][0]:
            time.sleep(draw.uniform(0, 0.03))
            ranks, lost = ranks_of(mark), left.pop(0)[1]
            if callable(lost):
                lost()
                continue
            victims = helpers_of(mark, lost) if isinstance(lost, str) else [ranks[rank] for rank in lost if rank in ranks]
            expect(f"{name}: {lost} runs", len(victims) == (1 if isinstance(lost, str) else len(lost)), "".join(lines))
            for victim in victims:
                os.kill(victim, blow)
            if stop and not left:
                time.sleep(0.5)
                job.send_signal(stop)
    code = job.wait()
    timer.cancel()
    crashed = re.search(r"signal (4|7|8|11) \(.*", "".join(lines))
    expect(f"{name}: no rank crashes", not crashed, "".join(lines))
    expect(f"{name}: no process is left", not list(processes_of(mark)), list(processes_of(mark)))
    events = []
    if os.path.exists(where + ".jsonl"):
        with open(where + ".jsonl") as file:
            events = [json.loads(line) for line in file]
    hashed = subprocess.run([WEFT, "checkpoint", "hash", where], capture_output=True, text=True).stdout.strip()
    return code, "".join(lines), events, hashed


hashes = {}
SAME = ["--model", "--optimizer", "--dropout", "--steps", "--tokenizer"]  # options that change the bits


def reference(launch, words):
    """What a run that nobody kills ends with: of the mesh, only the tensor axis changes that."""
    tensor = [found[0] for word in words for found in [re.search(r"tensor=(\d+)", word)] if found]
    chosen = [launch, words] if "auto" in words else [
        ["-n", tensor[0].split("=")[1] if tensor else "1"],
        [word for pair in zip(words[::2], words[1::2]) if pair[0] in SAME for word in pair] + (["--mesh", *tensor] if tensor else [])]
    key = str(chosen)
    if key not in hashes:
        code, output, _, hashes[key] = run(f"whole{len(hashes)}", *chosen)
        expect(f"{key} runs", code == 0 and hashes[key], output)
    return hashes[key]


def survives(name, launch, words, kills, ranks, source, every=1, spares=0, program=WEFT, blow=signal.SIGKILL):
    """The run ends well with so many ranks, so many of them spares; `source`: where the state of its last recovery came from ("kept":
    memory or copies); copies are made every so many steps. Returns the output."""
    steps_of_run = int(words[words.index("--steps") + 1]) if "--steps" in words else STEPS
    expected = reference(launch, words)
    code, output, events, hashed = run(name.replace(" ", "-").replace(",", ""), ["--min-ranks", "1", *launch], words, kills, program=program, blow=blow)
    recoveries = [event for event in events if event["event"] == "recovery"]
    expect(f"{name}: exit code 0", code == 0, output)
    expect(f"{name}: the same bits", hashed == expected, f"{hashed} is not {expected}\n{output}")
    last = recoveries[-1] if recoveries else {"ranks": 0, "source": "nothing", "spares": 0}
    sources = ("memory", "copies") if source == "kept" else (source,)
    expect(f"{name}: recovered, with {ranks} ranks, {spares} of them spares, from {source}",
           (last["ranks"], last["spares"]) == (ranks, spares) and last["source"] in sources, f"{recoveries}\n{output}")
    if source in ("copies", "kept"):
        expect(f"{name}: {every} steps at most are repeated", all(e["step"] + every >= e["step_before"] for e in recoveries), recoveries)
    if source == "memory":
        steps = [event["step"] for event in events if event["event"] == "step"]
        expect(f"{name}: every step is reported", sorted(set(steps)) == list(range(1, steps_of_run + 1)), steps)
        # The others report the last step again, since rank 0 may have died before it did; and it may have been a step ahead of them.
        again = sum(2 if isinstance(lost, list) and 0 in lost else 1 for _, lost in kills)
        expect(f"{name}: none but the last is repeated", len(steps) <= steps_of_run + again, steps)
    for event in recoveries:
        print(f"{name}: after step {event['step']} of {event['step_before']} with {event['ranks']} ranks: agreed in "
              f"{event['agree_seconds']:.3f} s, rebuilt in {event['rebuild_seconds']:.3f}, restored in {event['restore_seconds']:.3f}",
              flush=True)
    return output


def at(low=10, high=100):
    return draw.randint(low, high)


def ends(name, launch, words, kills, code, sentence, stop=0, blow=signal.SIGKILL):
    """The run ends with this exit code, and says so."""
    ended, output, _, _ = run(name.replace(" ", "-"), launch, ["--model", "gpt-nano", *words], kills, stop, blow=blow)
    expect(f"{name}: exit code {code}, not {ended}", ended == code, output)
    expect(f"{name}: says '{sentence}'", sentence in output, output)
    return output


def finish():
    sys.exit(failures != 0)
