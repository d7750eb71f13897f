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


def run_words(words, environment=None, timeout=120):
    """Run a command to its end; `environment` is added to that of the tests."""
    return Ended(subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                                check=False, env={**os.environ, **(environment or {})}))


@pytest.fixture
def job():
    """job(body, ranks=2): run `body` on each rank, and require success unless expect_failure; returns how it ended."""

    def run(body, ranks=2, expect_failure=False, options=(), environment=None):
        module = os.path.splitext(os.path.basename(inspect.getsourcefile(body)))[0]
        program = f"import sys; sys.path.insert(0, {HERE!r}); import {module}; {module}.{body.__name__}()"
        ended = run_words([WEFT, "run", "-n", str(ranks), "--no-record", *options, "--", sys.executable, "-c", program], environment)
        assert expect_failure == (ended.code != 0), f"exit code {ended.code}\n{ended.out}\n{ended.said}"
        return ended

    return run


@pytest.fixture
def horovodrun():
    """horovodrun(*words): run the command with these words; returns how it ended."""

    def run(*words, environment=None, timeout=120):
        return run_words([sys.executable, "-m", "horovod.runner", *words], environment, timeout)

    return run
