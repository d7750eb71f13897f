# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is an exception with a message; no other rank waits for ever."""
import os
import signal
import sys
import time

import numpy
import pytest

import weft


class Strided:
    """A DLPack object without __array_interface__: memory of a NumPy array, seen through DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def rank_bad_arguments():
    world = weft.init()
    good = numpy.ones(4, "f4")
    for call, words in [
            (lambda: world.allreduce([1, 2, 3]), "is of type list; pass a NumPy array"),
            (lambda: world.allreduce(numpy.ones(3, "c8")), "'<c8', which libweft lacks"),
            (lambda: world.allreduce(numpy.ones(3, ">f4")), "'>f4', which libweft lacks"),
            (lambda: world.allreduce(good, out=numpy.ones(5, "f4")), "the output has 5 elements of type f32; the operation gives 4"),
            (lambda: world.allreduce(good, out=numpy.ones(4, "f8")), "type f64"),
            (lambda: world.allreduce(good, weft.BITWISE_OR), "integers and bool only"),
            (lambda: world.allreduce(good > 0), "numbers only"),
            (lambda: world.scan(good, weft.AVERAGE), "use sum, and divide"),
            (lambda: world.reduce_scatter(numpy.ones(3, "f4")), "cannot be divided among 2 ranks"),
            (lambda: world.broadcast(good, root=2), "root 2; the communicator has ranks 0 to 1"),
            (lambda: world.send(good, 7), "peer 7"),
            (lambda: world.allgatherv(good, [4], good), "an entry for each of the 2 ranks"),
            (lambda: world.allgatherv(good, [4, 4], good), "the block of rank 1 ends at element 8, but the output has 4"),
            (lambda: world.gatherv(good, [5, 5], good), "must be 4, the number of elements of its input"),
            (lambda: world.allgatherv(good, [3, 4] if world.rank == 0 else [4, 3], numpy.empty(8, "f4")), "must be 4, the number of elements"),
            (lambda: world.allgatherv(good, [4, -1], good), "from 0 on"),
            (lambda: world.allgatherv(good, [4, 0.5], good), "must be whole numbers"),
            (lambda: world.broadcast(numpy.float64(0), root=1 - world.rank), "is read-only"),
            (lambda: world.allreduce(good, good), "the operation is of type ndarray"),
            (lambda: weft.Context(rank=1), "without ranks"),
            (lambda: world.host(2), "there is no rank 2"),
            (lambda: Strided(good).array.setflags(write=False) or world.broadcast(good, root=1 - world.rank), "is read-only"),
    ]:
        with pytest.raises(weft.ArgumentError) as failure:
            call()
        assert words in str(failure.value), failure.value
        assert failure.value.status == "argument" and isinstance(failure.value, ValueError)
    with pytest.raises(weft.StateError, match="called already"):
        weft.init()
    world.barrier()  # the context is whole


def rank_dlpack():
    world = weft.init()
    total = numpy.empty(4, "f4")
    world.allreduce(Strided(numpy.arange(4, dtype="f4")), out=total)
    assert (total == world.size * numpy.arange(4)).all()
    world.allreduce(numpy.ones(4, "f4"), out=Strided(total))
    assert (total == world.size).all()
    grid = numpy.arange(16, dtype="f4").reshape(4, 4)
    assert (world.allreduce(Strided(grid[:, ::2])) == world.size * grid[:, ::2]).all()  # a copy
    with pytest.raises(weft.ArgumentError, match="not contiguous"):
        world.allreduce(numpy.ones((4, 2), "f4"), out=Strided(grid[:, ::2]))


def rank_mismatch():
    world = weft.init()
    with pytest.raises(weft.MismatchError) as failure:
        if world.rank:
            world.allreduce(numpy.ones(3, "f4"))
        else:
            world.allgather(numpy.ones(3, "f4"))
    assert "rank 0" in str(failure.value) and "rank 1" in str(failure.value), failure.value
    assert "allreduce" in str(failure.value) and "allgather" in str(failure.value), failure.value


def rank_raises():
    sys.excepthook = lambda *what: (sys.__excepthook__(*what), time.sleep(5))  # lives on, so that rank 0 is not killed at once
    world = weft.init()
    if world.rank == 1:
        raise KeyError("the key that is missing")
    begin = time.monotonic()
    with pytest.raises(weft.AbortedError) as failure:
        world.barrier()
    assert time.monotonic() - begin < 30
    assert "rank 1" in str(failure.value) and "KeyError: 'the key that is missing'" in str(failure.value), failure.value
    print("rank 0 heard of it", flush=True)


def rank_dies():
    world = weft.init()
    if world.rank == 1:
        world.allreduce(numpy.ones(3))  # before that a rank that ends takes the job with it
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(weft.PeerError, match="rank 1"):
        while True:
            world.allreduce(numpy.ones(3))
    print("rank 0 heard of it", flush=True)


def rank_forks():
    world = weft.init()
    child = os.fork()
    if child == 0:
        try:
            world.barrier()
        except weft.StateError as failure:
            os._exit(0 if "forked" in str(failure) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    world.barrier()
    child = os.fork()
    if child == 0:
        sys.exit(0)  # leaves the job alone
    os.waitpid(child, 0)
    world.barrier()


def rank_forgets():
    world = weft.init()
    request = world.start.allreduce(numpy.ones(3 + world.rank))
    assert request is not None
    with pytest.raises(weft.MismatchError, match="allreduce"):
        weft.finalize()
    weft.finalize()


def rank_ends_badly():
    world = weft.init()
    world.start.allreduce(numpy.ones(3 + world.rank))


def rank_without_job():
    for call in (weft.world, lambda: weft.empty(3), lambda: weft.abort("no")):
        with pytest.raises(weft.StateError, match="call weft.init"):
            call()
    weft.finalize()
    assert not weft.is_initialized()
    world = weft.init()
    weft.finalize()
    with pytest.raises(weft.StateError, match="weft.finalize"):
        world.barrier()


def test_bad_arguments(job):
    job(rank_bad_arguments)


def test_dlpack(job):
    job(rank_dlpack)


def test_ranks_that_disagree(job):
    job(rank_mismatch)


def test_an_exception_ends_the_job(job):
    ended = job(rank_raises, expect_failure=True)
    assert "rank 0 heard of it" in ended.out and "KeyError" in ended.said, (ended.out, ended.said)


def test_a_rank_that_dies_is_named(job):
    ended = job(rank_dies, options=("--min-ranks", "1"))
    assert "rank 0 heard of it" in ended.out, (ended.out, ended.said)


def test_forked_processes_are_refused(job):
    job(rank_forks)


def test_a_failed_request_that_nobody_waits_for(job):
    job(rank_forgets)
    ended = job(rank_ends_badly, expect_failure=True)
    assert "weft: ranks disagree" in ended.said


def test_every_status_has_a_class():
    assert set(weft._native.STATUSES[1:]) == set(weft.errors.CLASSES)


def test_calls_without_a_job(job):
    job(rank_without_job, 1)


def test_alone_without_a_launcher():
    world = weft.init()
    assert (world.allreduce(numpy.arange(3)) == numpy.arange(3)).all() and world.size == 1
    weft.finalize()


def test_a_rendezvous_that_fails():
    with pytest.raises(weft.Error) as failure:
        weft.Context(rank=1, ranks=2, rendezvous="127.0.0.1:1", secret="a", rendezvous_limit=0.2)
    assert "127.0.0.1" in str(failure.value)
