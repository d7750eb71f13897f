# SPDX-License-Identifier: Apache-2.0
"""A GPT in plain PyTorch learns the bytes of a text under DistributedDataParallel, whose gradients Weft or Gloo sums.

    weft run -n 2 -- python3 examples/python/ddp_gpt.py --data data/bible.txt
    weft run -n 2 -- python3 examples/python/ddp_gpt.py --data data/bible.txt --backend gloo
"""
import argparse
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

try:
    from weft import progress, report  # curves on the platform's pages
except ImportError:
    def report(name, value, step): ...
    def progress(done, total): ...

SIZES = {  # layers, heads, width, vocabulary, block
    "tiny": (2, 4, 128, 256, 128),
    "10m": (6, 6, 384, 256, 256),
    "124m": (12, 12, 768, 50257, 1024),  # GPT-2; bytes use only the first 256 tokens
}


class Block(torch.nn.Module):
    """Causal attention and a feed-forward network, each with layer norm before and a residual around it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_feed = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.attention_out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.feed_in, self.feed_out = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def attend(self, x, mask):
        batch, time_steps, width = x.shape
        # (batch, heads, time, width of a head) each
        q, k, v = (part.view(batch, time_steps, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(q.shape[3]) + mask[:time_steps, :time_steps]
        return self.attention_out((scores.softmax(3) @ v).transpose(1, 2).reshape(batch, time_steps, width))

    def forward(self, x, mask):
        x = x + self.attend(self.norm_attention(x), mask)
        return x + self.feed_out(F.gelu(self.feed_in(self.norm_feed(x))))


class GPT(torch.nn.Module):
    """Tokens (batch, time) to scores of the next token (batch, time, vocabulary). The head shares the token embedding's weights."""

    def __init__(self, layers, heads, width, vocabulary, block):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(block, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)
        self.register_buffer("mask", torch.full((block, block), -math.inf).triu(1), persistent=False)
        for name, weights in self.named_parameters():
            if weights.dim() == 2:  # the two that end in the residual, smaller by their number
                residual = name.endswith(("attention_out.weight", "feed_out.weight"))
                torch.nn.init.normal_(weights, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(weights)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return F.linear(self.norm(x), self.tokens.weight)


def join(backend):
    """Join the process group that weft run or torchrun has started."""
    if backend == "weft":
        import weft.torch  # pylint: disable=import-outside-toplevel,unused-import
    elif "WEFT_RANK" in os.environ:  # Gloo's ranks meet at a port of this host
        os.environ.update(RANK=os.environ["WEFT_RANK"], WORLD_SIZE=os.environ["WEFT_RANKS"])
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29531")
    dist.init_process_group(backend)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", default="data/bible.txt", help="text; its last tenth is held out")
    parser.add_argument("--backend", choices=("weft", "gloo"), default="weft")
    parser.add_argument("--size", choices=SIZES, default="tiny", help="number of parameters")
    parser.add_argument("--block", type=int, help="tokens per sequence (default: of the size)")
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and step")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate after the warm-up")
    parser.add_argument("--report-every", type=int, default=10, help="steps between two reports")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", 1)), help="per rank")
    return parser.parse_args()


class Text:
    """Random blocks of a text's bytes, other ones on each rank."""

    def __init__(self, path, block):
        with open(path, "rb") as file:
            text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        held_out = len(text) // 10
        self.training, self.held_out, self.block = text[:-held_out], text[-held_out:], block
        if held_out <= block:
            raise SystemExit(f"{path} has {len(text)} bytes, too few for blocks of {block}, as its last tenth is held out: lower --block")
        self.random = torch.Generator().manual_seed(1000 + dist.get_rank())

    def batch(self, text, count):
        """Tokens and the tokens that follow them, (count, block) each."""
        starts = torch.randint(len(text) - self.block, (count, 1), generator=self.random)
        blocks = text[starts + torch.arange(self.block + 1)].long()
        return blocks[:, :-1], blocks[:, 1:]


def mean_over_ranks(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return value.item() / dist.get_world_size()


def held_out_loss(model, text, batch):
    with torch.no_grad():
        return sum(loss_of(model, *text.batch(text.held_out, batch)) for _ in range(10)) / 10


def loss_of(model, tokens, targets):
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def train(args, text, model, optimizer):
    """Rank 0 reports the mean loss of all ranks."""
    warm_up, rank, ranks = max(1, args.steps // 20), dist.get_rank(), dist.get_world_size()
    began, last = time.monotonic(), 0
    for step in range(1, args.steps + 1):
        share = min(step / warm_up, 1) * (0.55 + 0.45 * math.cos(math.pi * step / args.steps))
        for group in optimizer.param_groups:
            group["lr"] = args.rate * share
        loss = loss_of(model, *text.batch(text.training, args.batch))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()  # DistributedDataParallel averages the gradients meanwhile
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % args.report_every == 0 or step == args.steps:
            mean = mean_over_ranks(loss)
            speed = (step - last) * args.batch * text.block * ranks / (time.monotonic() - began)
            began, last = time.monotonic(), step
            if rank == 0:
                report("train/loss", mean, step)
                report("train/tokens_per_second", speed, step)
                progress(step, args.steps)
                print(f"step {step:5d}/{args.steps}  loss {mean:.4f}  {speed:8.0f} tokens/s", flush=True)


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)  # products with denormal numbers are slow
    join(args.backend)
    layers, heads, width, vocabulary, block = SIZES[args.size]
    block = args.block or block
    torch.manual_seed(1)
    text = Text(args.data, block)
    model = torch.nn.parallel.DistributedDataParallel(GPT(layers, heads, width, vocabulary, block))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.1)
    if dist.get_rank() == 0:
        count = sum(weights.numel() for weights in model.parameters())
        print(f"{count / 1e6:.2f}M parameters, {dist.get_world_size()} ranks of {args.threads} threads, {args.backend}, "
              f"{args.batch} x {block} tokens per rank and step", flush=True)
    train(args, text, model, optimizer)
    held_out = mean_over_ranks(held_out_loss(model, text, args.batch))
    if dist.get_rank() == 0:
        report("test/loss", held_out, args.steps)
        print(f"held-out text: loss {held_out:.4f}, {held_out / math.log(2):.3f} bits per byte")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
