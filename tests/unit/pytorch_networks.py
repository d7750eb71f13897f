# SPDX-License-Identifier: Apache-2.0
"""A GPT, a Llama, an MLP and a BERT in PyTorch, as small as tests want them, written from their formulas: for model_pytorch.py and
training_pytorch.py. Weights and tokens come from the streams of base/random.h, written again here."""
import math

import torch
import torch.nn.functional as F

LAYERS, WIDTH, CONTEXT, VOCABULARY, SEQUENCE = 2, 16, 12, 29, 9
GPT_HEADS, LLAMA_HEADS, LLAMA_KV_HEADS, LLAMA_HIDDEN, LLAMA_BASE = 2, 4, 2, 24, 100.0
MLP_WIDTH, MLP_WINDOW, MLP_HIDDEN = 6, 4, 20
BERT_HEADS, BERT_CLASSES = 2, 3
PREDICTIONS = (SEQUENCE * 15 + 99) // 100
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
        mean = gain if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight", "norm.weight", "LayerNorm.weight")) else 0.0
        values = [mean + deviation * normal(stream, i) for i in range(math.prod(shape))]
        weights[name] = torch.tensor(values, dtype=dtype).view(shape).requires_grad_()
    return weights


def make_numbers(stream, count, below):
    return torch.tensor([(bits(stream, i) * below) >> 64 for i in range(count)])


def make_tokens(stream, count):
    return make_numbers(stream, count, VOCABULARY)


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


def bert_shapes(classes):
    shapes = {"word_embeddings.weight": (VOCABULARY, WIDTH), "position_embeddings.weight": (CONTEXT, WIDTH),
              "token_type_embeddings.weight": (2, WIDTH), "LayerNorm.weight": (WIDTH,), "LayerNorm.bias": (WIDTH,)}
    shapes = {f"bert.embeddings.{name}": shape for name, shape in shapes.items()}
    for layer in range(LAYERS):
        block = {}
        for name, outputs, inputs in (("attention.self.query", WIDTH, WIDTH), ("attention.self.key", WIDTH, WIDTH),
                                      ("attention.self.value", WIDTH, WIDTH), ("attention.output.dense", WIDTH, WIDTH),
                                      ("attention.output.LayerNorm", WIDTH, 0),
                                      ("intermediate.dense", 4 * WIDTH, WIDTH), ("output.dense", WIDTH, 4 * WIDTH),
                                      ("output.LayerNorm", WIDTH, 0)):
            block[name + ".weight"] = (outputs, inputs) if inputs else (outputs,)
            block[name + ".bias"] = (outputs,)
        shapes.update({f"bert.encoder.layer.{layer}.{name}": shape for name, shape in block.items()})
    shapes.update({"bert.pooler.dense.weight": (WIDTH, WIDTH), "bert.pooler.dense.bias": (WIDTH,)})
    if classes:
        shapes.update({"classifier.weight": (classes, WIDTH), "classifier.bias": (classes,)})
        return shapes
    shapes.update({"cls.predictions.transform.dense.weight": (WIDTH, WIDTH),
                   "cls.predictions.transform.dense.bias": (WIDTH,),
                   "cls.predictions.transform.LayerNorm.weight": (WIDTH,),
                   "cls.predictions.transform.LayerNorm.bias": (WIDTH,), "cls.predictions.bias": (VOCABULARY,),
                   "cls.seq_relationship.weight": (2, WIDTH), "cls.seq_relationship.bias": (2,)})
    return shapes


def bert_batch(stream, batch, classes):
    """The samples that the tests make from the same streams: some padding, and targets that are not used."""
    lengths = 3 + make_numbers(stream + 1, batch, SEQUENCE - 2)
    positions = torch.stack([make_numbers(stream + 2 + 10 * b, PREDICTIONS, int(lengths[b])) for b in range(batch)])
    targets = make_numbers(stream + 3, batch * PREDICTIONS, VOCABULARY + 9).view(batch, PREDICTIONS)
    return {"tokens": make_tokens(stream, batch * SEQUENCE).view(batch, SEQUENCE), "lengths": lengths,
            "segments": make_numbers(stream + 4, batch * SEQUENCE, 2).view(batch, SEQUENCE), "positions": positions,
            "targets": torch.where(targets < VOCABULARY, targets, -100 * torch.ones_like(targets)),
            "labels": make_numbers(stream + 5, batch, classes or 2)}


def bert_loss(weights, batch, classes):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)

    def linear(x, name):
        return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])

    name = "bert.embeddings."
    x = norm(weights[name + "word_embeddings.weight"][batch["tokens"]] +
             weights[name + "position_embeddings.weight"][:SEQUENCE] +
             weights[name + "token_type_embeddings.weight"][batch["segments"]], name + "LayerNorm")
    is_padding = (torch.arange(SEQUENCE) >= batch["lengths"][:, None])[:, None, None, :]
    for layer in range(LAYERS):
        name = f"bert.encoder.layer.{layer}."
        q, k, v = [heads(linear(x, f"{name}attention.self.{part}"), BERT_HEADS) for part in ("query", "key", "value")]
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        out = scores.masked_fill(is_padding, float("-inf")).softmax(-1) @ v
        out = out.transpose(1, 2).reshape(len(q), SEQUENCE, -1)
        x = norm(x + linear(out, name + "attention.output.dense"), name + "attention.output.LayerNorm")
        hidden = F.gelu(linear(x, name + "intermediate.dense"))
        x = norm(x + linear(hidden, name + "output.dense"), name + "output.LayerNorm")
    pooled = linear(x[:, 0], "bert.pooler.dense").tanh()
    if classes:
        return F.cross_entropy(linear(pooled, "classifier"), batch["labels"])
    chosen = x[torch.arange(len(x))[:, None], batch["positions"]]
    chosen = norm(F.gelu(linear(chosen, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm")
    logits = F.linear(chosen, weights["bert.embeddings.word_embeddings.weight"], weights["cls.predictions.bias"])
    return (F.cross_entropy(logits.view(-1, VOCABULARY), batch["targets"].view(-1), ignore_index=-100) +
            F.cross_entropy(linear(pooled, "cls.seq_relationship"), batch["labels"]))


BERTS = {"bert": 0, "bert_classes": BERT_CLASSES}
NETWORKS = {"gpt": (gpt_shapes(), gpt), "llama": (llama_shapes(), llama), "mlp": (mlp_shapes(), mlp)}
