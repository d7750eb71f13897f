/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2's architecture (Radford et al. 2019, "Language models are unsupervised multitask learners"):
 *
 *     x = wte[token] + wpe[position]
 *     each block:  x = x + c_proj(attention(c_attn(ln_1(x))))
 *                  x = x + c_proj(gelu(c_fc(ln_2(x))))
 *     logits = ln_f(x) wte'                       the head is the embedding table
 *
 * Weights of linear layers lie as [inputs, outputs], as in the published safetensors.
 */
#include "training/model/networks/networks.h"

#include <math.h>
#include <stdio.h>

static void gpt_complete(struct model_shape *shape)
{
    if (!shape->kv_heads)
        shape->kv_heads = shape->heads;
    if (!shape->hidden)
        shape->hidden = 4 * shape->width;
    if (shape->norm_epsilon == 0)
        shape->norm_epsilon = 1e-5;
}

static weft_status gpt_add_block(struct model_description *description, size_t number, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct norm norm = {.width = shape->width, .epsilon = shape->norm_epsilon};
    const struct attention_layer attention = {
        .norm = norm, .heads = shape->heads, .kv_heads = shape->kv_heads, .head_width = shape->width / shape->heads};
    const struct feed_forward feed_forward = {.norm = norm, .hidden = shape->hidden};
    /* The last products of the branches: there are two a block, whose sums would grow. */
    const double deviation = 0.02, last_deviation = deviation / sqrt(2.0 * (double)shape->layers);
    char prefix[40];
    snprintf(prefix, sizeof prefix, "h.%zu.", number);
    weft_status status = attention_add(description, &attention,
                                       &(struct attention_names){.prefix = prefix,
                                                                 .norm_gain = "ln_1.weight",
                                                                 .norm_bias = "ln_1.bias",
                                                                 .qkv = "attn.c_attn.weight",
                                                                 .qkv_bias = "attn.c_attn.bias",
                                                                 .out = "attn.c_proj.weight",
                                                                 .out_bias = "attn.c_proj.bias"},
                                       false, deviation, last_deviation, error);
    if (status == WEFT_OK)
        status = feed_forward_add(description, &feed_forward,
                                  &(struct feed_forward_names){.prefix = prefix,
                                                               .norm_gain = "ln_2.weight",
                                                               .norm_bias = "ln_2.bias",
                                                               .up = "mlp.c_fc.weight",
                                                               .up_bias = "mlp.c_fc.bias",
                                                               .down = "mlp.c_proj.weight",
                                                               .down_bias = "mlp.c_proj.bias"},
                                  false, deviation, last_deviation, error);
    return status;
}

static weft_status gpt_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct embedding embedding = {
        .vocabulary = shape->vocabulary, .context = shape->context, .width = shape->width};
    const struct head head = {.norm = {.width = shape->width, .epsilon = shape->norm_epsilon},
                              .vocabulary = shape->vocabulary};
    size_t table = NO_PARAMETER;
    weft_status status = transformer_check(shape, error);
    if (status == WEFT_OK && shape->kv_heads != shape->heads)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a gpt has as many kv_heads as heads, not %zu and %zu; a llama may have fewer",
                         shape->kv_heads, shape->heads);
    if (status == WEFT_OK)
        status =
            embedding_add(description, &embedding, 0.02,
                          &(struct embedding_names){.table = "wte.weight", .positions = "wpe.weight"}, &table, error);
    for (size_t i = 0; status == WEFT_OK && i < shape->layers; i++)
        status = gpt_add_block(description, i, error);
    if (status == WEFT_OK)
        status = head_add(description, &head, 0, "ln_f.weight", "ln_f.bias", NULL, table, error);
    return status;
}

static const char *const numbers[] = {"heads", "kv_heads", "hidden", NULL};

const struct network gpt_network = {
    .kind = "gpt",
    .numbers = numbers,
    .complete = gpt_complete,
    .describe = gpt_describe,
};
