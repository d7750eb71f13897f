# SPDX-License-Identifier: Apache-2.0
"""Metrics and progress reach the file that WEFT_METRICS names, at the program's end at the latest."""
import json
import subprocess
import sys

PROGRAM = """
import weft
for step in range(3):
    weft.report("train/loss", 1.5 - step, step)
weft.progress(3, 10, 4.5)
"""


def run(environment):
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def test_metrics_are_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    done = run({"WEFT_METRICS": str(path)})
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["train/loss"] for line in lines[:3]] == [1.5, 0.5, -0.5] and [line["step"] for line in lines[:3]] == [0, 1, 2]
    assert (lines[3]["progress"], lines[3]["of"], lines[3]["seconds_left"]) == (3, 10, 4.5)


def test_nothing_happens_without_a_listener():
    done = run({})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_place_that_cannot_be_written_is_a_warning(tmp_path):
    done = run({"WEFT_METRICS": str(tmp_path / "missing" / "file")})
    assert done.returncode == 0 and "RuntimeWarning: no metrics are reported" in done.stderr and "missing" in done.stderr
