# SPDX-License-Identifier: Apache-2.0
"""Tests of the package. Functions named rank_* run on ranks, started by `weft run` with the interpreter of the tests."""
import inspect
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
WEFT = os.environ.get("WEFT", "weft")


class Ended:
    """How a job ended."""

    def __init__(self, done):
        self.code, self.out, self.said = done.returncode, done.stdout, done.stderr


@pytest.fixture
def job():
    """job(body, ranks=2): run `body` on each rank, and require success unless expect_failure; returns how it ended."""

    def run(body, ranks=2, expect_failure=False, options=()):
        module = os.path.splitext(os.path.basename(inspect.getsourcefile(body)))[0]
        program = f"import sys; sys.path.insert(0, {HERE!r}); import {module}; {module}.{body.__name__}()"
        done = subprocess.run([WEFT, "run", "-n", str(ranks), "--no-record", *options, "--", sys.executable, "-c", program], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        assert expect_failure == (done.returncode != 0), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Ended(done)

    return run
