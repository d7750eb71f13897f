# SPDX-License-Identifier: Apache-2.0
"""A GPT and a Llama in PyTorch, as small as tests want them, written from their formulas: for model_pytorch.py and
training_pytorch.py. Weights and tokens come from the streams of base/random.h, written again here."""
import math

import torch
import torch.nn.functional as F

LAYERS, WIDTH, CONTEXT, VOCABULARY, SEQUENCE = 2, 16, 12, 29, 9
GPT_HEADS, LLAMA_HEADS, LLAMA_KV_HEADS, LLAMA_HIDDEN, LLAMA_BASE = 2, 4, 2, 24, 100.0
MLP_WIDTH, MLP_WINDOW, MLP_HIDDEN = 6, 4, 20
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


def make_weights(shapes, deviation, gain, dtype):
    """Stream i makes the values of tensor i; those of gains have the mean `gain`."""
    weights = {}
    for stream, (name, shape) in enumerate(shapes.items()):
        mean = gain if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "norm.weight")) else 0.0
        values = [mean + deviation * normal(stream, i) for i in range(math.prod(shape))]
        weights[name] = torch.tensor(values, dtype=dtype).view(shape).requires_grad_()
    return weights


def make_tokens(stream, count):
    return torch.tensor([(bits(stream, i) * VOCABULARY) >> 64 for i in range(count)])


seen = torch.tril(torch.ones(SEQUENCE, SEQUENCE)).bool()


def attention(q, k, v):
    """Of batch x heads x sequence x head width; back in rows."""
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    out = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    return out.transpose(1, 2).reshape(len(q), SEQUENCE, -1)


def heads(x, count):
    return x.view(len(x), SEQUENCE, count, -1).transpose(1, 2)


def gpt_shapes():
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
    return shapes


def gpt(weights, inputs):
    """Logits of inputs, of batch x SEQUENCE."""

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-5)

    def linear(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    x = weights["wte.weight"][inputs] + weights["wpe.weight"][:SEQUENCE]
    for layer in range(LAYERS):
        name = f"h.{layer}."
        q, k, v = [heads(part, GPT_HEADS) for part in linear(norm(x, name + "ln_1"), name + "attn.c_attn").split(WIDTH, 2)]
        x = x + linear(attention(q, k, v), name + "attn.c_proj")
        hidden = F.gelu(linear(norm(x, name + "ln_2"), name + "mlp.c_fc"), approximate="tanh")
        x = x + linear(hidden, name + "mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].t()


def llama_shapes():
    head_width = WIDTH // LLAMA_HEADS
    of_keys = LLAMA_KV_HEADS * head_width
    shapes = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        block = {"input_layernorm.weight": (WIDTH,),
                 "self_attn.q_proj.weight": (WIDTH, WIDTH), "self_attn.k_proj.weight": (of_keys, WIDTH),
                 "self_attn.v_proj.weight": (of_keys, WIDTH), "self_attn.o_proj.weight": (WIDTH, WIDTH),
                 "post_attention_layernorm.weight": (WIDTH,),
                 "mlp.gate_proj.weight": (LLAMA_HIDDEN, WIDTH), "mlp.up_proj.weight": (LLAMA_HIDDEN, WIDTH),
                 "mlp.down_proj.weight": (WIDTH, LLAMA_HIDDEN)}
        shapes.update({f"model.layers.{layer}.{name}": shape for name, shape in block.items()})
    shapes.update({"model.norm.weight": (WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)})
    return shapes


def llama(weights, inputs):
    """Logits of inputs, of batch x SEQUENCE."""
    head_width = WIDTH // LLAMA_HEADS

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weights[name + ".weight"]

    def linear(x, name):
        return F.linear(x, weights[name + ".weight"])

    frequencies = LLAMA_BASE ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angles = torch.outer(torch.arange(SEQUENCE, dtype=torch.float64), frequencies).repeat(1, 2)

    def turn(x):
        a, b = x.chunk(2, -1)
        return x * angles.cos().to(x.dtype) + torch.cat((-b, a), -1) * angles.sin().to(x.dtype)

    x = weights["model.embed_tokens.weight"][inputs]
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        n = norm(x, name + "input_layernorm")
        q = turn(heads(linear(n, name + "self_attn.q_proj"), LLAMA_HEADS))
        k = turn(heads(linear(n, name + "self_attn.k_proj"), LLAMA_KV_HEADS))
        v = heads(linear(n, name + "self_attn.v_proj"), LLAMA_KV_HEADS)
        group = LLAMA_HEADS // LLAMA_KV_HEADS
        out = attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        x = x + linear(out, name + "self_attn.o_proj")
        n = norm(x, name + "post_attention_layernorm")
        x = x + linear(F.silu(linear(n, name + "mlp.gate_proj")) * linear(n, name + "mlp.up_proj"), name + "mlp.down_proj")
    return linear(norm(x, "model.norm"), "lm_head")


def mlp_shapes():
    shapes = {"embedding.weight": (VOCABULARY, MLP_WIDTH)}
    for layer in range(LAYERS):
        inputs_of = MLP_HIDDEN if layer else MLP_WIDTH
        block = {"norm.weight": (inputs_of,), "norm.bias": (inputs_of,),
                 "weight": (inputs_of * (1 if layer else MLP_WINDOW), MLP_HIDDEN), "bias": (MLP_HIDDEN,)}
        shapes.update({f"hidden.{layer}.{name}": shape for name, shape in block.items()})
    shapes.update({"norm.weight": (MLP_HIDDEN,), "norm.bias": (MLP_HIDDEN,), "head.weight": (VOCABULARY, MLP_HIDDEN)})
    return shapes


def mlp(weights, inputs):
    """Logits of inputs, of batch x SEQUENCE."""
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[name + "norm.weight"], weights[name + "norm.bias"], 1e-5)

    def window(x):
        """Row t becomes rows t - MLP_WINDOW + 1 to t, one after another, with zeros before the first."""
        before = F.pad(x, (0, 0, MLP_WINDOW - 1, 0))
        return torch.cat([before[:, i:i + SEQUENCE] for i in range(MLP_WINDOW)], -1)

    x = weights["embedding.weight"][inputs]
    for layer in range(LAYERS):
        name = f"hidden.{layer}."
        n = norm(x, name)
        n = n if layer else window(n)
        x = F.gelu(n @ weights[name + "weight"] + weights[name + "bias"], approximate="tanh")
    return F.linear(norm(x, ""), weights["head.weight"])


NETWORKS = {"gpt": (gpt_shapes(), gpt), "llama": (llama_shapes(), llama), "mlp": (mlp_shapes(), mlp)}
