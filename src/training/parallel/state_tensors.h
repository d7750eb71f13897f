/* SPDX-License-Identifier: Apache-2.0 */
/** Weights and optimizer moments as checkpoints need them: as named tensors, and gathered on rank 0. */
#ifndef WEFT_TRAINING_PARALLEL_STATE_TENSORS_H
#define WEFT_TRAINING_PARALLEL_STATE_TENSORS_H

#include "training/checkpoint/safetensors.h"
#include "training/model/model.h"
#include "training/parallel/partition.h"

/** Flat arrays that `description` lays out. */
struct state_arrays {
    const struct model_description *description;
    float *parameters;
    float *first_moments;  /**< NULL: the optimizer has none */
    float *second_moments; /**< NULL: the optimizer has none */
};

/* ---- named tensors ---- */

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
void tensor_list_close(struct tensor_list *list);

/**
 * Reduce the moments of tensor_lists_open() to the parts in elements [first, first + count) of the flat array. The
 * arrays of moments hold that range alone.
 */
void tensor_list_cut(struct tensor_list *moments, const struct state_arrays *arrays, size_t first, size_t count);

/** Keep the tensors i for which `writer_of[i]` is `writer`. */
void tensor_list_select(struct tensor_list *list, const unsigned *writer_of, unsigned writer);

/* ---- gathered on rank 0 ---- */

/**
 * The state with all moments on rank 0, which reads a checkpoint and scatters it, or gathers and writes it. Without
 * sharding `arrays` are each rank's own; otherwise rank 0 has memory for all moments while this is open.
 *
 *     gathered_state_open -> (fill in on rank 0) -> gathered_state_scatter -> gathered_state_close
 *     gathered_state_open -> gathered_state_gather -> (write on rank 0) -> gathered_state_close
 *
 * Opening can fail on rank 0 alone, so the ranks must agree on its status before the collective scatter or gather.
 */
struct gathered_state {
    struct state_arrays arrays; /**< on rank 0 with all moments; on other ranks the same as `shard` */
    struct state_arrays shard;  /**< the rank's own */
    float *memory;              /**< rank 0's for gathered moments; NULL: not needed */
};

weft_status gathered_state_open(struct gathered_state *state, const struct shards *shards,
                                const struct state_arrays *own, struct error *error);
void gathered_state_close(struct gathered_state *state);

/** Distribute rank 0's moments over the ranks' shards. Collective. */
weft_status gathered_state_scatter(const struct gathered_state *state, const struct shards *shards,
                                   struct error *error);

/** Collect the moments of all shards on rank 0. Collective. */
weft_status gathered_state_gather(const struct gathered_state *state, const struct shards *shards, struct error *error);

#endif
