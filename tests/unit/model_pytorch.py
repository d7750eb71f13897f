#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of model_pytorch_test.c with PyTorch, in double precision: loss and gradients of small networks.

Run: tests/unit/model_pytorch.py (python3-torch).
"""
import torch
import torch.nn.functional as F

from pytorch_networks import (BERTS, NETWORKS, SEQUENCE, VOCABULARY, bert_batch, bert_loss, bert_shapes, make_tokens,
                              make_weights)

BATCH = 2


def print_expected(network, weights, loss):
    loss.backward()
    print(f"#define {network.upper()}_LOSS {loss.item():.15g}")
    print(f"static const struct expected expected_{network}[] = {{")
    for name, weight in weights.items():
        gradient = weight.grad.flatten()
        wave = torch.cos(torch.arange(len(gradient), dtype=torch.float64))
        print(f'    {{"{name}", {gradient.norm().item():.15g}, {(gradient * wave).sum().item():.15g}}},')
    print("};")


tokens = make_tokens(99, BATCH * SEQUENCE + 1)
for network, (shapes, forward) in NETWORKS.items():
    weights = make_weights(shapes, 0.3, 0.0, torch.float64)
    loss = F.cross_entropy(forward(weights, tokens[:-1].view(BATCH, SEQUENCE)).view(-1, VOCABULARY), tokens[1:])
    print_expected(network, weights, loss)
for network, classes in BERTS.items():
    weights = make_weights(bert_shapes(classes), 0.3, 0.0, torch.float64)
    print_expected(network, weights, bert_loss(weights, bert_batch(300, BATCH, classes), classes))
