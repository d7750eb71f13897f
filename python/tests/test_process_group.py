# SPDX-License-Identifier: Apache-2.0
"""The backend weft of torch.distributed: every operation against expected values, groups, asynchronous operations, refusals."""
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
MOVED = (*NUMBERS, torch.bool, torch.int16, torch.complex64)
SHAPES = ((), (1,), (5,), (3, 7), (0,), (1001,))


def start():
    import weft.torch
    assert weft.torch
    if not dist.is_initialized():
        dist.init_process_group("weft")
    return dist.get_rank(), dist.get_world_size()


def drawn(rank, shape, kind=torch.float32):
    """What a rank contributes: small whole numbers, which every type adds exactly."""
    generator = torch.Generator().manual_seed(rank + 17)
    return torch.randint(0, 4, shape, generator=generator).to(kind)


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape and torch.equal(got, wanted), f"{got} is not {wanted}"


def total(parts):
    return torch.stack(parts).to(torch.float64 if parts[0].is_floating_point() else torch.int64).sum(0).to(parts[0].dtype)


# ---- one tensor on each rank ----


def rank_reductions():
    rank, size = start()
    for kind in NUMBERS:
        for shape in SHAPES:
            parts = [drawn(r, shape, kind) for r in range(size)]
            mine = parts[rank].clone()
            dist.all_reduce(mine)
            same(mine, total(parts))
            mine = parts[rank].clone()
            dist.reduce(mine, size - 1)
            same(mine, total(parts) if rank == size - 1 else parts[rank])
            mine = parts[rank].clone()
            dist.all_reduce(mine, dist.ReduceOp.MAX)
            same(mine, torch.stack(parts).amax(0) if shape != (0,) else mine)
        wide = [drawn(r, (size * 3, 5), kind) for r in range(size)]
        block = slice(3 * rank, 3 * rank + 3)
        out = torch.empty(3, 5, dtype=kind)
        dist.reduce_scatter_tensor(out, wide[rank])
        same(out, total(wide)[block])
        dist.reduce_scatter(out, [part.clone() for part in wide[rank].chunk(size)])  # apart from one another
        same(out, total(wide)[block])
        tensors = [drawn(rank, (4,), kind), drawn(rank, (2, 3), kind), drawn(rank, (6, 6), kind).t()]
        dist.all_reduce_coalesced(tensors)
        for tensor, shape in zip(tensors, ((4,), (2, 3), (6, 6))):
            same(tensor.t() if shape == (6, 6) else tensor, total([drawn(r, shape, kind) for r in range(size)]))


def rank_operations():
    rank, size = start()
    numbers = torch.tensor([[0, 3, 12, 255], [7, 3, 10, 0], [1, 3, 8, 255]], dtype=torch.int32)[:size]
    op = dist.ReduceOp
    for chosen, wanted in ((op.BAND, lambda a, b: a & b), (op.BOR, lambda a, b: a | b), (op.BXOR, lambda a, b: a ^ b),
                           (op.PRODUCT, lambda a, b: a * b), (op.MIN, torch.minimum), (op.MAX, torch.maximum)):
        mine, result = numbers[rank].clone(), numbers[0]
        for other in numbers[1:]:
            result = wanted(result, other)
        dist.all_reduce(mine, chosen)
        same(mine, result)
    halves = torch.full((3,), float(rank))
    dist.all_reduce(halves, op.AVG)
    same(halves, torch.full((3,), (size - 1) / 2))
    for factor in (0.5, [torch.tensor(0.5)]):
        scaled = torch.full((3,), float(rank + 1))
        dist.all_reduce(scaled, dist._make_nccl_premul_sum(factor))
        same(scaled, torch.full((3,), size * (size + 1) / 4))
    truth = numbers != 0
    for chosen, wanted in ((op.SUM, truth.any(0)), (op.MAX, truth.any(0)), (op.PRODUCT, truth.all(0)), (op.MIN, truth.all(0))):
        mine = truth[rank].clone()
        dist.all_reduce(mine, chosen)
        same(mine, wanted)


# ---- a tensor for each rank ----


def rank_movements():
    rank, size = start()
    last = size - 1
    for kind in MOVED:
        for shape in SHAPES:
            parts = [drawn(r, shape, kind) for r in range(size)]
            mine = parts[rank].clone()
            dist.broadcast(mine, last)
            same(mine, parts[last])
            outputs = [torch.empty(shape, dtype=kind) for _ in range(size)]
            dist.all_gather(outputs, parts[rank])
            for got, wanted in zip(outputs, parts):
                same(got, wanted)
            whole = torch.empty((size, *shape), dtype=kind)
            dist.all_gather_into_tensor(whole, parts[rank])
            same(whole, torch.stack(parts))
            whole.zero_()
            dist.all_gather(list(whole.unbind()), parts[rank])  # one after the other
            same(whole, torch.stack(parts))
            got = [torch.empty(shape, dtype=kind) for _ in range(size)] if rank == last else None
            dist.gather(parts[rank], got, last)
            for output, wanted in zip(got or (), parts):
                same(output, wanted)
            mine = torch.empty(shape, dtype=kind)
            dist.scatter(mine, [part + part for part in parts] if rank == 0 and kind is not torch.bool else parts if rank == 0 else None)
            same(mine, parts[rank] if kind is torch.bool else parts[rank] + parts[rank])
    coalesced = [[torch.empty(3), torch.empty(2, 2)] for _ in range(size)]
    dist.all_gather_coalesced(coalesced, [torch.full((3,), float(rank)), torch.full((2, 2), 10.0 * rank)])
    for r in range(size):
        same(coalesced[r][0], torch.full((3,), float(r)))
        same(coalesced[r][1], torch.full((2, 2), 10.0 * r))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    objects = [f"from {rank}"]
    dist.broadcast_object_list(objects, last)
    assert objects == [f"from {last}"]


def rank_alltoall():
    rank, size = start()
    for kind in MOVED:
        wide = [drawn(r, (2 * size, 3), kind) for r in range(size)]
        out = torch.empty(2 * size, 3, dtype=kind)
        dist.all_to_all_single(out, wide[rank])
        same(out, torch.cat([part[2 * rank:2 * rank + 2] for part in wide]))
        sent = [[(r + 2 * to) % 4 for to in range(size)] for r in range(size)]  # rows that r sends
        parts = [drawn(r, (sum(sent[r]), 3), kind) for r in range(size)]
        received = [sent[r][rank] for r in range(size)]
        out = torch.empty(sum(received), 3, dtype=kind)
        dist.all_to_all_single(out, parts[rank], received, sent[rank])
        wanted = [parts[r].split(sent[r])[rank] for r in range(size)]
        same(out, torch.cat(wanted))
        lists = [torch.empty(rows, 3, dtype=kind) for rows in received]
        dist.all_to_all(lists, [part.clone() for part in parts[rank].split(sent[rank])])
        for got, expected in zip(lists, wanted):
            same(got, expected)


def rank_messages():
    rank, size = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    mine, got = torch.full((5,), rank), torch.empty(5, dtype=torch.int64)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got, left)])
    for work in works:
        work.wait()
    same(got, torch.full((5,), left))
    if rank == 0:
        for number in range(3):  # in order
            dist.send(torch.full((4,), number, dtype=torch.int16), 1)
    elif rank == 1:
        small = torch.empty(4, dtype=torch.int16)
        for number in range(3):
            assert dist.recv(small, 0) == 0
            same(small, torch.full((4,), number, dtype=torch.int16))
    grid = torch.zeros(3, 4)
    if rank == 0:
        dist.send(torch.arange(6.0).reshape(3, 2), size - 1)
    elif rank == size - 1:
        dist.recv(grid[:, ::2], 0)
        same(grid[:, ::2], torch.arange(6.0).reshape(3, 2))
        assert not grid[:, 1::2].any()


def rank_layouts():
    """Tensors that are not contiguous are copied, the rest of their memory stays as it is."""
    rank, size = start()
    parts = [drawn(r, (6, 8)) for r in range(size)]
    for view in (lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:3, 2:5], lambda t: t[:, :1]):
        mine = parts[rank].clone()
        dist.all_reduce(view(mine))
        same(view(mine), view(total(parts)))
        view(mine).copy_(view(parts[rank]))
        same(mine, parts[rank])
        dist.broadcast(view(mine), 1)
        same(view(mine), view(parts[1]))
        outputs = [view(torch.full((6, 8), -1.0)) for _ in range(size)]
        dist.all_gather(outputs, view(parts[rank]))
        for got, wanted in zip(outputs, parts):
            same(got, view(wanted))
    image = drawn(rank, (2, 3, 4, 5)).to(memory_format=torch.channels_last if rank else torch.contiguous_format)
    dist.all_reduce(image)
    same(image, total([drawn(r, (2, 3, 4, 5)) for r in range(size)]))
    parameter = torch.nn.Parameter(torch.full((5,), float(rank)))
    dist.all_reduce(parameter)
    assert parameter.requires_grad and parameter.is_leaf
    same(parameter.detach(), torch.full((5,), size * (size - 1) / 2))


# ---- groups ----


def rank_groups():
    rank, size = start()
    pair = dist.new_group([0, size - 1])
    others = dist.new_group([1])
    everyone = dist.new_group(backend="weft", timeout=timedelta(seconds=20))
    if rank in (0, size - 1):
        tensor = torch.full((3,), float(rank + 1))
        dist.all_reduce(tensor, group=pair)
        same(tensor, torch.full((3,), float(size + 1)))
        tensor = torch.full((3,), float(rank))
        dist.broadcast(tensor, size - 1, group=pair)
        same(tensor, torch.full((3,), float(size - 1)))
        assert dist.get_rank(pair) == (0 if rank == 0 else 1)
    elif rank == 1:
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=others)
        same(tensor, torch.ones(2))
    # Operations of different groups may be under way together.
    first, second = torch.ones(1000), torch.ones(1000)
    works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, group=everyone, async_op=True)]
    for work in works if rank % 2 else reversed(works):
        work.wait()
    same(first + second, torch.full((1000,), 2.0 * size))
    assert dist.get_backend(everyone) == "weft"
    dist.destroy_process_group(everyone)
    gloo = dist.new_group(backend="gloo")  # its ranks meet by the same store
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=gloo)
    assert tensor.item() == size
    import weft
    assert weft.world().rank == rank and (weft.world().allreduce(torch.ones(2)) == size).all()
    dist.destroy_process_group()
    dist.init_process_group("weft")  # again, in the same job
    dist.all_reduce(tensor)
    assert tensor.item() == size * size


# ---- asynchronous operations ----


def rank_async():
    rank, size = start()
    tensors = [torch.full((1 + 1000 * i,), float(i + rank)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i in reversed(range(20)):
        assert works[i].wait() is True and works[i].is_completed() and works[i].is_success()
        assert works[i].result()[0] is tensors[i] and (tensors[i] == size * i + size * (size - 1) / 2).all()
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        pass
    futures = [dist.all_reduce(torch.full((3,), float(rank + i)), async_op=True).get_future() for i in range(10)]
    chained = [future.then(lambda done: done.value()[0] * 2) for future in futures]
    for i, future in enumerate(chained):
        same(future.wait(), torch.full((3,), size * (size - 1.0) + 2 * size * i))
    # A callback may begin an operation and wait for its future.
    again = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0] + 1, async_op=True).get_future().wait()[0])
    same(again.wait(), torch.full((3,), size * (size + 1.0)))
    work = dist.all_reduce(torch.ones(5), async_op=True)
    work.wait()
    same(work.get_future().wait()[0], torch.full((5,), float(size)))  # asked for after the end
    work = dist.all_reduce(torch.ones(5), async_op=True)
    future = work.get_future()
    work.wait()
    assert work.get_future().wait()[0] is future.wait()[0]
    for _ in range(50):
        dist.all_reduce(torch.ones(1000), async_op=True)  # dropped: it goes on all the same
    outputs = [torch.empty(3) for _ in range(size)]
    future = dist.all_gather(outputs, torch.full((3,), float(rank)), async_op=True).get_future()
    assert [tensor[0].item() for tensor in future.wait()] == list(range(size)) and future.wait()[0] is outputs[0]
    late = torch.zeros(1)
    if rank == 0:
        work = dist.irecv(late, 1)
        with pytest.raises(RuntimeError, match="has not ended within 50 ms"):
            work.wait(timedelta(milliseconds=50))
        assert not work.is_completed()
        dist.barrier()
        work.wait(timedelta(seconds=20))
        assert late.item() == 7
        with pytest.raises(RuntimeError, match="have no future"):
            work.get_future()
    else:
        dist.barrier()
        if rank == 1:
            dist.send(torch.full((1,), 7.0), 0)


# ---- refusals ----


def rank_refusals():
    rank, size = start()
    good, group = torch.ones(4), dist.group.WORLD
    index = torch.tensor([[0, 1]])
    for call, words in (
            (lambda: dist.all_reduce(torch.sparse_coo_tensor(index, torch.ones(2), (3,))), "sparse"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int16)), "type Short cannot be combined"),
            (lambda: group._allgather_base(torch.empty(4 * size, device="meta"), good), "on the device 'meta'.*host's memory"),
            (lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG), "numbers only"),
            (lambda: dist.all_reduce(good.clone(), dist.ReduceOp.BOR), "integers and bool only"),
            (lambda: group.allreduce([good, good], dist.AllreduceOptions()), "passes one tensor.*2 were given"),
            (lambda: group.broadcast([good], _root(9)), "there is no rank 9"),
            (lambda: group.allgather([[good, torch.ones(3)][:size] + [good] * (size - 2)], [good]), "tensor 1 of the list has 3 elements"),
            (lambda: group.allgather([[good]], [good]), f"each of the {size} ranks; it has 1"),
            (lambda: group._allgather_base(torch.ones(5), good), f"must have {4 * size}; it has 5"),
            (lambda: dist.all_to_all_single(torch.ones(size + 1), torch.ones(size + 1)), "pass split sizes"),
            (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1] * size, [4] * size), "add up to"),
            (lambda: dist.send(good, (rank + 1) % size, tag=3), "tag 3"),
            (lambda: dist.recv(good), "pass src="),
            (lambda: group._allgather_base(torch.ones(2 * size, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64).conj()), "resolve_conj"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(RuntimeError, match="twice"):
        dist.init_process_group("weft")
    dist.barrier()  # the group is whole


def _root(rank):
    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = rank, 0
    return options


def rank_alone():
    rank_reductions()
    rank_operations()
    rank_movements()
    rank_alltoall()


def rank_collectives():
    rank_alone()
    rank_messages()
    rank_layouts()


def test_collectives_of_one_rank(job):
    job(rank_alone, 1)


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives(job, ranks):
    job(rank_collectives, ranks)


def test_groups(job):
    job(rank_groups, 3)


def test_asynchronous_operations(job):
    job(rank_async, 2)


def test_refusals(job):
    job(rank_refusals, 3)
