# SPDX-License-Identifier: Apache-2.0
"""Ranks may start operations in different orders; where they disagree about one, it fails on all of them, and others go on."""
import random
import threading

import pytest
import torch

import horovod.torch as hvd


def check_orders(rank, size):
    for turn in range(5):
        names = [f"tensor{i}" for i in range(30)]
        random.Random(rank + 100 * turn).shuffle(names)
        handles = {name: hvd.allreduce_async(torch.full((50,), float(name[6:])), name=name, op=hvd.Sum) for name in names}
        handles["rows"] = hvd.allgather_async(torch.full((rank,), rank), name="rows")
        random.Random(rank).shuffle(names)
        for name in names:
            assert torch.equal(hvd.synchronize(handles[name]), torch.full((50,), size * float(name[6:]))), name
        assert hvd.synchronize(handles["rows"]).tolist() == [1, 2, 2]


def check_same_name(rank, size):
    """The same name for operations of different kinds; and again, with another shape."""
    for extent in (3, 5):
        handle = hvd.allreduce_async(torch.ones(extent), name="same", op=hvd.Sum)
        other = hvd.allgather_async(torch.ones(1, extent), name="same")
        assert hvd.synchronize(other).shape == (3, extent) and hvd.synchronize(handle).tolist() == [3.0] * extent


def check_threads(rank, size):
    failures = []

    def work(number):
        try:
            for turn in range(20):
                assert hvd.allreduce(torch.full((3,), float(number)), name=f"thread{number}", op=hvd.Sum).tolist() == [3.0 * number] * 3, turn
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def check_mismatches(rank, size):
    for call, words in [
            (lambda: hvd.allreduce(torch.ones(3 + rank), name="shape"), ["shape", "3", "4"]),
            (lambda: hvd.allreduce(torch.ones(3, dtype=torch.float64 if rank else torch.int32), name="type"), ["type", "i32", "f64"]),
            (lambda: hvd.allreduce(torch.ones(3), op=hvd.Max if rank else hvd.Sum, name="op"), ["op", "max", "sum"]),
            (lambda: hvd.allgather(torch.ones(2, 2 + rank), name="width"), ["width", "[*, 2]", "[*, 3]"]),
            (lambda: hvd.broadcast(torch.ones(2), min(rank, 1), name="root"), ["root"]),
            (lambda: hvd.broadcast_object({"some": "thing"}, root_rank=min(rank, 1)), ["root"]),
            (lambda: hvd.alltoall(torch.ones(3, 1 + rank), name="columns"), ["columns"]),
            (lambda: hvd.reducescatter(torch.ones(3, 1 + rank), name="parts"), ["parts"]),
            (lambda: hvd.grouped_allreduce([torch.ones(2)] * (1 + rank), name="members"), ["members"]),
            (lambda: hvd.allreduce(torch.ones(2 + rank)), ["noname"]),
    ]:
        before = hvd.allreduce_async(torch.ones(2), name="other", op=hvd.Sum)
        with pytest.raises(hvd.HorovodInternalError) as failure:
            call()
        message = str(failure.value)
        assert all(word in message for word in [*words, "rank 0", "rank 1"]), message
        assert isinstance(failure.value, RuntimeError) and failure.value.__cause__ is not None
        assert hvd.synchronize(before).tolist() == [3, 3]


def check_duplicates(rank, size):
    handle = hvd.allreduce_async(torch.ones(2), name="twice") if rank == 0 else None
    hvd.barrier()
    if rank == 0:
        with pytest.raises(ValueError, match="'allreduce.twice': an operation of this name is in flight on rank 0"):
            hvd.allreduce_async(torch.ones(2), name="twice")
    handle = handle if rank == 0 else hvd.allreduce_async(torch.ones(2), name="twice")
    assert hvd.synchronize(handle).tolist() == [1, 1]
    for turn in range(20):  # also if the first operation is fast
        handle = hvd.allreduce_async(torch.ones(1), name="fast")
        with pytest.raises(ValueError, match="'allreduce.fast': an operation of this name is in flight"):
            hvd.allreduce_async(torch.ones(1), name="fast")
        if turn % 2:
            while not hvd.poll(handle):
                pass
        else:
            hvd.synchronize(handle)


def rank_all():
    hvd.init()
    for check in (check_orders, check_same_name, check_threads, check_mismatches, check_duplicates):
        check(hvd.rank(), hvd.size())


def test_orders_and_disagreements(job):
    job(rank_all, 3)


def rank_stall():
    hvd.init()
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allreduce(torch.ones(2), name="one" if hvd.rank() == 0 else "another")


def test_stall(job):
    """An operation that a rank does not start is reported with the rank's number, and ended."""
    ended = job(rank_stall, environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "0.3", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "1"})
    assert "'allreduce.one' waits for rank 1" in ended.said and "'allreduce.another' waits for rank 0" in ended.said
