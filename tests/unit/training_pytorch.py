#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of training_pytorch_test.c with PyTorch in single precision: the loss of each of 50 steps of AdamW.

Run: tests/unit/training_pytorch.py (python3-torch).
"""
import math

import torch
import torch.nn.functional as F

from pytorch_networks import NETWORKS, SEQUENCE, VOCABULARY, make_tokens, make_weights

STEPS, WARMUP, PEAK, FLOOR = 50, 5, 1e-2, 1e-3
BATCH, BATCHES = 4, 4  # sequences; read in turns
CLIP = 1.0


def rate_at(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return FLOOR + 0.5 * (PEAK - FLOOR) * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


for network in "gpt", "llama":
    shapes, forward = NETWORKS[network]
    weights = make_weights(shapes, 0.1, 1.0, torch.float32)
    matrices = [weight for weight in weights.values() if weight.dim() > 1]
    others = [weight for weight in weights.values() if weight.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), eps=1e-8)
    print(f"static const double {network}_losses[STEPS] = {{")
    for step in range(STEPS):
        tokens = make_tokens(200 + step % BATCHES, BATCH * SEQUENCE + 1)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        logits = forward(weights, tokens[:-1].view(BATCH, SEQUENCE))
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        print(f"    {loss.item():.8g},")
    print("};")
