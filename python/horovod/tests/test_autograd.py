# SPDX-License-Identifier: Apache-2.0
"""Gradients flow through operations that return new tensors."""
import pytest
import torch

import horovod.torch as hvd


def gradient(function, own, weights):
    """Of sum(function(own) * weights)."""
    own = own.clone().requires_grad_()
    (function(own) * weights).sum().backward()
    return own.grad


def rank_gradients():
    hvd.init()
    rank = hvd.rank()
    own, weights = torch.arange(4.0) + rank, torch.arange(4.0) * (rank + 1)
    together = torch.arange(4.0) * 3  # the sum of the weights of both ranks

    assert torch.equal(gradient(hvd.allreduce, own, weights), together / 2)
    assert torch.equal(gradient(lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=2.0), own, weights), together * 2)
    assert torch.equal(gradient(lambda t: hvd.allreduce(t, compression=hvd.Compression.bf16), own, weights), together / 2)
    results = gradient(lambda t: torch.cat(hvd.grouped_allreduce([t, 2 * t], op=hvd.Sum)), own, torch.cat([weights, weights]))
    assert torch.equal(results, together * 3)

    rows = torch.arange(6.0) * (rank + 1)  # rank 0 has two of them, rank 1 has four
    mine = slice(0, 2) if rank == 0 else slice(2, 6)
    assert torch.equal(gradient(hvd.allgather, torch.ones(mine.stop - mine.start), rows), (torch.arange(6.0) * 3 / 2)[mine])
    results = gradient(lambda t: torch.cat(hvd.grouped_allgather([t, t])), torch.ones(mine.stop - mine.start), torch.cat([rows, rows]))
    assert torch.equal(results, (torch.arange(6.0) * 3)[mine])

    expected = together / 2 if rank == 1 else torch.zeros(4)
    assert torch.equal(gradient(lambda t: hvd.broadcast(t, 1), own, weights), expected)

    assert torch.equal(gradient(hvd.alltoall, own, weights), torch.cat([torch.arange(4.0)[2 * rank:2 * rank + 2], torch.arange(4.0)[
        2 * rank:2 * rank + 2] * 2]))
    # Rows that are not sent have the gradient 0.
    results = gradient(lambda t: hvd.alltoall(t, splits=[1, 2])[0], own, torch.ones(2 * (rank + 1)))
    assert torch.equal(results, torch.tensor([1.0, 1.0, 1.0, 0.0]))

    assert torch.equal(gradient(hvd.reducescatter, own, weights[:2]), torch.tensor([0.0, 1.0, 0.0, 2.0]))
    results = gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum, postscale_factor=0.5), own, weights[:2])
    assert torch.equal(results, torch.tensor([0.0, 1.0, 0.0, 2.0]))
    results = gradient(lambda t: torch.cat(hvd.grouped_reducescatter([t, t], op=hvd.Sum)), own, torch.cat([weights[:2], weights[:2]]))
    assert torch.equal(results, torch.tensor([0.0, 4.0, 0.0, 8.0]))

    with torch.no_grad():
        assert not hvd.allreduce(torch.ones(2, requires_grad=True)).requires_grad
    assert not hvd.allreduce(torch.ones(2)).requires_grad


def rank_second_derivatives():
    """The backward() of an operation is an operation, too, whose gradients flow."""
    hvd.init()
    rank, size = hvd.rank(), hvd.size()

    def twice(function):
        """The gradient of the sum of the gradient of the squares."""
        own = (torch.arange(4.0) + rank).requires_grad_()
        result = function(own)
        first, = torch.autograd.grad(result.square().sum(), own, create_graph=True)
        assert first.requires_grad
        return torch.autograd.grad(first.sum(), own)[0].tolist()

    # An all-reduce is its own backward(): the result is the double of what two of them make of ones.
    assert twice(lambda t: hvd.allreduce(t, op=hvd.Sum)) == [2.0 * size ** 2] * 4
    assert twice(hvd.allreduce) == [2.0] * 4
    assert twice(lambda t: torch.cat(hvd.grouped_allreduce([t, t], op=hvd.Sum))) == [4.0 * size ** 2] * 4
    assert twice(hvd.alltoall) == [2.0] * 4
    assert twice(lambda t: hvd.alltoall(t, splits=[1, 2])[0]) == [2.0, 2.0, 2.0, 0.0]
    twice(lambda t: hvd.broadcast(t, 1)), twice(hvd.allgather), twice(hvd.reducescatter)  # all ranks take part

    layer = hvd.SyncBatchNorm(3)
    given = torch.randn(4, 3, requires_grad=True)
    first, = torch.autograd.grad(layer(given).square().sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def rank_batch_norm():
    """SyncBatchNorm on parts of a batch is BatchNorm on the whole, forward and backward."""
    hvd.init()
    rank = hvd.rank()
    for shape, momentum in [((6, 3), 0.1), ((6, 3, 5), None), ((6, 3, 2, 2), 0.3)]:
        torch.manual_seed(1)
        batch, weights = torch.randn(shape) * 2 + 5, torch.randn(shape)
        mine = slice(0, 2) if rank == 0 else slice(2, 6)
        kind = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d}[len(shape)]
        serial, parallel = kind(3, momentum=momentum), hvd.SyncBatchNorm(3, momentum=momentum)
        for layer in (serial, parallel):
            torch.nn.init.uniform_(layer.weight)
        with torch.no_grad():
            serial.bias.copy_(torch.arange(3.0))
            parallel.load_state_dict(serial.state_dict())
        for _ in range(2):
            whole, part = batch.clone().requires_grad_(), batch[mine].clone().requires_grad_()
            expected, result = serial(whole), parallel(part)
            assert torch.allclose(result, expected[mine], atol=1e-5)
            (expected * weights).sum().backward()
            (result * weights[mine]).sum().backward()
            assert torch.allclose(part.grad, whole.grad[mine], atol=1e-5)
        for name in ("weight", "bias"):
            combined = hvd.allreduce(getattr(parallel, name).grad, op=hvd.Sum)
            assert torch.allclose(combined, getattr(serial, name).grad, atol=1e-4)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            assert torch.allclose(getattr(parallel, name), getattr(serial, name), atol=1e-5)
        serial.eval(), parallel.eval()
        assert torch.allclose(parallel(batch), serial(batch), atol=1e-5)
    plain = hvd.SyncBatchNorm(3, affine=False, track_running_stats=False)
    assert torch.allclose(plain(batch[mine]), torch.nn.functional.batch_norm(batch, None, None, training=True)[mine], atol=1e-5)
    try:
        plain(torch.ones(3))
        raise AssertionError("a tensor of one dimension was accepted")
    except ValueError as error:
        assert "at least 2 dimensions" in str(error)


def rank_all():
    rank_gradients()
    rank_second_derivatives()
    rank_batch_norm()


def test_gradients(job):
    job(rank_all)
