#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""program.py STEPS PAUSE: what a rank of a training program looks like from outside: metrics as lines of JSON, words for
people, a warning now and then on the other stream, a checkpoint every hundred steps; then it waits for PAUSE seconds."""
import json
import math
import os
import random
import sys
import time

steps, pause = int(sys.argv[1]), float(sys.argv[2])
rank = int(os.environ.get("WEFT_RANK", "0"))
draw = random.Random(7 + rank)


def metrics(step):
    fallen = math.exp(-step / 160)
    values = {
        "train/loss": 1.38 + 2.3 * fallen + draw.gauss(0, 0.035) + 0.02 * rank,
        "train/accuracy": 0.81 * (1 - fallen) + draw.gauss(0, 0.006),
        "train/learning_rate": 6e-4 * min(1, step / 60) * (0.5 + 0.5 * math.cos(math.pi * step / max(steps, 1))),
        "train/tokens_per_second": 118000 + draw.gauss(0, 900) - (31000 if 220 < step < 250 and rank == 3 else 0),
        "gradient_norm": 0.55 + 2.5 * math.exp(-step / 30) + abs(draw.gauss(0, 0.08)),
    }
    if step % 20 == 0:
        values["validation/loss"] = 1.5 + 2.2 * math.exp(-step / 170) + draw.gauss(0, 0.01)
    return {"step": step, **{name: round(value, 6) for name, value in values.items()}}


for step in range(steps):
    print(json.dumps(metrics(step)))
    if step % 10 == 0:
        print(f"step {step:5d}  loss {1.38 + 2.3 * math.exp(-step / 160):.4f}  {118000 + step} tokens/s")
    if step % 97 == 96:
        print(f"warning: the loss scale went from 65536 to 32768 at step {step}", file=sys.stderr, flush=True)
    if step % 100 == 99 and rank == 0 and "WEFT_CHECKPOINT_DIR" in os.environ:
        directory = os.path.join(os.environ["WEFT_CHECKPOINT_DIR"], f"step-{step + 1:06d}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "weights"), "wb") as file:
            file.write(bytes(1 << 20))
sys.stdout.flush()
time.sleep(pause)
