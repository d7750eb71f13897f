# SPDX-License-Identifier: Apache-2.0
"""join(): ranks with less data than others."""
import time

import pytest
import torch

import horovod.torch as hvd


def rank_uneven():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    # Rank r has r + 1 batches; while it has joined, it counts as zeros.
    for turn in range(2):
        for batch in range(rank + 1):
            total = hvd.allreduce(torch.ones(4), op=hvd.Sum, name="batch" if turn else None)
            assert total.tolist() == [size - batch] * 4
            average = hvd.allreduce(torch.ones(2))
            assert torch.allclose(average, torch.full((2,), (size - batch) / size))
        if rank == size - 1:
            time.sleep(0.1)
        assert hvd.join() == size - 1
        # Operations without a name are in step again, although ranks have run different numbers of them.
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
        assert hvd.allgather(torch.tensor([rank])).tolist() == list(range(size))


def rank_others_fail():
    hvd.init()
    for call in (lambda: hvd.allgather(torch.ones(2)), lambda: hvd.broadcast(torch.ones(2), 1), lambda: hvd.alltoall(torch.ones(2)),
                 lambda: hvd.reducescatter(torch.ones(2)), lambda: hvd.allreduce(torch.ones(2), op=hvd.Adasum)):
        if hvd.rank() == 1:
            with pytest.raises(hvd.HorovodInternalError):
                call()
        assert hvd.join(device=-1) == 1
        hvd.barrier()


def rank_optimizer():
    """Training with uneven numbers of batches: the models stay the same."""
    hvd.init()
    model = torch.nn.Linear(3, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
    for _ in range(2 + hvd.rank()):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()
    assert hvd.join() == 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)  # the one with the last step


def rank_all():
    rank_others_fail()
    rank_optimizer()


def test_uneven_numbers_of_batches(job):
    job(rank_uneven, 3)


def test_other_operations(job):
    job(rank_all)
