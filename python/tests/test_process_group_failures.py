# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a process group of the backend weft is an exception that names ranks; no rank waits for ever."""
import os
import signal
import sys
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed


def start(**options):
    import weft.torch
    assert weft.torch
    dist.init_process_group("weft", **options)
    return dist.get_rank(), dist.get_world_size()


def check_both_named(failure, *calls):
    for word in ("rank 0", "rank 1", *calls):
        assert word in str(failure.value), failure.value


def rank_mismatch():
    rank, _ = start()
    with pytest.raises(RuntimeError) as failure:
        if rank:
            dist.all_reduce(torch.ones(3))
        else:
            dist.all_gather([torch.ones(3), torch.ones(3)], torch.ones(3))
    check_both_named(failure, "allreduce", "allgather")
    with pytest.raises(RuntimeError) as again:
        dist.barrier()
    assert str(again.value) == str(failure.value)


def rank_mismatch_of_futures():
    rank, _ = start()
    works = [dist.all_reduce(torch.ones(1000 + rank * (i == 2)), async_op=True) for i in range(4)]
    futures = [work.get_future() for work in works]
    for future in futures[:2]:
        future.wait()
    with pytest.raises(RuntimeError) as failure:
        futures[2].wait()
    check_both_named(failure, "count 1000", "count 1001")
    with pytest.raises(RuntimeError):
        works[3].wait()


def rank_late():
    rank, _ = start()
    group = dist.new_group(timeout=timedelta(seconds=0.5))
    begin = time.monotonic()
    if rank:
        time.sleep(5)
    with pytest.raises(RuntimeError, match="rank 1") as failure:
        dist.all_reduce(torch.ones(3), group=group)
    assert rank or time.monotonic() - begin < 4.8, (time.monotonic() - begin, failure.value)


def rank_raises():
    sys.excepthook = lambda *what: (sys.__excepthook__(*what), time.sleep(3))  # lives on, so that rank 0 is not killed at once
    rank, _ = start()
    if rank == 1:
        raise KeyError("the key that is missing")
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as failure:
        works = [dist.all_reduce(torch.ones(5), async_op=True) for _ in range(3)]
        works[0].wait()
    assert time.monotonic() - begin < 30  # not the time limit
    assert "rank 1" in str(failure.value) and "KeyError: 'the key that is missing'" in str(failure.value), failure.value
    print("rank 0 has got the exception of rank 1", flush=True)


def rank_raises_in_backward():
    sys.excepthook = lambda *what: (sys.__excepthook__(*what), time.sleep(3))
    rank, _ = start()
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
        if rank == 1:
            model.module.weight.register_hook(lambda gradient: 1 / 0)
        model(torch.ones(4, 100)).sum().backward()
    except RuntimeError as failure:
        assert rank == 0 and "rank 1" in str(failure) and "ZeroDivisionError" in str(failure), failure
        print("rank 0 has got the exception of rank 1", flush=True)
        raise


def rank_dies():
    rank, _ = start()
    if rank == 1:
        dist.all_reduce(torch.ones(3))  # before that a rank that ends takes the job with it
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 1"):
        while True:
            dist.all_reduce(torch.ones(3))
    print("rank 0 has got the death of rank 1", flush=True)


def rank_recovers():
    import weft
    rank, _ = start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(600, 600))
    if rank == 0:  # which serves the store, too
        model(torch.ones(2, 600)).sum().backward()
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="rank 0"):
        for _ in range(3):
            model(torch.ones(2, 600)).sum().backward()
    weft.shrink()
    dist.destroy_process_group()
    dist.init_process_group("weft")
    assert (dist.get_rank(), dist.get_world_size()) == (rank - 1, 2)
    model = torch.nn.parallel.DistributedDataParallel(model.module)
    model(torch.ones(2, 600)).sum().backward()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == 2
    print("rank goes on", flush=True)


def rank_monitored():
    import weft.torch
    rank, size = start()
    weft.torch.monitored_barrier()
    begin = time.monotonic()
    if rank:
        time.sleep(1)
    with pytest.raises(RuntimeError, match=r"rank 1 on host .*, rank 2 on host .* did not reach barrier 2 of the group within 0.5 s"):
        weft.torch.monitored_barrier(timeout=timedelta(seconds=0.5))
    assert rank or 0.4 < time.monotonic() - begin < 30
    dist.group.WORLD.monitored_barrier(timedelta(seconds=10), True)  # the group is whole
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def rank_ends_after_barrier():
    import weft.torch
    start()
    weft.torch.monitored_barrier()
    dist.destroy_process_group()  # rank 0's store goes with it


def rank_waits_in_callback():
    start()
    first = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    seen = []

    def wait_for_second(future):
        while not seen:  # the second one is queued after this callback
            time.sleep(0.001)
        with pytest.raises(RuntimeError, match="ends after the callback"):
            seen[0].wait()
        return future.value()

    called = first.get_future().then(wait_for_second)
    second = dist.all_reduce(torch.ones(3), async_op=True)
    second.get_future()
    seen.append(second)
    called.wait()
    second.wait()


def rank_leaves():
    import weft
    rank, size = start()
    tensor = torch.full((1000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    weft.finalize()  # waits for both
    assert work.is_completed() and (tensor == size * (size - 1) / 2).all() and (future.wait()[0] == size).all()
    with pytest.raises(RuntimeError, match=r"weft.finalize\(\) left the job"):
        dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("weft")
    dist.all_reduce(tensor)


def rank_ends_badly():
    rank, _ = start()
    dist.all_reduce(torch.ones(3 + rank), async_op=True)  # nobody waits for it


def rank_forks():
    rank, size = start()
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()  # there is a thread that completes futures
    child = os.fork()
    if child == 0:
        with pytest.raises(RuntimeError, match="forked from a rank"):
            dist.barrier()
        sys.exit(0)  # leaves the job alone
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loader = torch.utils.data.DataLoader(range(8), batch_size=2, num_workers=1)
    tensor = torch.tensor([sum(int(batch.sum()) for batch in loader)])
    dist.all_reduce(tensor)
    assert tensor.item() == 28 * size


def test_ranks_that_disagree(job):
    job(rank_mismatch)
    job(rank_mismatch_of_futures)


def test_a_rank_that_is_late(job):
    job(rank_late)


@pytest.mark.parametrize("body", [rank_raises, rank_raises_in_backward], ids=["while others wait", "in a backward pass"])
def test_an_exception_ends_the_job(job, body):
    ended = job(body, expect_failure=True)
    assert "rank 0 has got" in ended.out, (ended.out, ended.said)


def test_a_rank_that_dies_is_named(job):
    ended = job(rank_dies, options=("--min-ranks", "1"))
    assert "rank 0 has got" in ended.out, (ended.out, ended.said)


def test_going_on_without_a_rank(job):
    ended = job(rank_recovers, 3, options=("--min-ranks", "2"))
    assert ended.out.count("rank goes on") == 2, (ended.out, ended.said)


def test_monitored_barrier(job):
    job(rank_monitored, 3)


def test_end_after_monitored_barrier(job):
    for _ in range(3):
        job(rank_ends_after_barrier, ranks=3)


def test_a_callback_must_not_wait(job):
    job(rank_waits_in_callback)


def test_leaving_the_job(job):
    job(rank_leaves, 3)


def test_a_failure_that_nobody_waits_for(job):
    ended = job(rank_ends_badly, expect_failure=True)
    assert "weft: ranks disagree" in ended.said, ended.said


def test_forked_processes(job):
    job(rank_forks)
