/* SPDX-License-Identifier: Apache-2.0 */
/** Weights and moments as named tensors, the form in which checkpoints take and give them. */
#ifndef WEFT_TRAINING_PARALLEL_TENSOR_LIST_H
#define WEFT_TRAINING_PARALLEL_TENSOR_LIST_H

#include "training/checkpoint/safetensors.h"
#include "training/model/model.h"

/** Where they are: flat arrays, as `description` lays them out. */
struct state_arrays {
    const struct model_description *description;
    float *parameters;
    float *first_moments;  /**< NULL: the optimizer has none */
    float *second_moments; /**< NULL: the optimizer has none */
};

struct tensor_list {
    struct named_tensor *tensors; /**< their data lies in the arrays */
    char (*names)[MODEL_NAME_BYTES + 16];
    size_t count;
};

/**
 * The weights under their own names, and the moments as "NAME.exp_avg", "NAME.exp_avg_sq" or "NAME.momentum_buffer",
 * PyTorch's names, as if the arrays held all of them. Close both, whatever this returns.
 */
weft_status tensor_lists_open(struct tensor_list *weights, struct tensor_list *moments,
                              const struct state_arrays *arrays, struct error *error);

/**
 * Of moments that tensor_lists_open() listed, keep what elements [first, first + count) of the flat array hold: pieces,
 * with data from the beginning of each of the arrays, which are those ranges alone.
 */
void tensor_list_cut(struct tensor_list *moments, const struct state_arrays *arrays, size_t first, size_t count);

/** Keep the tensors i for which `writer_of[i]` is `writer`. */
void tensor_list_select(struct tensor_list *list, const unsigned *writer_of, unsigned writer);

void tensor_list_close(struct tensor_list *list);

#endif
