#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of training_pytorch_test.c with PyTorch in single precision: the loss of each of 50 steps of AdamW.

Run: tests/unit/training_pytorch.py (python3-torch).
"""
import math

import torch
import torch.nn.functional as F

from pytorch_networks import (BERTS, NETWORKS, SEQUENCE, VOCABULARY, bert_batch, bert_loss, bert_shapes, make_tokens,
                              make_weights)

MICRO_BATCHES = 2  # a BERT's loss is the mean over those of micro-batches, whose numbers of targets differ
STEPS, WARMUP, PEAK, FLOOR = 50, 5, 1e-2, 1e-3
BATCH, BATCHES = 4, 4  # sequences; read in turns
CLIP = 1.0


def rate_at(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return FLOOR + 0.5 * (PEAK - FLOOR) * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def language_loss(forward, weights, turn):
    tokens = make_tokens(200 + turn, BATCH * SEQUENCE + 1)
    logits = forward(weights, tokens[:-1].view(BATCH, SEQUENCE))
    return F.cross_entropy(logits.view(-1, VOCABULARY), tokens[1:])


def print_losses(network, shapes, loss_of):
    weights = make_weights(shapes, 0.1, 1.0, torch.float32)
    matrices = [weight for weight in weights.values() if weight.dim() > 1]
    others = [weight for weight in weights.values() if weight.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), eps=1e-8)
    print(f"static const double {network}_losses[STEPS] = {{")
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        loss = loss_of(weights, step % BATCHES)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        print(f"    {loss.item():.8g},")
    print("};")


def mean_bert_loss(weights, turn, classes):
    batch = bert_batch(400 + 100 * turn, BATCH, classes)
    parts = [{name: array.chunk(MICRO_BATCHES)[i] for name, array in batch.items()} for i in range(MICRO_BATCHES)]
    return sum(bert_loss(weights, part, classes) for part in parts) / MICRO_BATCHES


for network in "gpt", "llama":
    shapes, forward = NETWORKS[network]
    print_losses(network, shapes, lambda weights, turn: language_loss(forward, weights, turn))
for network, classes in BERTS.items():
    print_losses(network, bert_shapes(classes),
                 lambda weights, turn: mean_bert_loss(weights, turn, classes))
