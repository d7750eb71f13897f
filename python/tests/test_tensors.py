# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors: results are tensors, of the input's type; what cannot be reached is refused."""
import pytest

import weft


def rank_tensors():
    import torch
    world = weft.init()
    size, rank = world.size, world.rank
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
        mine = torch.full((3, 4), rank + 1).to(kind)
        total = world.allreduce(mine)
        assert isinstance(total, torch.Tensor) and total.dtype == kind and total.shape == mine.shape and (total == size * (size + 1) // 2).all()
        joined = world.allgather(mine[:, ::2])
        assert joined.shape == (3 * size, 2) and all((joined[3 * r:3 * r + 3] == r + 1).all() for r in range(size))
    scalar = torch.tensor(2.0)
    assert world.allreduce(scalar, out=scalar) is scalar and scalar.item() == 2 * size
    assert world.allreduce(torch.tensor(True), weft.LOGICAL_AND).item() is True
    assert (world.start.allreduce(torch.ones(1000)).wait() == size).all()
    assert (world.exscan(torch.ones(2)) == rank).all()
    parameter = torch.nn.Parameter(torch.full((5,), float(rank)))
    world.broadcast(parameter.data)
    assert (parameter == 0).all()
    for call, words in [(lambda: world.broadcast(parameter, root=1 - rank), "requires gradients"),
                        (lambda: world.allreduce(torch.zeros(2, dtype=torch.complex64)), "type torch.complex64, which libweft lacks"),
                        (lambda: world.allreduce(torch.ones(2, 2), out=torch.ones(2, 4)[:, ::2]), "is not contiguous"),
                        (lambda: world.allreduce(torch.empty(3, device="meta")), "is on the device 'meta'")]:
        with pytest.raises(weft.ArgumentError, match=words):
            call()


def test_tensors(job):
    pytest.importorskip("torch")
    job(rank_tensors)
