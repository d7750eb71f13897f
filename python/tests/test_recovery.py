# SPDX-License-Identifier: Apache-2.0
"""The ranks that are left go on after a failure, and ranks that join or leave change the world."""
import os
import time

import numpy
import pytest

import weft


def rank_death():
    world = weft.init()
    assert weft.epoch() == 0 and weft.waiting() == 0
    dead = [world]
    try:
        dead.append(world.split(world.rank // 2))
    except weft.PeerError:  # rank 1 has made it, and is gone already
        assert world.rank != 1
    kept = weft.empty(4)
    kept[:] = world.rank
    number = world.rank
    if number == 1:
        os._exit(3)
    with pytest.raises(weft.PeerError, match="rank 1 on host"):
        while True:
            world.allreduce(kept)
    with pytest.raises(weft.PeerError):
        weft.grow()
    after = weft.shrink()
    assert after is weft.world() and after is not world and weft.epoch() > 0
    assert (after.rank, after.size) == ({0: 0, 2: 1}[number], 2)
    assert after.allreduce(kept).tolist() == [2.0] * 4 and kept.tolist() == [number] * 4
    for communicator in dead:
        with pytest.raises(weft.StateError):
            communicator.barrier()
    pair = after.split(0)
    assert pair.allgather(numpy.array([number])).tolist() == [0, 2]
    with pytest.raises(weft.StateError):
        weft.shrink()


def test_survivors_go_on(job):
    job(rank_death, 3, options=("--min-ranks", "1"))


def rank_exception():
    """An exception that nobody catches ends the rank; the others may go on without it."""
    world = weft.init()
    if world.rank == 1:
        world.barrier()  # before that an exception ends the whole job
        raise KeyError("lost")
    with pytest.raises(weft.AbortedError, match="KeyError"):
        while True:
            world.barrier()
    assert weft.shrink().size == 2


def test_survivors_of_an_exception_go_on(job):
    assert "KeyError: 'lost'" in job(rank_exception, 3, options=("--min-ranks", "1")).said


def rank_mismatch():
    """After a disagreement nobody is lost, and the same ranks go on."""
    world = weft.init()
    request = world.start.allreduce(numpy.ones(world.rank + 1))
    with pytest.raises(weft.MismatchError):
        request.wait()
    assert weft.shrink().allreduce(numpy.ones(2)).tolist() == [2, 2]
    with pytest.raises(weft.MismatchError):  # the outcome stays
        request.wait()
    with weft.group(), pytest.raises(weft.StateError, match="within a group"):
        weft.grow()


def test_going_on_after_a_mismatch(job):
    job(rank_mismatch, 2, options=("--min-ranks", "1"))


def rank_replaced():
    world = weft.init()
    if weft.epoch() == 0:
        number = world.rank
        try:
            world.barrier()  # before that a rank that ends takes the job with it
        except weft.PeerError:
            world = weft.shrink()
        if number == 1:
            os._exit(3)
    ended = time.monotonic() + 30
    while world.size < 2 or weft.epoch() == 0:
        assert time.monotonic() < ended, "no rank has joined"
        try:
            if world.allreduce(numpy.array([weft.waiting()]), weft.MAX)[0]:
                world = weft.grow()
            time.sleep(0.01)
        except weft.PeerError:
            world = weft.shrink()
    assert world.allreduce(numpy.array([1]))[0] == 2
    print("two ranks again")


def test_newcomer_joins(job):
    ended = job(rank_replaced, 2, options=("--min-ranks", "1", "--restarts", "1"))
    assert ended.out.count("two ranks again") == 2


def test_before_init():
    for call in (weft.shrink, weft.grow, weft.waiting, weft.epoch):
        with pytest.raises(weft.StateError, match="call weft.init"):
            call()
