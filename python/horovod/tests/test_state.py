# SPDX-License-Identifier: Apache-2.0
"""State from one rank to all: parameters, optimizers, objects."""
import copy

import pytest
import torch

import horovod.torch as hvd


def same_everywhere(value):
    everyone = hvd.allgather_object(value)
    return all(str(other) == str(everyone[0]) for other in everyone)


def check_objects(rank):
    class Local:
        """A class that only cloudpickle can send."""

    for root in (0, 1):
        assert hvd.broadcast_object({"rank": rank, "list": [1, (2,)]}, root_rank=root) == {"rank": root, "list": [1, (2,)]}
        assert hvd.broadcast_object(None if rank != root else "text", root, name="object") == "text"
    objects = hvd.allgather_object({"rank": rank, "more": "x" * 1000 * rank})
    assert [entry["rank"] for entry in objects] == [0, 1] and len(objects[1]["more"]) == 1000
    try:
        __import__("cloudpickle")
    except ImportError:
        return
    assert hvd.broadcast_object(Local()).__doc__ == Local.__doc__


def check_parameters(rank):
    def new_model():
        torch.manual_seed(rank)
        return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))

    for parameters_of in (lambda model: model.state_dict(), lambda model: model.named_parameters(), lambda model: list(model.parameters())):
        model = new_model()
        hvd.broadcast_parameters(parameters_of(model), root_rank=1)
        assert same_everywhere(list(model.parameters()))
        torch.manual_seed(1)
        assert torch.equal(model[0].weight, torch.nn.Linear(3, 2).weight)
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(3, root_rank=0)


KINDS = [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), lambda p: torch.optim.SGD(p, lr=0.1), torch.optim.Adam,
         lambda p: torch.optim.AdamW(p, betas=(0.5, 0.9)), torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Rprop,
         lambda p: torch.optim.LBFGS(p, max_iter=2)]


def check_optimizers(rank):
    """Rank 0's optimizer has made steps, those of others have not, or others."""
    for make in KINDS:
        for steps_elsewhere in (0, 2):
            model = torch.nn.Linear(3, 2)
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
            optimizer = make(model.parameters())

            def compute():
                optimizer.zero_grad()
                loss = model(torch.full((1, 3), 1.0 + rank)).square().sum()
                loss.backward()
                return loss

            for _ in range(3 if rank == 0 else steps_elsewhere):
                optimizer.step(compute)
            for group in optimizer.param_groups:
                group["lr"] = 0.5 / (rank + 1)
            before, weights = copy.deepcopy(optimizer.state_dict()), model.weight.detach().clone()
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            assert rank != 0 or str(optimizer.state_dict()) == str(before)
            assert same_everywhere(optimizer.state_dict()) and optimizer.param_groups[0]["lr"] == 0.5
            assert torch.equal(model.weight, weights)
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
            optimizer.step(lambda: torch.tensor(0.0) if model.weight.grad is not None else compute())  # the state is usable


def check_fresh_optimizer(rank):
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), named_parameters=model.named_parameters())
    before = model.weight.detach().clone()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert torch.equal(model.weight, before) and not optimizer.state
    assert torch.equal(model.weight.grad, torch.zeros(2, 3))
    layer = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=layer)
    assert layer.weight.grad.is_sparse


def check_refused(rank):
    model = torch.nn.Linear(3, 2, bias=rank == 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if rank == 1:
        with pytest.raises(ValueError, match="the optimizer of rank 1 has 1 parameters in 1 groups, and that of rank 0 has 2 in 1"):
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    else:
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)


def rank_all():
    hvd.init()
    for check in (check_objects, check_parameters, check_optimizers, check_fresh_optimizer, check_refused):
        check(hvd.rank())


def test_state(job):
    job(rank_all)


def test_compression():
    for compression, kind in ((hvd.Compression.fp16, torch.float16), (hvd.Compression.bf16, torch.bfloat16)):
        for dtype in (torch.float32, torch.float64):
            short, context = compression.compress(torch.ones(2, dtype=dtype))
            assert short.dtype == kind and compression.decompress(short, context).dtype == dtype
        for dtype in (torch.int32, torch.uint8, torch.float16, torch.bfloat16):
            same, context = compression.compress(torch.ones(2, dtype=dtype))
            assert same.dtype == dtype and compression.decompress(same, context).dtype == dtype
    tensor = torch.ones(2)
    assert hvd.Compression.none.compress(tensor)[0] is tensor
