# SPDX-License-Identifier: Apache-2.0
"""Operations on tensors: results, types, layouts, handles, and arguments that are refused."""
import numpy
import pytest
import torch

import horovod.torch as hvd
from horovod.torch.mpi_ops import poll, synchronize

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WHOLE = [torch.int8, torch.uint8, torch.int32, torch.int64]


def equal(result, expected):
    expected = torch.as_tensor(expected)
    assert result.dtype == expected.dtype and result.shape == expected.shape and torch.equal(result, expected), (result, expected)


def check_numbers(rank, size):
    assert hvd.is_initialized() and 0 <= rank < size == 3
    assert (hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()) == (rank, 3, 0, 1)
    assert hvd.mpi_ops.is_homogeneous()
    assert hvd.gloo_built() and hvd.gloo_enabled() and not hvd.mpi_built() and not hvd.mpi_enabled() and not hvd.cuda_built()
    assert hvd.nccl_built() == 0 and not hvd.rocm_built() and not hvd.ddl_built() and not hvd.ccl_built()
    with pytest.raises(ValueError, match="MPI is not used"):
        hvd.mpi_threads_supported()


def check_allreduce(rank, size):
    for dtype in FLOATS + WHOLE:
        own = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype) * (rank + 1)
        ones = torch.tensor([[1, 2, 3], [4, 5, 6]], dtype=dtype)
        before = own.clone()
        equal(hvd.allreduce(own), ones * 2)  # the average of 1, 2 and 3 times
        equal(hvd.allreduce(own, op=hvd.Sum), ones * 6)
        equal(hvd.allreduce(own, op=hvd.Min), ones)
        equal(hvd.allreduce(own, op=hvd.Max), ones * 3)
        equal(hvd.allreduce(ones[:, :2], op=hvd.Product), ones[:, :2] ** 3)
        equal(hvd.allreduce(own, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5), ones * 6)
        equal(own, before)
        assert hvd.allreduce_(own, op=hvd.Sum) is own
        equal(own, ones * 6)
    bits = torch.tensor([True, False, rank == 1])
    equal(hvd.allreduce(bits, op=hvd.Max), [True, False, True])
    equal(hvd.allreduce(bits, op=hvd.Min), [True, False, False])
    with pytest.warns(DeprecationWarning):
        equal(hvd.allreduce(torch.tensor(rank), average=False), 3)
    equal(hvd.allreduce(torch.full((2,), 1.0 + rank), compression=hvd.Compression.fp16), torch.full((2,), 2.0))
    equal(hvd.allreduce(torch.full((2,), 1.0 + rank), compression=hvd.Compression.bf16), torch.full((2,), 2.0))
    equal(hvd.allreduce(torch.empty(0, 4)), torch.empty(0, 4))
    large = torch.arange(1 << 20, dtype=torch.float32)
    equal(hvd.allreduce(large), large)


def check_layouts(rank, size):
    own = (torch.arange(6.0).reshape(2, 3) + rank).t()
    assert not own.is_contiguous()
    expected = torch.arange(6.0).reshape(2, 3).t() + 1
    equal(hvd.allreduce(own), expected)
    place = own.clone(memory_format=torch.preserve_format)
    assert hvd.allreduce_(place) is place and not place.is_contiguous()
    equal(place, expected)
    columns = torch.zeros(4, 2)
    columns[:, 1] = rank + 1
    hvd.broadcast_(columns[:, 1], root_rank=2)
    equal(columns, torch.tensor([[0.0, 3.0]] * 4))
    short = torch.full((3, 2), rank, dtype=torch.int16).t()
    hvd.broadcast_(short, root_rank=1)
    equal(short, torch.ones(2, 3, dtype=torch.int16))
    parameter = torch.nn.Parameter(torch.full((2,), float(rank)))
    hvd.broadcast_(parameter, root_rank=2)
    equal(parameter.detach(), [2.0, 2.0])
    assert parameter.requires_grad and parameter.is_leaf
    for place in (own.clone(), torch.ones(2, dtype=torch.float64)):
        handle = hvd.grouped_allreduce_async_([place, own], op=hvd.Max)
        first, second = synchronize(handle)
        assert first is place and second is own


def check_moves(rank, size):
    for dtype in FLOATS + WHOLE + [torch.int16, torch.bool]:
        own = torch.full((rank + 1, 2), rank, dtype=dtype)
        rows = torch.tensor([[0, 0], [1, 1], [1, 1], [2, 2], [2, 2], [2, 2]]).to(dtype)
        equal(hvd.allgather(own), rows)
        equal(hvd.broadcast(torch.full((2, 2), rank, dtype=dtype), 1), torch.ones(2, 2).to(dtype))
        equal(hvd.broadcast(torch.tensor(rank, dtype=dtype), 1), torch.tensor(1).to(dtype))
        sent = torch.arange(6).reshape(3, 2).to(dtype) if rank else torch.zeros(3, 2, dtype=dtype)
        received = hvd.alltoall(sent)
        equal(received[1:], torch.stack([sent[rank], sent[rank]]) if rank else torch.tensor([[0, 1], [0, 1]]).to(dtype))
    equal(hvd.allgather(torch.empty(0, 3)), torch.empty(0, 3))
    equal(hvd.allgather(torch.full((2 if rank == 1 else 0,), 7)), [7, 7])


def check_alltoall(rank, size):
    # Rank r sends r+1 rows to rank 0, none to rank 1, one to rank 2, and keeps one.
    rows, splits = torch.arange(rank + 3) + 10 * rank, [rank + 1, 0, 1]
    expected = {0: ([0, 10, 11, 20, 21, 22], [1, 2, 3]), 1: ([], [0, 0, 0]), 2: ([1, 12, 23], [1, 1, 1])}[rank]
    for given in (splits, numpy.array(splits), torch.tensor(splits, dtype=torch.int32), torch.tensor(splits)):
        result, received = hvd.alltoall(rows, given)
        equal(result, torch.tensor(expected[0], dtype=torch.int64))
        assert received.tolist() == expected[1] and received.dtype == (given.dtype if isinstance(given, torch.Tensor) else torch.int32)
    result, received = synchronize(hvd.alltoall_async(torch.arange(3) * 10 + rank))
    equal(result, torch.arange(3) + rank * 10)
    equal(received, torch.ones(3, dtype=torch.int32))


def check_reducescatter(rank, size):
    for dtype in FLOATS + WHOLE:
        own = torch.arange(10).reshape(5, 2).to(dtype) + rank
        whole = torch.arange(10).reshape(5, 2).to(dtype) + 1
        part = [whole[:2], whole[2:4], whole[4:]][rank]  # the first ranks get the rest
        equal(hvd.reducescatter(own), part)
        equal(hvd.reducescatter(own, op=hvd.Sum), part * 3)
        equal(synchronize(hvd.reducescatter_async(own, op=hvd.Sum, prescale_factor=2.0)), part * 6)
    equal(hvd.reducescatter(torch.ones(2)), torch.ones(1 if rank < 2 else 0))
    equal(hvd.reducescatter(torch.ones(3), compression=hvd.Compression.fp16, op=hvd.Sum), torch.full((1,), 3.0))


def check_handles(rank, size):
    handles = [hvd.allreduce_async(torch.full((4,), float(i)), op=hvd.Sum) for i in range(300)]  # more than there are names for
    assert all(isinstance(handle, int) for handle in handles) and len(set(handles)) == 300
    for i in reversed(range(300)):
        equal(synchronize(handles[i]), torch.full((4,), 3.0 * i))
    handle = hvd.allgather_async(torch.tensor([rank]), name="handle")
    while not poll(handle):
        pass
    equal(hvd.synchronize(handle), [0, 1, 2])
    assert hvd.synchronize(handle) is None and hvd.synchronize(123456) is None
    with pytest.raises(ValueError, match=f"no operation with handle {handle}"):
        hvd.poll(handle)


def check_refused(rank, size):
    one = torch.ones(3)
    for call, kind, words in [
            (lambda: hvd.allreduce([1, 2]), TypeError, "an all-reduce takes a tensor, not list"),
            (lambda: hvd.allreduce(one.to(torch.complex64)), ValueError, "Tensor type torch.ComplexFloatTensor is not supported"),
            (lambda: hvd.allreduce(one.to(torch.int16)), ValueError, "torch.ShortTensor is not supported by an all-reduce"),
            (lambda: hvd.allreduce(one > 0), ValueError, "min and max only"),
            (lambda: hvd.allreduce(one.to_sparse()), ValueError, "use hvd.sparse_allreduce_async"),
            (lambda: hvd.allreduce(one.to("meta")), ValueError, "an all-reduce works on the CPU, and this tensor is on 'meta': pass tensor.cpu"),
            (lambda: hvd.allreduce(one, average=True, op=hvd.Sum), ValueError, "pass op or average, not both"),
            (lambda: hvd.allreduce(one, op=9), ValueError, "no reduction 9"),
            (lambda: hvd.allreduce(one, op=hvd.Adasum), NotImplementedError, "a power of two, and there are 3"),
            (lambda: hvd.grouped_allreduce([]), ValueError, "needs at least one tensor"),
            (lambda: hvd.grouped_allreduce(one), TypeError, "takes a list of tensors"),
            (lambda: hvd.allgather(torch.tensor(1)), ValueError, "works along the first dimension"),
            (lambda: hvd.broadcast(one, 3), ValueError, r"no rank 3 to broadcast from; the ranks are \[0, 1, 2\]"),
            (lambda: hvd.alltoall(torch.ones(4)), ValueError, "4 rows cannot be divided evenly among 3 ranks"),
            (lambda: hvd.alltoall(one, [1, 2]), ValueError, "for each of the 3 ranks"),
            (lambda: hvd.alltoall(one, [1, 1, 2]), ValueError, "add up to 4 rows, but the tensor has 3"),
            (lambda: hvd.alltoall(one, [2, -1, 1]), ValueError, "for each of the 3 ranks"),
            (lambda: hvd.alltoall(one, [1.0, 1.0, 1.0]), ValueError, "for each of the 3 ranks"),
            (lambda: hvd.alltoall(one, torch.ones(3)), ValueError, "32-bit integers"),
            (lambda: hvd.reducescatter(torch.tensor(1.0)), ValueError, "works along the first dimension"),
            (lambda: hvd.reducescatter(one, op=hvd.Adasum), NotImplementedError, "does not have hvd.Adasum"),
            (lambda: hvd.sparse_allreduce_async(one), ValueError, "takes a sparse tensor"),
            (lambda: hvd.sparse_allreduce_async(one.to_sparse(), "s", hvd.Max), ValueError, "Average and hvd.Sum only"),
    ]:
        with pytest.raises(kind, match=words):
            call()
    if hasattr(torch.Tensor, "is_cuda") and torch.cuda.is_available():
        with pytest.raises(ValueError, match="pass tensor.cpu"):
            hvd.allreduce(one.cuda())


def rank_all():
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    for check in (check_numbers, check_allreduce, check_layouts, check_moves, check_alltoall, check_reducescatter, check_handles, check_refused):
        check(rank, size)
        hvd.barrier()
    print("checked")


def test_operations(job):
    assert job(rank_all, 3).out.count("checked") == 3


def alone():
    """Without a launcher there is one rank."""
    with pytest.raises(ValueError, match="has not been initialized; use hvd.init"):
        hvd.size()
    with pytest.raises(hvd.HorovodInternalError, match="has not been initialized"):
        hvd.allreduce(torch.ones(2))
    hvd.init()
    assert (hvd.rank(), hvd.size()) == (0, 1)
    equal(hvd.allreduce(torch.ones(2), op=hvd.Adasum), torch.ones(2))
    equal(hvd.allgather(torch.ones(2)), torch.ones(2))
    assert hvd.join() == 0 and hvd.broadcast_object("text") == "text" and numpy.ndim(hvd.allgather_object(1)) == 1


def test_one_rank(job):
    job(alone, 1)
