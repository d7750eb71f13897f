/* SPDX-License-Identifier: Apache-2.0 */
/**
 * State moved between the ranks of a layout (state_pieces.h), tensor by tensor. All functions are collective unless they
 * say otherwise.
 */
#ifndef WEFT_TRAINING_PARALLEL_STATE_TRANSFER_H
#define WEFT_TRAINING_PARALLEL_STATE_TRANSFER_H

#include "training/checkpoint/checkpoint.h"
#include "training/parallel/state_pieces.h"

/* ---- values ---- */

/**
 * Copy all values to the flat array `values` on rank 0, which `whole` lays out (a description of the whole network).
 * Other ranks may pass NULL for both. Errors: the library's.
 */
weft_status state_layout_gather_values(const struct state_layout *layout, const struct model_description *whole,
                                       float *values, struct error *error);

/** The inverse: copy rank 0's flat array to every rank's pieces. */
weft_status state_layout_scatter_values(const struct state_layout *layout, const struct model_description *whole,
                                        const float *values, struct error *error);

/* ---- from one layout to another ---- */

/**
 * Copy weights and moments from the pieces of one layout to those of another: of the same network, over the same
 * communicator. The memory of the two is different. A rank copies what it holds in both itself; the holders of the rest
 * take turns at sending it. Errors: the library's.
 */
weft_status state_layout_move(const struct state_layout *from, const struct state_layout *to, struct error *error);

/* ---- checkpoints ---- */

/**
 * Read values and moments from `checkpoint`, which rank 0 has opened (others pass NULL). Ranks that see the same
 * directory as `directory` (checkpoint_open_same(); NULL: does not look) read their pieces themselves. Rank 0 sends the
 * other ranks theirs, with memory for one tensor.
 *
 * Errors, the same on all ranks: DATA if a tensor is missing or has another shape, before any element has changed;
 * MEMORY. *speaks as for agreement_reach().
 */
weft_status state_layout_read(const struct state_layout *layout, const struct checkpoint *checkpoint,
                              const char *directory, bool *speaks, struct error *error);

/** Elements of an array's tensor that `rank` takes from the layout. */
struct state_range {
    enum state_array array;
    uint32_t parameter;
    size_t first, count;
    uint32_t rank;
};

#define STATE_NAME_BYTES (MODEL_NAME_BYTES + 16)

/** The ranges that one rank takes, as named tensors. */
struct state_collection {
    struct named_tensor *tensors; /**< moments are called "NAME.exp_avg", "NAME.exp_avg_sq" or "NAME.momentum_buffer",
                                     PyTorch's names. Data lies in the rank's pieces where one of them has it all */
    char (*names)[STATE_NAME_BYTES];
    size_t count;
    float *memory;    /**< of tensors that several pieces, or other ranks hold; NULL: none */
    size_t collected; /**< elements there */
};

/** Whether tensor `i` lies in the rank's pieces. */
static inline bool state_collection_in_place(const struct state_collection *collection, size_t i)
{
    const float *data = collection->tensors[i].data, *memory = collection->memory;
    return !memory || data < memory || data >= memory + collection->collected;
}

/**
 * Describe the ranges of this rank among `ranges`, and allocate memory for those that are not in one piece. Local. Close
 * it, whatever this returns. Errors: MEMORY.
 */
weft_status state_collection_open(struct state_collection *collection, const struct state_layout *layout,
                                  const struct state_range *ranges, size_t count, struct error *error);

/** Fill that memory on all ranks. All ranks pass the same `ranges`, and have agreed that opening succeeded. */
weft_status state_collection_fill(const struct state_collection *collection, const struct state_layout *layout,
                                  const struct state_range *ranges, size_t count, struct error *error);

/** Local. */
void state_collection_close(struct state_collection *collection);

#endif
