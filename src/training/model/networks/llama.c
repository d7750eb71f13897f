/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Llama's architecture (Touvron et al. 2023, "LLaMA: open and efficient foundation language models"; grouped queries as
 * in Llama 2):
 *
 *     x = embed_tokens[token]
 *     each block:  x = x + o_proj(attention(rotary(q_proj(n)), rotary(k_proj(n)), v_proj(n)))   n = rms_norm(x)
 *                  x = x + down_proj(silu(gate_proj(n)) up_proj(n))                             n = rms_norm(x)
 *     logits = lm_head(rms_norm(x))               the head may be the embedding table
 *
 * Weights of linear layers lie as [outputs, inputs], named as in the published safetensors.
 */
#include "training/model/networks/networks.h"

#include <math.h>
#include <stdio.h>

#define HIDDEN_MULTIPLE 32

static void llama_complete(struct model_shape *shape)
{
    if (!shape->kv_heads)
        shape->kv_heads = shape->heads;
    if (!shape->hidden) /* as many weights as two matrices of 4 width would have */
        shape->hidden = (shape->width * 8 / 3 + HIDDEN_MULTIPLE - 1) / HIDDEN_MULTIPLE * HIDDEN_MULTIPLE;
    if (shape->norm_epsilon == 0)
        shape->norm_epsilon = 1e-5;
    if (shape->rotary_base == 0)
        shape->rotary_base = 10000;
}

static weft_status llama_check(const struct model_shape *shape, struct error *error)
{
    weft_status status = transformer_check(shape, error);
    if (status != WEFT_OK)
        return status;
    if (shape->width / shape->heads % 2 != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "heads of %zu elements (width %zu in %zu heads) cannot be turned in pairs; make it even",
                         shape->width / shape->heads, shape->width, shape->heads);
    return WEFT_OK;
}

static weft_status llama_add_block(struct model_description *description, size_t number, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct norm norm = {.width = shape->width, .epsilon = shape->norm_epsilon};
    const struct attention_layer attention = {.norm = norm,
                                              .heads = shape->heads,
                                              .kv_heads = shape->kv_heads,
                                              .head_width = shape->width / shape->heads,
                                              .rotary_base = shape->rotary_base};
    const struct feed_forward feed_forward = {.norm = norm, .hidden = shape->hidden};
    const double deviation = 0.02, last_deviation = deviation / sqrt(2.0 * (double)shape->layers);
    char prefix[40];
    snprintf(prefix, sizeof prefix, "model.layers.%zu.", number);
    weft_status status = attention_add(description, &attention,
                                       &(struct attention_names){.prefix = prefix,
                                                                 .norm_gain = "input_layernorm.weight",
                                                                 .q = "self_attn.q_proj.weight",
                                                                 .k = "self_attn.k_proj.weight",
                                                                 .v = "self_attn.v_proj.weight",
                                                                 .out = "self_attn.o_proj.weight"},
                                       true, deviation, last_deviation, error);
    if (status == WEFT_OK)
        status = feed_forward_add(description, &feed_forward,
                                  &(struct feed_forward_names){.prefix = prefix,
                                                               .norm_gain = "post_attention_layernorm.weight",
                                                               .gate = "mlp.gate_proj.weight",
                                                               .up = "mlp.up_proj.weight",
                                                               .down = "mlp.down_proj.weight"},
                                  true, deviation, last_deviation, error);
    return status;
}

static weft_status llama_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct embedding embedding = {
        .vocabulary = shape->vocabulary, .context = shape->context, .width = shape->width};
    const struct head head = {.norm = {.width = shape->width, .epsilon = shape->norm_epsilon},
                              .vocabulary = shape->vocabulary};
    size_t table = NO_PARAMETER;
    weft_status status = llama_check(shape, error);
    if (status == WEFT_OK)
        status = embedding_add(description, &embedding, 0.02,
                               &(struct embedding_names){.table = "model.embed_tokens.weight"}, &table, error);
    for (size_t i = 0; status == WEFT_OK && i < shape->layers; i++)
        status = llama_add_block(description, i, error);
    if (status == WEFT_OK)
        status = head_add(description, &head, 0.02, "model.norm.weight", NULL, shape->untied ? "lm_head.weight" : NULL,
                          table, error);
    return status;
}

static const char *const numbers[] = {"heads", "kv_heads", "hidden", "rotary_base", "untied", NULL};

const struct network llama_network = {
    .kind = "llama",
    .numbers = numbers,
    .complete = llama_complete,
    .describe = llama_describe,
};
