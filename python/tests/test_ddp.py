# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel on the backend weft: the same bits in every run, agreement with serial training, hooks."""
import gc
import hashlib

import pytest

torch = pytest.importorskip("torch")
dist = torch.distributed
DDP = torch.nn.parallel.DistributedDataParallel

WIDTH, CLASSES, BATCH, STEPS = 96, 11, 24, 5


def start():
    import weft.torch
    assert weft.torch
    torch.set_num_threads(1)  # the same on any number of ranks
    if not dist.is_initialized():
        dist.init_process_group("weft")
    return dist.get_rank(), dist.get_world_size()


class Net(torch.nn.Module):
    """Layers of several kinds, and a table that is used twice."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(CLASSES, WIDTH)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.LayerNorm(4 * WIDTH),
                                          torch.nn.Linear(4 * WIDTH, WIDTH))
        self.image = torch.nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, tokens):
        hidden = self.table(tokens)
        hidden = hidden + self.image(hidden.view(-1, 1, 8, WIDTH // 8)).mean(1).view(-1, WIDTH)
        return self.layers(hidden) @ self.table.weight.t()


def model_of(seed=5):
    torch.manual_seed(seed)
    return Net()


def batch_of(step, size=BATCH):
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randint(0, CLASSES, (2, size), generator=generator)


def train(model, parts, hook=None, optimizer=torch.optim.AdamW, **options):
    """Steps on `parts` micro-batches of this rank's share, one after the other; returns the wrapped model."""
    rank, size = dist.get_rank(), dist.get_world_size()
    wrapped = DDP(model, **options)
    if hook:
        wrapped.register_comm_hook(*hook)
    chosen = optimizer(wrapped.parameters(), lr=0.01)
    for step in range(STEPS):
        chosen.zero_grad(set_to_none=step % 2 == 0)
        share = batch_of(step).chunk(size, 1)[rank]
        for tokens, targets in (part.unbind() for part in share.chunk(parts, 1)):
            torch.nn.functional.cross_entropy(wrapped(tokens), targets).backward()
        chosen.step()
    return wrapped


def bits_of(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def serial():
    """The same steps without DDP, on the whole batch."""
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        tokens, targets = batch_of(step)
        torch.nn.functional.cross_entropy(model(tokens), targets).backward()
        optimizer.step()
    return model


def close(model, other, tolerance):
    for ours, theirs in zip(model.parameters(), other.parameters()):
        assert torch.allclose(ours, theirs, rtol=tolerance, atol=tolerance), (ours - theirs).abs().max()


def rank_trains():
    import weft.torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    rank, _ = start()
    sgd = {"parts": 1, "optimizer": torch.optim.SGD}
    plain = train(model_of(seed=5 + rank), **sgd)  # DDP copies rank 0's parameters to all
    close(plain, serial(), 1e-5)
    again = train(model_of(), **sgd, bucket_cap_mb=0.05)
    close(again, plain, 1e-6)
    views = train(model_of(), **sgd, gradient_as_bucket_view=True)
    close(views, plain, 1e-6)
    for hook, tolerance in ((default_hooks.allreduce_hook, 1e-6), (default_hooks.fp16_compress_hook, 1e-3), (weft.torch.bf16_hook, 1e-3)):
        close(train(model_of(), **sgd, hook=(None, hook)), plain, tolerance)
    static = train(model_of(), **sgd, static_graph=True)
    unused = train(model_of(), **sgd, find_unused_parameters=True)
    print("bits", bits_of(plain), bits_of(views), bits_of(static), bits_of(unused), flush=True)


def leave_other_tensors(native, size):
    """A program's own tensors keep their memory, which NumPy may refer to."""
    mine = torch.ones(1 << 20)
    view = mine.numpy()
    for _ in range(3):
        dist.all_reduce(mine)
    assert native.bucket_bytes() == 0 and view[5] == size ** 3


def rank_takes_buckets():
    """Buckets of some size move to memory that all ranks of the host reach, and back when the job is left."""
    import weft
    rank, size = start()
    from weft.torch.extension import native
    leave_other_tensors(native, size)
    torch.manual_seed(3)
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = torch.nn.Sequential(*(torch.nn.Linear(400, 400) for _ in range(6)))
        wrapped = DDP(model, bucket_cap_mb=1, **options)
        for _ in range(4):
            wrapped.zero_grad()
            wrapped(torch.full((3, 400), rank + 1.0)).pow(2).sum().backward()
        all_bytes = sum(parameter.numel() * 4 for parameter in model.parameters())
        assert 0.9 * all_bytes < native.bucket_bytes() < 1.1 * all_bytes, (native.bucket_bytes(), all_bytes)
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        if options:
            weft.finalize()
            assert native.bucket_bytes() == 0
            for parameter, gradient in zip(model.parameters(), gradients):
                assert torch.equal(parameter.grad, gradient)
                parameter.grad.add_(1)
        del wrapped, model
        gc.collect()
        assert native.bucket_bytes() == 0


def canonical(parts, **options):
    import weft.torch
    return train(model_of(), parts, hook=(weft.torch.Canonical(parts), weft.torch.canonical_hook), **options)


def rank_canonical():
    _, size = start()
    model = canonical(4 // size)
    print("bits", bits_of(model), bits_of(canonical(8 // size, gradient_as_bucket_view=True, bucket_cap_mb=0.1)), flush=True)
    if size == 1:
        print("of three:", bits_of(canonical(12)), flush=True)
    if size == 2:
        close(train(model_of(), 1, optimizer=torch.optim.SGD), canonical(2, optimizer=torch.optim.SGD), 1e-5)


def rank_canonical_of_three():
    start()
    print("of three:", bits_of(canonical(4)), flush=True)


def rank_canonical_misused():
    import weft.torch
    start()
    with pytest.raises(ValueError, match="micro_batches is 3, which is not a power of two"):
        weft.torch.Canonical(3)
    with pytest.raises(ValueError, match="micro_batches is 0"):
        weft.torch.Canonical(0)
    wrapped = DDP(model_of())
    wrapped.register_comm_hook(weft.torch.Canonical(2), weft.torch.canonical_hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="parameters changed after 1 of the 2 micro-batches"):
        for step in range(2):
            tokens, targets = batch_of(step)
            with wrapped.no_sync():
                torch.nn.functional.cross_entropy(wrapped(tokens), targets).backward()
            torch.nn.functional.cross_entropy(wrapped(tokens), targets).backward()
            optimizer.step()


def bits(ended, word="bits "):
    lines = {line.split(word)[1] for line in ended.out.splitlines() if word in line}
    assert len(lines) == 1, ended.out  # all ranks have the same
    return lines.pop()


@pytest.mark.parametrize("ranks", [2, 3])
def test_training(job, ranks):
    first = bits(job(rank_trains, ranks))
    if ranks == 2:
        assert bits(job(rank_trains, ranks)) == first


def test_buckets(job):
    job(rank_takes_buckets)


def test_the_same_bits_on_any_number_of_ranks(job):
    alone = job(rank_canonical, 1)
    assert bits(job(rank_canonical, 2)) == bits(alone)
    assert bits(job(rank_canonical, 4)) == bits(alone)
    assert bits(job(rank_canonical_of_three, 3), "of three:") == bits(alone, "of three:")


def test_the_canonical_hook_misused(job):
    job(rank_canonical_misused)
