# SPDX-License-Identifier: Apache-2.0
"""init() and shutdown(), repeatedly and by one rank alone; timelines; settings of the environment."""
import json
import os
import sys
import time

import pytest
import torch

import horovod.torch as hvd
from horovod.common.environment import read_settings
from horovod.common.util import env, split_list


def check_again(rank):
    for turn in range(4):
        assert not hvd.is_initialized()
        hvd.init()
        hvd.init()  # does nothing
        assert (hvd.rank(), hvd.size()) == (rank, 2)
        assert os.environ["HOROVOD_RANK"] == str(rank) and os.environ["HOROVOD_SIZE"] == "2"
        assert hvd.allreduce(torch.ones(turn + 1), op=hvd.Sum, name="same").tolist() == [2.0] * (turn + 1)
        late = hvd.allreduce_async(torch.ones(2), name=f"only{rank}")
        hvd.barrier()
        hvd.shutdown()
        hvd.shutdown()
        for call in (hvd.rank, hvd.local_size, lambda: hvd.start_timeline("file")):
            with pytest.raises(ValueError, match="has not been initialized; use hvd.init"):
                call()
        for call in (lambda: hvd.synchronize(late), lambda: hvd.allreduce(torch.ones(1)), hvd.barrier, hvd.join):
            with pytest.raises(hvd.HorovodInternalError):
                call()


def check_shutdown_of_one(rank):
    """Operations of the others fail; they may open the job again."""
    hvd.init()
    if rank == 1:
        hvd.shutdown()
    else:
        with pytest.raises(hvd.HorovodInternalError):
            while True:
                hvd.allreduce(torch.ones(2), name="endless")
        hvd.shutdown()
    hvd.init()
    assert hvd.allgather(torch.tensor([rank])).tolist() == [0, 1]
    hvd.shutdown()


def check_timeline(rank):
    with env(HOROVOD_TIMELINE="first.json", HOROVOD_TIMELINE_MARK_CYCLES="1"):
        hvd.init()
    for path, marks in (("first.json", True), ("second.json", False)):
        if path != "first.json":
            hvd.start_timeline(path, mark_cycles=marks)
        hvd.allreduce(torch.ones(2), name=path)
        hvd.grouped_allgather([torch.ones(2)], name="rows")
        time.sleep(0.02)
        hvd.barrier()
        hvd.stop_timeline()
        if rank == 0:
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
            text = str(events)
            assert isinstance(events, list) and f"allreduce.{path}" in text and "NEGOTIATE_ALLREDUCE" in text and "NEGOTIATE_ALLGATHER" in text
            assert ("CYCLE_START" in text) == marks
    hvd.allreduce(torch.ones(2), name="not there")
    hvd.barrier()
    if rank == 0:
        with open("second.json", encoding="utf-8") as file:
            assert "not there" not in file.read()
    hvd.shutdown()


def check_fork(rank):
    """A process that was forked may exit without harm to its parent."""
    hvd.init()
    child = os.fork()
    if child == 0:
        with pytest.raises(hvd.HorovodInternalError, match="forked"):
            hvd.allreduce(torch.ones(1))
        hvd.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


def rank_all():
    rank = int(os.environ["WEFT_RANK"])
    for check in (check_again, check_shutdown_of_one, check_timeline, check_fork):
        check(rank)


def test_lifetime(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job(rank_all)


def rank_failing():
    hvd.init()
    if hvd.rank() == 1:
        raise KeyError("of rank 1")
    while True:
        hvd.allreduce(torch.ones(1))


def test_failing_rank(job):
    """An exception of one rank ends the operations of the others, with its text."""
    said = job(rank_failing, expect_failure=True).said
    assert "HorovodInternalError" in said and "rank 1" in said and "KeyError: 'of rank 1'" in said


def test_settings():
    default = read_settings({})
    assert default == (128 << 20, 0.001, 1024, 60.0, 0.0, None, False, False, 0.0)
    chosen = read_settings({"HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "7",
                            "HOROVOD_STALL_CHECK_TIME_SECONDS": "5", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9", "HOROVOD_TIMELINE": "file",
                            "HOROVOD_TIMELINE_MARK_CYCLES": "1", "HOROVOD_DYNAMIC_PROCESS_SETS": "true", "HOROVOD_ELASTIC_TIMEOUT": "30",
                            "HOROVOD_AUTOTUNE": "1", "HOROVOD_LOG_LEVEL": "INFO", "HOROVOD_OF_SOMEBODY_ELSE": "x"})
    assert chosen == (0, 0.0025, 7, 5.0, 9.0, "file", True, True, 30.0)
    assert read_settings({"HOROVOD_STALL_CHECK_DISABLE": "1"}).stall_seconds == 0
    assert read_settings({"HOROVOD_TIMELINE": "DYNAMIC"}).timeline is None
    for name, value, words in [("FUSION_THRESHOLD", "64MB", "a whole number that is not negative"), ("CACHE_CAPACITY", "-5", "a whole number"),
                               ("CYCLE_TIME", "-1", "a number that is not negative"), ("STALL_CHECK_DISABLE", "maybe", "0 or 1"),
                               ("NUM_NCCL_STREAMS", "many", "a whole number"), ("LOG_LEVEL", "loud", "trace, debug")]:
        with pytest.raises(ValueError, match=f"HOROVOD_{name} is '{value}', but must be {words}.*correct the variable"):
            read_settings({f"HOROVOD_{name}": value})


def test_other_frameworks():
    for name in ("tensorflow", "keras", "mxnet", "spark"):
        with pytest.raises(ImportError, match=f"horovod.{name} is not available"):
            __import__(f"horovod.{name}")
        sys.modules.pop(f"horovod.{name}", None)


def test_helpers():
    assert split_list(list(range(5)), 2) in ([[0, 1], [2, 3, 4]], [[0, 1, 2], [3, 4]])
    with env(HOROVOD_TEST="1", HOROVOD_OTHER=None):
        assert os.environ["HOROVOD_TEST"] == "1" and "HOROVOD_OTHER" not in os.environ
    assert "HOROVOD_TEST" not in os.environ
