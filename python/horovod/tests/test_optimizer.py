# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer on parts of a batch makes the steps of the optimizer on the whole batch."""
import warnings

import pytest
import torch

import horovod.torch as hvd

STEPS = 4


def new_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()


def batches():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(8, 6, generator=generator, dtype=torch.float64) for _ in range(STEPS)]


def loss_of(model, batch):
    return model(batch).square().mean()


def own_part(batch):
    rows = len(batch) // hvd.size()
    return batch[hvd.rank() * rows:(hvd.rank() + 1) * rows]


def serial(make, passes=1):
    """The model after STEPS steps on whole batches."""
    model = new_model()
    optimizer = make(model.parameters())
    for batch in batches():
        optimizer.zero_grad()
        for part in batch.reshape(passes, -1, 6):
            loss_of(model, part).backward()
        optimizer.step()
    return model


def check_same(model, expected, tolerance=1e-10):
    for (name, a), b in zip(model.named_parameters(), expected.parameters()):
        assert torch.allclose(a, b, atol=tolerance), (name, a, b)
        everyone = hvd.allgather(a.detach()[None])
        assert all(torch.equal(everyone[0], other) for other in everyone), name


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05)


def check_training():
    grouped = new_model()
    for make, tolerance, options in [
            (sgd, 1e-10, {}), (adam, 1e-10, {}), (sgd, 1e-10, {"gradient_predivide_factor": 4.0}), (sgd, 1e-10, {"groups": 2}),
            (sgd, 1e-2, {"compression": hvd.Compression.fp16}), (sgd, 1e-2, {"compression": hvd.Compression.bf16, "groups": 1}),
            (sgd, 1e-10, {"groups": lambda model: [[model[0].weight, model[2].weight]]}), (adam, 1e-10, {"named": False})]:
        model = new_model()
        options = dict(options)
        if callable(options.get("groups")):
            options["groups"] = options["groups"](model)
        named = model.named_parameters() if options.pop("named", True) else None
        optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=named, **options)
        assert isinstance(optimizer, type(make(grouped.parameters())))
        for batch in batches():
            optimizer.zero_grad()
            loss_of(model, own_part(batch)).backward()
            optimizer.step()
        check_same(model, serial(make), tolerance)


def check_sum_and_passes():
    model = new_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), backward_passes_per_step=2,
                                         op=hvd.Sum)
    for batch in batches():
        optimizer.zero_grad()
        for part in own_part(batch).reshape(2, -1, 6):
            (loss_of(model, part) / hvd.size()).backward()
        optimizer.step()
    check_same(model, serial(lambda parameters: torch.optim.SGD(parameters, lr=0.1), passes=2))
    optimizer.set_backward_passes_per_step(1)
    loss_of(model, batches()[0]).backward()
    with pytest.raises(AssertionError, match="more than backward_passes_per_step = 1 times before step"):
        loss_of(model, batches()[0]).backward()
    with pytest.raises(AssertionError, match="zero_grad.. was called between backward"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert model[0].weight.grad is None


def check_clipping():
    """synchronize(), a change of the gradients, and a step without synchronizing again; with a scheduler, made before and after."""
    model, expected = new_model(), new_model()
    plain, reference = sgd(model.parameters()), sgd(expected.parameters())
    before = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for turn, batch in enumerate(batches()):
        loss_of(model, own_part(batch)).backward()
        optimizer.synchronize()
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1) > 0.1
        with optimizer.skip_synchronize():
            optimizer.step()
        optimizer.zero_grad()
        loss_of(expected, batch).backward()
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.1)
        for group in reference.param_groups:
            group["lr"] = 0.2 * 0.25 ** turn
        reference.step()
        reference.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the first scheduler does not see the other's steps
            before.step()
        after.step()
    check_same(model, expected)
    loss_of(model, own_part(batch)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) called without optimizer.skip_synchronize\(\) context"):
        optimizer.step()


def check_closure():
    model = new_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
    for batch in batches():
        def compute():
            optimizer.zero_grad()
            loss = loss_of(model, own_part(batch))
            loss.backward()
            return loss
        assert optimizer.step(compute) > 0
    check_same(model, serial(lambda parameters: torch.optim.SGD(parameters, lr=0.1)))


def check_unused():
    """Parameters that only some ranks use, frozen ones, and layouts that are not contiguous."""
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(3)])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    model[2].weight.requires_grad_(False)
    model[1].weight.data = model[1].weight.data.t()
    start = [layer.weight.detach().clone() for layer in model]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters())
    model[hvd.rank()](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    for i, layer in enumerate(model):
        assert torch.allclose(layer.weight, start[i] - (0.5 if i < 2 else 0))


def check_sparse():
    for as_dense in (False, True):
        layer = torch.nn.Embedding(6, 2, sparse=True)
        torch.nn.init.ones_(layer.weight)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters(), sparse_as_dense=as_dense)
        layer(torch.tensor([1, 1, 2 + hvd.rank()])).sum().backward()
        optimizer.step()
        assert layer.weight[:, 0].tolist() == [1, -1, 0.5, 0.5, 1, 1] and layer.weight.grad.is_sparse


def check_refused():
    model, other = new_model(), new_model()
    for options, words in [
            ({"named_parameters": [*model.named_parameters(), *other.named_parameters()]}, "must be unique.*0.bias, 0.weight"),
            ({"named_parameters": list(model.named_parameters())[:1]}, r"lacks 3 of the optimizer's parameters.*parameter 1 of group 0"),
            ({"named_parameters": list(model.parameters())}, "sequence of tuples"),
            ({"backward_passes_per_step": 0}, "must be above 0"),
            ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "op=hvd.Average only"),
            ({"groups": 0}, "a number above 0"), ({"groups": "all"}, "a number above 0"),
            ({"groups": [[1]]}, "must consist of tensors"),
            ({"groups": [[model[0].bias], [model[0].bias]]}, "in one group only")]:
        with pytest.raises(ValueError, match=words):
            hvd.DistributedOptimizer(sgd(model.parameters()), **options)
    with pytest.warns(DeprecationWarning, match="num_groups"):
        hvd.DistributedOptimizer(sgd(model.parameters()), num_groups=1)


def combined(a, b):
    """Adasum of two vectors."""
    dot, first, second = a @ b, a @ a, b @ b
    return a * (1 - dot / (2 * first)) + b * (1 - dot / (2 * second))


def check_adasum():
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, -1.0, 0.5])
    own = (a, b)[hvd.rank()]
    assert torch.allclose(hvd.allreduce(own, op=hvd.Adasum), combined(a, b))
    assert torch.allclose(hvd.allreduce(a, op=hvd.Adasum), a)  # of equal ones the average
    orthogonal = torch.eye(3)[hvd.rank()]
    assert torch.allclose(hvd.allreduce(orthogonal, op=hvd.Adasum), torch.tensor([1.0, 1.0, 0.0]))  # of orthogonal ones the sum

    model = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9), model.named_parameters(), op=hvd.Adasum)
    speeds, expected = [torch.zeros(3), torch.zeros(3)], torch.zeros(3)
    for _ in range(3):
        optimizer.zero_grad()
        model(own).sum().backward()  # whose gradient is the rank's vector
        optimizer.step()
        speeds = [0.9 * speed + vector for speed, vector in zip(speeds, (a, b))]
        expected = expected + combined(*[-0.5 * speed for speed in speeds])
        assert torch.allclose(model.weight[0], expected, atol=1e-6)
    model(own).sum().backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="not possible with hvd.Adasum"):
        optimizer.skip_synchronize()
    optimizer.synchronize()
    optimizer.step()


def rank_all():
    hvd.init()
    for check in (check_training, check_sum_and_passes, check_clipping, check_closure, check_unused, check_sparse, check_refused, check_adasum):
        check()


def test_optimizer(job):
    job(rank_all)
