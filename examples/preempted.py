#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long computation that can be preempted: it keeps the contract of docs/tutorials/preemption.md, as weft train does.

    WEFT_CHECKPOINT_DIR=runs/count weft run -n 2 -- python3 examples/preempted.py

Run it again whenever it ends with exit code 75: it goes on where it was."""
import json
import os
import signal
import sys
import time

DIRECTORY = os.environ.get("WEFT_CHECKPOINT_DIR", ".")
RANK = os.environ.get("WEFT_RANK", "0")
STATE = os.path.join(DIRECTORY, f"rank-{RANK}.json")
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
asked = False


def ask(number, frame):
    global asked
    asked = True  # nothing more here: the step under way is finished first


def save(step, total):
    """Whole or not at all: under another name, synced, renamed."""
    with open(STATE + ".partial", "w") as file:
        json.dump({"step": step, "total": total}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(STATE + ".partial", STATE)


signal.signal(signal.SIGTERM, ask)
signal.signal(signal.SIGUSR1, ask)
os.makedirs(DIRECTORY, exist_ok=True)
step, total = 0, 0
if os.path.exists(STATE):
    with open(STATE) as file:
        state = json.load(file)
    step, total = state["step"], state["total"]
print(f"begins after step {step}", flush=True)
while step < STEPS:
    step += 1
    total += step * step
    time.sleep(0.01)
    if asked:
        save(step, total)
        print(f"stopped after step {step}", flush=True)
        sys.exit(75)  # EX_TEMPFAIL: run me again
save(step, total)
print(f"the sum of {STEPS} squares is {total}", flush=True)
