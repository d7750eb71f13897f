#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the table of model_pytorch_test.c with PyTorch, in double precision: loss and gradients of a small GPT-2.

Weights and tokens come from the streams of base/random.h, written anew here. Run: tests/unit/model_pytorch.py (python3-torch).
"""
import math

import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH, SEQUENCE = 2, 2, 16, 12, 29, 2, 9
MASK = (1 << 64) - 1


def bits(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(seed, index):
    return (bits(seed, index) >> 11) * 2.0**-53


def normal(seed, index):
    u, v = 1.0 - uniform(seed, 2 * index), uniform(seed, 2 * index + 1)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(6.283185307179586476925 * v)


shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
for layer in range(LAYERS):
    block = {"ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,),
             "attn.c_attn.weight": (WIDTH, 3 * WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
             "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
             "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
             "mlp.c_fc.weight": (WIDTH, 4 * WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
             "mlp.c_proj.weight": (4 * WIDTH, WIDTH), "mlp.c_proj.bias": (WIDTH,)}
    shapes.update({f"h.{layer}.{name}": shape for name, shape in block.items()})
shapes.update({"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)})

weights = {}
for stream, (name, shape) in enumerate(shapes.items()):
    values = [0.3 * normal(stream, i) for i in range(math.prod(shape))]
    weights[name] = torch.tensor(values, dtype=torch.float64).view(shape).requires_grad_()
tokens = torch.tensor([(bits(99, i) * VOCABULARY) >> 64 for i in range(BATCH * SEQUENCE + 1)])


def norm(x, name):
    return F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-5)


def linear(x, name):
    return x @ weights[name + ".weight"] + weights[name + ".bias"]


x = weights["wte.weight"][tokens[:-1].view(BATCH, SEQUENCE)] + weights["wpe.weight"][:SEQUENCE]
seen = torch.tril(torch.ones(SEQUENCE, SEQUENCE)).bool()
for layer in range(LAYERS):
    name = f"h.{layer}."
    parts = linear(norm(x, name + "ln_1"), name + "attn.c_attn").split(WIDTH, 2)
    q, k, v = [part.view(BATCH, SEQUENCE, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts]
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(WIDTH // HEADS)
    attended = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    x = x + linear(attended.transpose(1, 2).reshape(BATCH, SEQUENCE, WIDTH), name + "attn.c_proj")
    x = x + linear(F.gelu(linear(norm(x, name + "ln_2"), name + "mlp.c_fc"), approximate="tanh"), name + "mlp.c_proj")
loss = F.cross_entropy((norm(x, "ln_f") @ weights["wte.weight"].t()).view(-1, VOCABULARY), tokens[1:])
loss.backward()

print(f"static const double expected_loss = {loss.item():.15g};")
for name, weight in weights.items():
    gradient = weight.grad.flatten()
    wave = torch.cos(torch.arange(len(gradient), dtype=torch.float64))
    print(f'    {{"{name}", {gradient.norm().item():.15g}, {(gradient * wave).sum().item():.15g}}},')
