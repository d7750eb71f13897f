# SPDX-License-Identifier: Apache-2.0
"""What the drivers of side-by-side benchmarks share: contenders, their compilation, and how figures are written."""
import json
import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(HERE)


def size_of(text):
    """4096, 64K, 16M."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1].upper() in units else int(text)


class Contender:
    """A command that prints a line of JSON for each size and place."""

    def __init__(self, name, command, environment=None, limit=600):
        self.name, self.command, self.environment, self.limit = name, command, environment or {}, limit
        self.runs = []

    def run(self):
        done = subprocess.run(self.command, env={**os.environ, **self.environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=self.limit, check=False)
        lines = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if "{" in line]
        if done.returncode != 0 or not lines:
            raise RuntimeError(f"{self.name} failed ({done.returncode}): {done.stderr.strip()[-400:]}")
        wrong = sum(line["errors"] for line in lines)
        if wrong:
            raise RuntimeError(f"{self.name} computed {wrong:.0f} wrong elements")
        self.runs.append({(line["in_place"], line["bytes"]): line for line in lines})

    def times(self, case):
        return [run[case]["time_us"] for run in self.runs if case in run]

    def median(self, case, column="time_us"):
        return statistics.median(run[case][column] for run in self.runs if case in run)


def compile_with(compiler, program, source, *words, libraries=()):
    """Compile a program of bench/peers with the code that times it; returns `program`."""
    os.makedirs(os.path.dirname(program), exist_ok=True)
    subprocess.run([compiler, "-O3", "-D_GNU_SOURCE", "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(HERE, "peers"), *words,
                    "-o", program, os.path.join(HERE, "peers", source), os.path.join(ROOT, "src", "cli", "measure", "bench_timing.c"), *libraries],
                   check=True)
    return program


def as_size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count} {unit}"
        count //= 1024
    return ""


def as_time(microseconds):
    return f"{microseconds:.2f}" if microseconds < 100 else f"{microseconds:.0f}"
