#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training steps of BERT in PyTorch, to pre-train: forward, backward, clipping, AdamW on random samples. Prints a line of JSON.

For bench/train_steps, as pytorch_gpt2.py is, whose steps these are. Both sides drop nothing, and compute logits of the masked tokens only.
"""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_gpt2 import step_arguments, time_steps

VOCABULARY, CONTEXT = 30522, 512
SIZES = {"bert-base": (12, 12, 768), "bert-large": (24, 16, 1024)}  # layers, heads, width


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.last_norm = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x, mask):
        batch, sequence, width = x.shape
        q, k, v = [part(x).view(batch, sequence, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value)]
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(width // self.heads)) + mask
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, sequence, width)
        x = self.norm(x + self.output(out))
        return self.last_norm(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers, heads, width):
        super().__init__()
        self.words, self.positions, self.segments = (nn.Embedding(rows, width) for rows in (VOCABULARY, CONTEXT, 2))
        self.norm, self.last_norm = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.pooler, self.transform, self.follows = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 2)
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, segments, lengths, positions, targets, labels):
        batch, sequence = tokens.shape
        mask = torch.zeros(batch, sequence).masked_fill(torch.arange(sequence) >= lengths[:, None], float("-inf"))[:, None, None]
        x = self.norm(self.words(tokens) + self.positions.weight[:sequence] + self.segments(segments))
        for block in self.blocks:
            x = block(x, mask)
        chosen = x[torch.arange(batch)[:, None], positions].view(-1, x.shape[-1])
        chosen = self.last_norm(F.gelu(self.transform(chosen)))
        return (F.cross_entropy(F.linear(chosen, self.words.weight, self.bias), targets.view(-1)) +
                F.cross_entropy(self.follows(self.pooler(x[:, 0]).tanh()), labels))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SIZES, default="bert-base")
    chosen = step_arguments(parser)
    batch, predictions = chosen.batch // chosen.ranks, (chosen.sequence * 15 + 99) // 100
    model = Bert(*SIZES[chosen.model])
    time_steps(chosen, model, (torch.randint(VOCABULARY, (batch, chosen.sequence)), torch.randint(2, (batch, chosen.sequence)),
                               torch.full((batch,), chosen.sequence), torch.randint(chosen.sequence, (batch, predictions)),
                               torch.randint(VOCABULARY, (batch, predictions)), torch.randint(2, (batch,))))


main()
