# SPDX-License-Identifier: Apache-2.0
"""Groups of tensors as one operation, and sparse tensors."""
import torch

import horovod.torch as hvd


def check_groups(rank):
    tensors = [torch.full((i + 1,), float(i + rank)) for i in range(3)] + [torch.full((2, 2), rank, dtype=torch.int64)]
    averages = hvd.grouped_allreduce(tensors)
    assert isinstance(averages, list) and [t.tolist() for t in averages[:3]] == [[i + 0.5] * (i + 1) for i in range(3)]
    assert averages[3].dtype == torch.int64 and averages[3].tolist() == [[0, 0], [0, 0]]
    assert [t.flatten()[0].item() for t in hvd.grouped_allreduce(tensors, op=hvd.Sum, compression=hvd.Compression.fp16)] == [1, 3, 5, 1]
    handle = hvd.grouped_allreduce_async(tensors, op=hvd.Max, name="group")
    assert isinstance(handle, int)
    assert [t.flatten()[0].item() for t in hvd.synchronize(handle)] == [1, 2, 3, 1]
    same = hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert all(a is b for a, b in zip(same, tensors)) and tensors[0].item() == 1

    first, second = hvd.grouped_allgather([torch.full((rank + 1, 2), float(rank)), torch.tensor([rank], dtype=torch.int16)])
    assert first[:, 0].tolist() == [0, 1, 1] and second.tolist() == [0, 1] and second.dtype == torch.int16
    first, second = hvd.synchronize(hvd.grouped_allgather_async([torch.tensor([rank]), torch.ones(rank)]))
    assert first.tolist() == [0, 1] and second.tolist() == [1]

    first, second = hvd.grouped_reducescatter([torch.arange(3.0), torch.ones(4, 2)], op=hvd.Sum)
    assert first.tolist() == ([0, 2] if rank == 0 else [4]) and second.tolist() == [[2, 2]] * 2
    first, second = hvd.synchronize(hvd.grouped_reducescatter_async([torch.arange(2.0), torch.ones(2)]))
    assert (first.item(), second.item()) == (rank, 1)


def check_all_or_nothing(rank):
    """A group waits for all of its members, and other operations do not wait for it."""
    if rank == 0:
        handle = hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], op=hvd.Sum, name="late")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="between").item() == 2
    if rank == 1:
        handle = hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], op=hvd.Sum, name="late")
    assert [t.tolist() for t in hvd.synchronize(handle)] == [[2, 2], [2, 2, 2]]


def check_sparse(rank):
    torch.manual_seed(rank)
    dense = [torch.rand(5, 4) * (torch.rand(5, 1) > 0.5) for _ in range(6)]
    for op in (hvd.Average, hvd.Sum):
        results = [hvd.sparse_allreduce_async(t.to_sparse(), name=f"sparse{i}", op=op) for i, t in enumerate(dense)]
        assert all(callable(result) for result in results)
        for result, t in zip(reversed(results), reversed(dense)):
            combined = result()
            assert combined.is_sparse and torch.allclose(combined.to_dense(), hvd.allreduce(t, op=op))
    rows = torch.sparse_coo_tensor([[1, 3] if rank else []], torch.ones(2 if rank else 0, 4), (5, 4))  # as of an embedding; rank 0 has nothing
    assert hvd.sparse_allreduce_async(rows, op=hvd.Sum)().to_dense().sum(1).tolist() == [0, 4, 0, 4, 0]


def rank_all():
    hvd.init()
    for check in (check_groups, check_all_or_nothing, check_sparse):
        check(hvd.rank())


def test_groups_and_sparse_tensors(job):
    job(rank_all, environment={"HOROVOD_CYCLE_TIME": "0"})  # without a pause
