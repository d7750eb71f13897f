/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GPT-2's architecture (Radford et al. 2019, "Language models are unsupervised multitask learners"): the order of its
 * parameters, for the files gpt*.c only.
 *
 *     x = wte[token] + wpe[position]
 *     each block:  x = x + c_proj(attention(c_attn(ln_1(x))))
 *                  x = x + c_proj(gelu(c_fc(ln_2(x))))
 *     logits = ln_f(x) wte'                       the head is the embedding table
 *
 * Weights of linear layers lie as [inputs, outputs], as in the published safetensors.
 */
#ifndef WEFT_MODEL_GPT_H
#define WEFT_MODEL_GPT_H

#include "model/operations.h"

/* Numbers of parameters in the description: those before the blocks, one block's, those behind. */
enum { GPT_WTE, GPT_WPE, GPT_BLOCKS };
enum {
    GPT_LN_1_GAIN,
    GPT_LN_1_BIAS,
    GPT_ATTN_WEIGHT,
    GPT_ATTN_BIAS,
    GPT_ATTN_PROJ_WEIGHT,
    GPT_ATTN_PROJ_BIAS,
    GPT_LN_2_GAIN,
    GPT_LN_2_BIAS,
    GPT_FC_WEIGHT,
    GPT_FC_BIAS,
    GPT_FC_PROJ_WEIGHT,
    GPT_FC_PROJ_BIAS,
    GPT_BLOCK_PARAMETERS,
};
enum { GPT_LN_F_GAIN, GPT_LN_F_BIAS };

/** The number of parameter `which` of block `layer`; behind the last block for layer == layers. */
static inline size_t gpt_parameter(size_t layer, size_t which)
{
    return GPT_BLOCKS + layer * GPT_BLOCK_PARAMETERS + which;
}

weft_status gpt_describe(struct model_description *description, struct error *error);
struct model_initial gpt_initial(const struct model_description *description, const struct model_parameter *parameter);
double gpt_flops_per_token(const struct model_description *description, size_t sequence);

#endif
