# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of training share: measured machines, and steps of training that are measured."""
import json
import os
import re
import subprocess
import sys

from contenders import ROOT

CLUSTER = os.path.join(ROOT, "tests", "cluster", "cluster")
STOLEN_MOST, TRIES = 0.02, 5


def processor_times():
    """Time that the processors have spent in all, and that a hypervisor has given to other machines meanwhile."""
    with open("/proc/stat") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    return sum(times), times[7]


def undisturbed(run):
    """Call `run` until a hypervisor takes at most 2 % of the processors' time, at most five times; return the result of the least
    disturbed call."""
    results = []
    while len(results) < TRIES and not (results and results[-1][0] <= STOLEN_MOST):
        before = processor_times()
        result = run()
        total, stolen = (after - before for after, before in zip(processor_times(), before))
        results.append((stolen / max(total, 1), result))
    return min(results, key=lambda pair: pair[0])[1]


def output_of(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {done.stderr[-800:]}")
    return done.stdout


def place_of(ranks, hosts):
    """Words of weft run for ranks of this machine, or of the hosts of the test cluster."""
    if not hosts:
        return ["-n", str(ranks)]
    return ["--hosts", ",".join(f"host{h}:{ranks // hosts}" for h in range(hosts)), "--agent", os.environ["WEFT_AGENT"]]


def measure(chosen, ranks, hosts, words):
    """The median step of one run, in milliseconds. Where a hypervisor disturbs it, it is repeated."""
    command = [chosen.weft, "bench", "train", "--warm", "1", "--steps", str(chosen.steps), "--json", *words]
    if ranks > 1:
        command = [chosen.weft, "run", "--no-record", "--no-prefix", *place_of(ranks, hosts), "--", *command]
    output = undisturbed(lambda: output_of(command))
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))["step_ms"]


def describe(chosen, ranks, hosts, path, paced=False):
    """Measure the machine and its links into a cluster file; for paced runs, whose passes sleep, so that no communication slows them."""
    command = [chosen.weft, "profile", "machine", "-o", path]
    if hosts:
        command = [chosen.weft, "run", "--no-record", "--no-prefix", *place_of(ranks, hosts), "--", *command]
    else:
        command += ["-n", str(ranks)]
    undisturbed(lambda: output_of(command))
    if paced:
        with open(path, encoding="utf-8") as file:
            described = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^overlap_slowdown: .*\n", "", described))


def time_layers(chosen, model, sequence, path, most=16, tensor=2, rounds=5, together=1):
    """Measure the layers of a model, for micro-batches up to `most`, into a file of layer times."""
    command = [chosen.weft, "profile", "layers", "--model", model, "--sequence", str(sequence), "--micro-batch", str(most), "--tensor",
               str(tensor), "--rounds", str(rounds), "--together", str(together), "-o", path]
    undisturbed(lambda: output_of(command))


def inside_cluster(script, hosts, rate, out, words):
    """Run a script on hosts of the test cluster; it writes its results to the file `out`."""
    done = subprocess.run([CLUSTER, "--hosts", str(hosts), "--rate", rate, "--", os.path.realpath(script), "--inside", out,
                           "--hosts", str(hosts), "--rate", rate, *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def warn_of_load():
    if os.getloadavg()[0] > 0.5:
        print(f"the machine has a load of {os.getloadavg()[0]:.1f}: figures are of little use", file=sys.stderr)
