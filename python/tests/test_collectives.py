# SPDX-License-Identifier: Apache-2.0
"""Every collective on NumPy arrays: types, shapes, in place, as requests; results against NumPy's own."""
import numpy
import pytest

import weft

TYPES = ["f4", "f8", "f2", "i1", "u1", "i4", "u4", "i8", "u8"]


def drawn(rank, shape, kind="f4"):
    """What a rank contributes: small whole numbers, which every type adds exactly."""
    return numpy.random.default_rng(rank + 17).integers(0, 4, shape).astype(kind)


def all_drawn(size, shape, kind="f4"):
    return [drawn(rank, shape, kind) for rank in range(size)]


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and (got == wanted).all(), f"{got} is not {wanted}"


def rank_reductions():
    world = weft.init()
    for kind in TYPES:
        for shape in [(), (1,), (5,), (3, 1000), (0,), (2, 0, 3)]:
            parts = numpy.array(all_drawn(world.size, shape, kind))
            mine = drawn(world.rank, shape, kind)
            same(world.allreduce(mine), parts.sum(0).astype(kind))
            same(world.allreduce(mine, weft.MAX), parts.max(0))
            same(world.allreduce(mine, weft.MIN, out=numpy.empty(shape, kind)), parts.min(0))
            same(world.scan(mine), parts[:world.rank + 1].sum(0).astype(kind))
            if world.rank:
                same(world.exscan(mine), parts[:world.rank].sum(0).astype(kind))
            else:
                same(world.exscan(mine), numpy.zeros(shape, kind))
            last = world.size - 1
            got = world.reduce(mine, root=last)
            assert (got is None) == (world.rank != last)
            if got is not None:
                same(got, parts.sum(0).astype(kind))
            same(mine, drawn(world.rank, shape, kind))
            assert world.allreduce(mine, weft.PRODUCT, out=mine) is mine
            same(mine, parts.prod(0).astype(kind))


def rank_operations():
    world = weft.init()
    numbers = numpy.array([[0, 3, 12, 255], [7, 3, 10, 0], [1, 3, 8, 255], [4, 0, 15, 1]], "i4")[:world.size]
    mine, truth = numbers[world.rank], numbers != 0
    same(world.allreduce(mine, weft.BITWISE_AND), numpy.bitwise_and.reduce(numbers))
    same(world.allreduce(mine, weft.BITWISE_OR), numpy.bitwise_or.reduce(numbers))
    same(world.allreduce(mine, weft.BITWISE_XOR), numpy.bitwise_xor.reduce(numbers))
    same(world.allreduce(mine, weft.LOGICAL_AND), truth.all(0).astype("i4"))
    same(world.allreduce(mine, weft.LOGICAL_OR), truth.any(0).astype("i4"))
    same(world.allreduce(mine, weft.LOGICAL_XOR), (truth.sum(0) % 2).astype("i4"))
    same(world.allreduce(truth[world.rank], weft.LOGICAL_AND), truth.all(0))
    same(world.allreduce(truth[world.rank], weft.MAX), truth.any(0))
    halves = numpy.full(3, world.rank, "f4")
    same(world.allreduce(halves, weft.AVERAGE), numpy.full(3, (world.size - 1) / 2, "f4"))
    same(world.allreduce(halves, weft.scaled_sum(0.5)), numpy.full(3, world.size * (world.size - 1) / 4, "f4"))


def rank_movements():
    world = weft.init()
    size, rank = world.size, world.rank
    for shape in [(1,), (3, 5), (1000, 7)]:
        parts = all_drawn(size, shape)
        same(world.allgather(parts[rank]), numpy.concatenate(parts))
        got = world.gather(parts[rank], root=size - 1)
        assert (got is None) == (rank != size - 1)
        if got is not None:
            same(got, numpy.concatenate(parts))
        wide = all_drawn(size, (size * shape[0], *shape[1:]))
        block = slice(rank * shape[0], (rank + 1) * shape[0])
        same(world.reduce_scatter(wide[rank]), sum(wide)[block])
        same(world.alltoall(wide[rank]), numpy.concatenate([part[block] for part in wide]))
        copied = wide[rank].copy()
        assert world.alltoall(copied, out=copied) is copied
        same(copied, numpy.concatenate([part[block] for part in wide]))
        same(world.scatter(wide[0]) if rank == 0 else world.scatter(out=numpy.empty(shape, "f4")), wide[0][block])
        buffer = parts[rank].copy()
        assert world.broadcast(buffer, root=size - 1) is buffer
        same(buffer, parts[size - 1])
    same(world.allgather(numpy.array(rank, "i4")), numpy.arange(size, dtype="i4"))


def rank_ragged():
    world = weft.init()
    size, rank = world.size, world.rank
    counts = [(3 * r) % 5 for r in range(size)]
    parts = [drawn(r, counts[r]) for r in range(size)]
    joined = numpy.concatenate(parts)
    out = numpy.empty(sum(counts), "f4")
    same(world.allgatherv(parts[rank], counts, out), joined)
    apart = numpy.full(sum(counts) + size, -1, "f4")
    places = [sum(counts[:r]) + r for r in range(size)]
    world.allgatherv(parts[rank], counts, apart, displacements=places)
    for r in range(size):
        same(apart[places[r]:places[r] + counts[r]], parts[r])
        assert apart[places[r] + counts[r]] == -1
    mine_alone = [counts[r] if r == rank else 0 for r in range(size)]
    got = world.gatherv(parts[rank], counts, numpy.empty(sum(counts), "f4")) if rank == 0 else world.gatherv(parts[rank], mine_alone)
    assert (got is None) == (rank != 0)
    if got is not None:
        same(got, joined)
    same(world.scatterv(joined if rank == 0 else None, counts if rank == 0 else mine_alone, numpy.empty(counts[rank], "f4")), parts[rank])
    sent = [rank + r for r in range(size)]
    mine = numpy.concatenate([drawn(rank * size + r, sent[r]) for r in range(size)])
    wanted = numpy.concatenate([drawn(r * size + rank, sent[r]) for r in range(size)])
    same(world.alltoallv(mine, sent, numpy.empty(sum(sent), "f4"), sent), wanted)
    same(world.alltoallv(mine, sent, mine, sent), wanted)


def rank_requests_and_messages():
    world = weft.init()
    size, rank = world.size, world.rank
    arrays = [drawn(rank + 10 * i, 1000) for i in range(8)]
    requests = [world.start.allreduce(array) for array in arrays]
    for i, total in enumerate(weft.wait_all(requests)):
        same(total, sum(drawn(r + 10 * i, 1000) for r in range(size)))
    assert all(request.done for request in requests)
    same(requests[0].wait(), sum(drawn(r, 1000) for r in range(size)))
    mine, received = numpy.full(5, rank, "i8"), numpy.empty(5, "i8")
    with weft.group():
        world.send(mine, (rank + 1) % size)
        world.receive(received, (rank + size - 1) % size)
    same(received, numpy.full(5, (rank + size - 1) % size, "i8"))
    with weft.group():  # what is passed may be temporary
        world.send(numpy.arange(20, dtype="i8")[::2], (rank + 1) % size)
        request = world.start.receive(numpy.empty(10, "i8"), (rank + size - 1) % size)
        total = world.allreduce(numpy.float64(rank) * 2)
        filler = [numpy.full(20, -7, "i8") for _ in range(50)]
        with pytest.raises(weft.StateError, match="end of its group"):
            request.wait()
    same(request.wait(), numpy.arange(20, dtype="i8")[::2])
    assert total == size * (size - 1) and filler
    with pytest.raises(KeyError):
        with weft.group():
            world.receive(received, (rank + 1) % size)  # never begins
            raise KeyError("within the group")
    world.start.barrier().wait()
    forgotten = world.start.allreduce(numpy.ones(3, "f4"))  # finalize() waits for it
    assert forgotten is not None


def rank_views():
    """Inputs that are not contiguous are copied; others are used where they lie."""
    world = weft.init()
    grid = drawn(world.rank, (6, 8))
    grids = all_drawn(world.size, (6, 8))
    same(world.allreduce(grid[:, ::2]), sum(grids)[:, ::2])
    same(world.allreduce(grid.T), sum(grids).T)
    with pytest.raises(weft.ArgumentError, match="not contiguous"):
        world.allreduce(grid[:, ::2].copy(), out=grid[:, ::2])
    rows = grid[2:4]
    world.allreduce(rows, out=rows)
    same(grid, numpy.concatenate([grids[world.rank][:2], sum(grids)[2:4], grids[world.rank][4:]]))
    registered = weft.empty((100, 3), "f8")
    assert (registered == 0).all()
    registered += world.rank
    view = registered[10:20]
    del registered
    same(world.allreduce(view), numpy.full((10, 3), world.size * (world.size - 1) / 2))
    kept = weft.empty(numpy.int64(10))
    weft.finalize()
    kept += 1  # still there, though no rank reads it any more
    assert weft.init().size == world.size
    other = weft.empty(10)
    same(other, numpy.zeros(10, "f4"))
    same(weft.world().allreduce(kept), numpy.full(10, world.size, "f4"))
    with pytest.raises(weft.StateError, match="weft.finalize"):
        world.host(0)


def rank_communicators():
    world = weft.init()
    half = world.split(world.rank % 2, key=-world.rank)
    members = [rank for rank in reversed(range(world.size)) if rank % 2 == world.rank % 2]
    assert (half.size, half.rank) == (len(members), members.index(world.rank))
    same(half.allgather(numpy.array([world.rank])), numpy.array(members))
    assert world.split(-1 if world.rank else 0) is None or world.rank == 0
    if world.rank < 2:
        pair = world.subset([1, 0])
        assert pair.rank == 1 - world.rank
        same(pair.allreduce(numpy.ones(2)), numpy.full(2, 2.0))
        pair.free()
        with pytest.raises(weft.ArgumentError, match="was freed"):
            pair.barrier()
    half.set_algorithm("allreduce", "recursive-doubling")
    half.set_reproducible()
    half.set_time_limit(30)
    half.allreduce(numpy.ones(3))
    with pytest.raises(weft.ArgumentError, match="did you mean 'ring'"):
        half.set_algorithm("allreduce", "rnig")
    assert world.host(0) and world.nodes == 1 and world.local_size == world.size


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_reductions(job, ranks):
    job(rank_reductions, ranks)


@pytest.mark.parametrize("ranks", [1, 4])
def test_operations(job, ranks):
    job(rank_operations, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_movements(job, ranks):
    job(rank_movements, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_blocks_of_different_sizes(job, ranks):
    job(rank_ragged, ranks)


def test_requests_and_messages(job):
    job(rank_requests_and_messages, 3)


def test_views_and_registered_memory(job):
    job(rank_views, 2)


def test_communicators(job):
    job(rank_communicators, 4)
