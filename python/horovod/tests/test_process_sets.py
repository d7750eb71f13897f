# SPDX-License-Identifier: Apache-2.0
"""Process sets: operations among some ranks."""
import os

import pytest
import torch

import horovod.torch as hvd
from horovod.common.process_sets import ProcessSet


def check_results(rank, pair, lone):
    own = torch.tensor([float(rank + 1)])
    if rank in (0, 2):
        assert hvd.allreduce(own, op=hvd.Sum, process_set=pair).item() == 4
        assert hvd.allreduce(own, process_set=pair).item() == 2  # the average over two
        assert hvd.allgather(own, process_set=pair).tolist() == [1, 3]
        assert hvd.broadcast(own, 2, process_set=pair).item() == 3  # the number of the whole job
        assert hvd.alltoall(torch.arange(2) + 10 * rank, process_set=pair).tolist() == [rank // 2, 20 + rank // 2]
        assert hvd.reducescatter(torch.arange(2.0), op=hvd.Sum, process_set=pair).item() == (0 if rank == 0 else 2)
        assert [t.item() for t in hvd.grouped_allreduce([own, own], op=hvd.Sum, process_set=pair)] == [4, 4]
        assert hvd.broadcast_object(rank, root_rank=2, process_set=pair) == 2
        assert hvd.allgather_object(rank, process_set=pair) == [0, 2]
        sparse = torch.eye(3).to_sparse()
        assert torch.equal(hvd.sparse_allreduce_async(sparse, "s", hvd.Average, pair)().to_dense(), torch.eye(3))
        leaf = own.clone().requires_grad_()
        hvd.allreduce(leaf, op=hvd.Sum, process_set=pair).backward()
        assert leaf.grad.item() == 2
        hvd.barrier(process_set=pair)
        with pytest.raises(ValueError, match=r"no rank 1 to broadcast from; the ranks are \[0, 2\]"):
            hvd.broadcast(own, 1, process_set=pair)
        with pytest.raises(ValueError, match=rf"rank {rank} does not belong to ProcessSet\(process_set_id=2, ranks=\[1\]\)"):
            hvd.allreduce(own, process_set=lone)
        with pytest.raises(NotImplementedError, match="Adasum works on all ranks"):
            hvd.allreduce(own, op=hvd.Adasum, process_set=pair)
    else:
        assert hvd.allreduce(own, op=hvd.Sum, process_set=lone).item() == 2


def check_numbers(rank, pair, lone):
    assert (hvd.global_process_set.process_set_id, hvd.global_process_set.ranks, hvd.global_process_set.size()) == (0, [0, 1, 2], 3)
    assert hvd.global_process_set.rank() == rank and hvd.global_process_set.included()
    assert (pair.process_set_id, pair.ranks, pair.size(), pair.included()) == (1, [0, 2], 2, rank != 1)
    if rank != 1:
        assert pair.rank() == rank // 2


def check_adding(rank):
    last = hvd.add_process_set([1, 2])
    assert last.process_set_id == 3 and last.included() == (rank > 0)
    if rank > 0:
        assert hvd.allgather(torch.tensor([rank]), process_set=last).tolist() == [1, 2]
    for ranks, words in [([2, 1], r"there is a process set with the ranks \[1, 2\] already"), (range(3), "already"), ([3], "from 0 to 2"),
                         ([], "at least one")]:
        with pytest.raises(ValueError, match=words):
            hvd.add_process_set(ProcessSet(ranks))
    with pytest.raises(ValueError, match=r"ranks disagree.*rank 0 calls 'add_process_set \[0\]', rank 1 calls 'add_process_set \[0, 1\]'"):
        hvd.add_process_set([0] if rank == 0 else [0, 1])
    assert hvd.remove_process_set(last) and last.process_set_id is None and last.size() is None and last.rank() is None
    assert not hvd.remove_process_set(last) and not hvd.remove_process_set(hvd.global_process_set)
    with pytest.raises(ValueError, match="is not initialized: pass it to hvd.init"):
        hvd.allreduce(torch.ones(1), process_set=last)
    again = hvd.add_process_set(last)
    assert again is last and last.process_set_id == 4


def check_optimizer(rank, pair):
    """Gradients are combined within a set; other ranks step by themselves."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), groups=1,
                                         process_set=pair)
    model(torch.full((1, 2), float(rank))).sum().backward()
    optimizer.step()
    assert model.weight.tolist() == [[0, 0]]  # 1 - (0 + 2) / 2 in the pair, 1 - 1 on rank 1


def rank_all():
    with pytest.raises(ValueError, match=r"ranks disagree about process sets"):
        hvd.init(process_sets=[ProcessSet([int(os.environ["WEFT_RANK"])])])
    with pytest.raises(ValueError, match="already"):
        hvd.init(process_sets=[ProcessSet([0]), ProcessSet([0])])
    assert not hvd.is_initialized()
    pair, lone = hvd.ProcessSet([2, 0]), hvd.ProcessSet([1])
    assert pair.process_set_id is None
    hvd.init(process_sets=[pair, lone])
    rank = hvd.rank()
    check_results(rank, pair, lone)
    check_numbers(rank, pair, lone)
    check_optimizer(rank, pair)
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1 or hvd.init"):
        hvd.add_process_set([1, 2])
    hvd.init(process_sets="dynamic")
    check_adding(rank)
    hvd.shutdown()
    assert pair.process_set_id is None
    hvd.init(comm=[0, 1] if rank < 2 else [2])
    assert (hvd.rank(), hvd.size()) == ((rank, 2) if rank < 2 else (0, 1))
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
    hvd.shutdown()
    hvd.init()
    assert hvd.allgather(torch.tensor([rank])).tolist() == [0, 1, 2]


def test_process_sets(job):
    job(rank_all, 3)


def test_refused():
    for ranks in (3, [0, "1"], [0, 0], [-1]):
        with pytest.raises(ValueError, match="a ProcessSet is made from"):
            ProcessSet(ranks)
    with pytest.raises(ValueError, match="pass a list of ProcessSet"):
        hvd.init(process_sets="static")
    with pytest.raises(ValueError, match="each must be a hvd.ProcessSet"):
        hvd.init(process_sets=[[0]])
    with pytest.raises(ValueError, match="communicators of MPI are not supported"):
        hvd.init(comm=object())
