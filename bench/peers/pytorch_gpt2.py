#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of GPT-2 124M in PyTorch: forward, backward, clipping, AdamW on random tokens. Prints a line of JSON.

For bench/train_steps, which sets what makes PyTorch fast here (the environment is listed there). Two ranks (WORLD_SIZE=2) run
DistributedDataParallel over Gloo.
"""
import argparse
import json
import math
import os
import resource
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.attn_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        batch, sequence, _ = x.shape
        q, k, v = [part.view(batch, sequence, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(WIDTH, 2)]
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(WIDTH // HEADS)) + mask
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, sequence, WIDTH)
        x = x + self.attn_proj(out)
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):
        sequence = tokens.shape[1]
        mask = torch.full((sequence, sequence), float("-inf")).triu(1)
        x = self.wte(tokens) + self.wpe.weight[:sequence]
        for block in self.blocks:
            x = block(x, mask)
        return F.cross_entropy(F.linear(self.ln_f(x), self.wte.weight).view(-1, VOCABULARY), targets.view(-1))


def step_arguments(parser):
    """The arguments of a peer whose steps are timed, and `ranks`, after PyTorch is set up for them."""
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm", type=int, default=3)
    chosen = parser.parse_args()
    chosen.ranks = int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(1)
    return chosen


def time_steps(chosen, model, batch):
    """Train on a rank's part of a batch, the arguments of a model that returns its loss, and print the median step."""
    step_model = model
    if chosen.ranks > 1:
        torch.distributed.init_process_group("gloo")
        step_model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95))
    seconds = []
    for _ in range(chosen.warm + chosen.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=chosen.precision == "bf16"):
            loss = step_model(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        seconds.append(time.perf_counter() - begin)
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps({"step_ms": statistics.median(seconds[chosen.warm:]) * 1e3, "loss": loss.item(),
                          "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                          "torch": torch.__version__, "kernels": torch.backends.cpu.get_cpu_capability()
                          if hasattr(torch.backends, "cpu") else os.environ.get("ATEN_CPU_CAPABILITY", "")}), flush=True)


def main():
    chosen = step_arguments(argparse.ArgumentParser())
    tokens = torch.randint(VOCABULARY, (chosen.batch // chosen.ranks, chosen.sequence + 1))
    time_steps(chosen, Gpt2(), (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))


if __name__ == "__main__":
    main()
