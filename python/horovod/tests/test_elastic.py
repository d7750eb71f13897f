# SPDX-License-Identifier: Apache-2.0
"""Elastic training: workers die, disagree and join, and the others go on from the last commit."""
import os
import shutil
import warnings

import pytest
import torch

import horovod.torch as hvd
from horovod.common.exceptions import HostsUpdatedInterrupt

NUMBER = int(os.environ.get("WEFT_RANK", "0"))
STEPS = 30


class Numbers(torch.utils.data.Dataset):
    """The numbers from 0 on."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index


def rank_killed():
    hvd.init()
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, float(hvd.rank()))  # sync() replaces this by rank 0's
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, sizes=[])
    calls = []

    def adapt():
        calls.append(hvd.size())
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * hvd.size()

    state.register_reset_callbacks([adapt])

    @hvd.elastic.run
    def train(state, unit):
        while state.step < STEPS:
            optimizer.zero_grad()
            (model(torch.ones(1, 2)) * unit).sum().backward()
            if NUMBER == 1 and state.step == 5:
                os._exit(9)
            optimizer.step()
            state.step += 1
            state.sizes.append(hvd.size())
            if state.step % 2 == 0:
                state.commit()
        return "complete"

    assert train(state, 1.0) == "complete"
    # The steps that count: with momentum 0.5, and a learning rate that fits the number of ranks at that step.
    weight, speed = 0.0, 0.0
    for size in state.sizes:
        speed = 0.5 * speed + 1.0
        weight -= 0.01 * size * speed
    assert len(state.sizes) == STEPS and state.sizes[:4] == [3] * 4 and 2 in state.sizes, state.sizes
    assert torch.allclose(model.weight, torch.full((1, 2), weight), atol=1e-4), (model.weight, weight)
    assert same(model.weight) and same(torch.tensor(state.sizes))
    assert NUMBER == 3 or calls[0] == 2, calls
    print(f"rank {NUMBER} ends as {hvd.rank()} of {hvd.size()}")


def same(tensor):
    everyone = hvd.allgather(tensor.detach()[None])
    return all(torch.equal(everyone[0], other) for other in everyone)


def test_killed_worker(job):
    ended = job(rank_killed, 3, options=("--min-ranks", "2"))
    assert "rank 0 ends as 0 of 2" in ended.out and "rank 2 ends as 1 of 2" in ended.out and "rank 1 ends" not in ended.out


def rank_replaced():
    hvd.init()
    sampler = hvd.elastic.ElasticSampler(Numbers(400), seed=7)
    layer = torch.nn.Linear(2, 2)
    hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), groups=1)  # without a call of the other ranks
    state = hvd.elastic.TorchState(sampler=sampler, seen=[], step=0)

    @hvd.elastic.run
    def train(state):
        while hvd.size() < 2 or state.step < 20:  # until the replacement is there
            for indices in torch.utils.data.DataLoader(Numbers(400), batch_size=2, sampler=state.sampler):
                if NUMBER == 1 and state.step == 8:
                    raise KeyError("an exception ends this worker")
                state.seen += [int(index) for index in hvd.allgather(indices)]
                state.sampler.record_batch(state.step, 2)
                state.step += 1
                state.commit()
                if state.step >= 20 and hvd.size() == 2:
                    break
            else:
                state.sampler.set_epoch(state.sampler.epoch + 1)
                state.seen = []

    train(state)
    assert hvd.size() == 2 and same(torch.tensor(state.seen))
    assert len(set(state.seen)) == len(state.seen)  # no index twice in an epoch, with one rank and with two
    print(f"rank {NUMBER} ends as {hvd.rank()} of {hvd.size()}")


def test_replacement_joins(job):
    ended = job(rank_replaced, 2, options=("--min-ranks", "1", "--restarts", "1"))
    assert "rank 0 ends as 0 of 2" in ended.out and "rank 2 ends as 1 of 2" in ended.out and "KeyError" in ended.said


def rank_reset():
    """After a loss: process sets with all ranks and with one that is gone, a timeline that cannot be written, handles."""
    pair, gone = hvd.ProcessSet([0, 1]), hvd.ProcessSet([0, 2])
    hvd.init(process_sets=[pair, gone])
    layer = torch.nn.Linear(1, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters(), process_set=gone)
    state = hvd.elastic.TorchState(size=0)
    handles = []

    @hvd.elastic.run
    def train(state):
        if hvd.size() == 3:
            hvd.barrier()
            if NUMBER == 0:
                shutil.rmtree("timelines")
            hvd.barrier()
            if NUMBER == 2:
                os._exit(9)
            handles.append(hvd.allreduce_async(torch.ones(1), name="lost"))
            hvd.synchronize(hvd.allreduce_async(torch.ones(1), name="other"))
        state.size = hvd.size()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(state)
    assert ("no timeline is written from now on" in "".join(str(warning.message) for warning in caught)) == (NUMBER == 0)
    assert state.size == 2 and hvd.synchronize(handles[0]) is None
    with pytest.raises(ValueError, match="no operation with handle"):
        hvd.poll(handles[0])
    assert pair.size() == 2 and hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=pair).item() == 2
    assert gone.size() is None
    if NUMBER == 0:
        with pytest.raises(ValueError, match=r"ranks=\[0, 2\]\) is not initialized.*elastic reset"):
            layer(torch.ones(1)).sum().backward()
    hvd.shutdown()
    if NUMBER == 0:
        with pytest.raises(hvd.HorovodInternalError, match="not been initialized"):
            optimizer.step()
    print(f"rank {NUMBER} ends")


def test_reset(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "timelines").mkdir()
    ended = job(rank_reset, 3, options=("--min-ranks", "2"), environment={"HOROVOD_TIMELINE": "timelines/file"})
    assert "rank 0 ends" in ended.out and "rank 1 ends" in ended.out


def rank_disagreement():
    hvd.init()
    state = hvd.elastic.TorchState(step=0, items=[])
    tries = []

    @hvd.elastic.run
    def train(state):
        tries.append(state.step)
        while state.step < 6:
            state.items.append(state.step)
            if state.step == 3 and len(tries) == 1:
                hvd.allreduce(torch.ones(2 + hvd.rank()), name="odd")
            state.step += 1
            if state.step != 3:
                state.commit()

    train(state)
    assert tries == [0, 2] and state.items == list(range(6)), (tries, state.items)


def rank_raises():
    """A program may raise what the operations raise; also as the only rank."""
    hvd.init()
    state = hvd.elastic.TorchState(step=0)
    calls = []

    @hvd.elastic.run
    def train(state, *, last):
        calls.append(state.step)
        state.step += 1
        if len(calls) < 3:
            raise hvd.HorovodInternalError("restores the last commit")
        if len(calls) < last:
            raise HostsUpdatedInterrupt()

    train(state, last=5)
    assert calls == [0, 0, 0, 1, 2], calls


def test_alone(job):
    job(rank_raises, 1)


def check_states():
    """Without a failure: attributes are saved, restored and synchronized."""
    rank = hvd.rank()
    model = torch.nn.Linear(2, 1)
    state = hvd.elastic.TorchState(model=model, epoch=rank, items=[rank])
    state.sync()
    assert state.epoch == 0 and state.items == [0] and same(model.weight)
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1)
    state.epoch, state.items[0] = 5, 7
    state.restore()
    assert torch.equal(model.weight, before) and state.epoch == 0 and state.items == [0]
    state.epoch = 6
    state.save()
    state.epoch = 7
    state.restore()
    assert state.epoch == 6
    other = torch.nn.Linear(2, 1)
    state.model = other  # from now on this one is saved and restored
    kept = other.weight.detach().clone()
    torch.nn.init.zeros_(other.weight)
    state.restore()
    assert torch.equal(other.weight, kept) and state.model is other

    sampler = hvd.elastic.ElasticSampler(Numbers(7), shuffle=False)
    assert list(sampler) == [[0, 2, 4, 6], [1, 3, 5, 0]][rank] and len(sampler) == 4
    sampler.record_batch(0, 2)
    sampler.load_state_dict(sampler.state_dict())
    assert list(sampler) == [[4, 6], [5, 4]][rank]
    shuffled = hvd.elastic.ElasticSampler(Numbers(8))
    first = list(shuffled)
    shuffled.set_epoch(1)
    assert sorted(hvd.allgather_object(first)[0] + hvd.allgather_object(first)[1]) == list(range(8)) and list(shuffled) != first


def rank_without_failure():
    rank_disagreement()
    rank_raises()
    check_states()


def test_disagreement_and_states(job):
    job(rank_without_failure)
