/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multilayer perceptron over a window of tokens, after Bengio et al. 2003, "A neural probabilistic language model":
 *
 *     x = table[token]
 *     first hidden layer:  x = gelu(weight' (norm(x) of the last `window` tokens, one after another) + bias)
 *     each further one:    x = gelu(weight' norm(x) + bias)
 *     logits = head norm(x)                       the head has a matrix of its own
 *
 * It differs from theirs by later findings: GELU instead of tanh, a norm before each product, any number of hidden
 * layers, and no direct products from the embeddings to the logits. Tokens before the window have no influence. Rows
 * before the first token of a sequence are 0.
 */
#include "training/model/networks/networks.h"

#include <math.h>
#include <stdio.h>

static void mlp_complete(struct model_shape *shape)
{
    if (!shape->hidden)
        shape->hidden = 4 * shape->width;
    if (shape->norm_epsilon == 0)
        shape->norm_epsilon = 1e-5;
}

static weft_status mlp_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct embedding embedding = {
        .vocabulary = shape->vocabulary, .context = shape->context, .width = shape->width};
    const struct head head = {.norm = {.width = shape->hidden, .epsilon = shape->norm_epsilon},
                              .vocabulary = shape->vocabulary};
    size_t table;
    weft_status status = embedding_add(description, &embedding, 0.02,
                                       &(struct embedding_names){.table = "embedding.weight"}, &table, error);
    for (size_t i = 0; status == WEFT_OK && i < shape->layers; i++) {
        const struct dense dense = {.norm = {.width = i ? shape->hidden : shape->width, .epsilon = shape->norm_epsilon},
                                    .window = i ? 1 : shape->window};
        char prefix[40];
        snprintf(prefix, sizeof prefix, "hidden.%zu.", i);
        /* Sums of so many normed elements begin with a deviation of 1. */
        status = dense_add(description, &dense, shape->hidden, prefix,
                           1 / sqrt((double)(dense.window * dense.norm.width)), error);
    }
    if (status == WEFT_OK)
        status = head_add(description, &head, 0.02, "norm.weight", "norm.bias", "head.weight", NO_PARAMETER, error);
    return status;
}

static const char *const numbers[] = {"hidden", "window", NULL};

const struct network mlp_network = {
    .kind = "mlp",
    .numbers = numbers,
    .complete = mlp_complete,
    .describe = mlp_describe,
};
