/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of a training (weights and optimizer moments), divided over ranks in any way.
 *
 * Each rank lists the *pieces* that it holds: ranges of tensors, and the memory where their values and moments lie. The
 * ranks exchange these lists once, so that all know the *layout*: which rank holds which elements. Checkpoints are
 * written, read and gathered by the layout, so they do not depend on how the state is divided.
 *
 *     struct state_piece piece = {.parameter = 3, .count = 64, .values = values, .first_moments = first};
 *     struct state_pieces own = {.description = description, .pieces = &piece, .count = 1};
 *     struct state_layout *layout;
 *
 *     status = state_layout_open(context, comm, &own, &layout, &speaks, error);
 *     status = state_layout_read(layout, checkpoint, &speaks, error);         (state_transfer.h)
 *     status = state_layout_gather_values(layout, description, whole, error);
 *     state_layout_close(layout);
 */
#ifndef WEFT_TRAINING_PARALLEL_STATE_PIECES_H
#define WEFT_TRAINING_PARALLEL_STATE_PIECES_H

#include "base/error.h"
#include "training/model/model.h"

/** The arrays of a training's state. */
enum state_array {
    STATE_VALUES,
    STATE_FIRST_MOMENTS,
    STATE_SECOND_MOMENTS,
    STATE_ARRAYS,
};

/**
 * Elements [first, first + count) of a tensor, row-major, which this rank holds. Values and moments may be cut
 * differently: then some pieces have values alone, and others have moments alone. Two pieces with values must not
 * overlap on one rank, nor two with moments. Several ranks may hold the same elements, with the same bits.
 */
struct state_piece {
    uint32_t parameter; /**< index in the description */
    size_t first, count;
    float *values;         /**< `count` elements; NULL: none here */
    float *first_moments;  /**< NULL: none here */
    float *second_moments; /**< NULL: none here */
};

/** The pieces of one rank. */
struct state_pieces {
    const struct model_description *description; /**< names and shapes, the same on all ranks; offsets are not used */
    struct state_piece *pieces;
    size_t count;
};

/** Elements of one array's tensor that the same ranks hold. */
struct state_cell {
    enum state_array array;
    uint32_t parameter;
    size_t first, count;
    const uint32_t *holders; /**< ranks, ascending */
    uint32_t holder_count;   /**< at least 1 */
};

/** While a layout is opened, each rank holds so many bytes for each range that a rank has of an array. */
#define STATE_RECORD_BYTES 32

/** Everything is the same on all ranks, except `rank` and `own`. */
struct state_layout {
    weft_context *context; /**< borrowed, as is `comm` */
    weft_comm *comm;
    uint32_t rank, ranks;
    struct state_pieces own;
    unsigned arrays;          /**< how many exist: 1 without moments, 2 or 3 with them */
    struct state_cell *cells; /**< every element of all arrays once; by array, parameter and first element */
    size_t cell_count;
    uint32_t *holders; /**< the cells' */
};

/**
 * Exchange the lists of pieces. Collective. The list `own` is copied; description and arrays are borrowed until close.
 *
 * Errors, the same on all ranks: ARGUMENT if an element of a tensor is held by no rank, a piece is outside its tensor,
 * or pieces of one rank overlap (the message names the tensor); MEMORY. *speaks as for agreement_reach().
 */
weft_status state_layout_open(weft_context *context, weft_comm *comm, const struct state_pieces *own,
                              struct state_layout **layout, bool *speaks, struct error *error);

/** Local. NULL is allowed. */
void state_layout_close(struct state_layout *layout);

/** Whether `rank` holds the cell. */
bool state_cell_is_held(const struct state_cell *cell, uint32_t rank);

/** The cell of element `element`. Those after it, up to the tensor's end, follow in the list. */
const struct state_cell *state_layout_cell(const struct state_layout *layout, enum state_array array,
                                           uint32_t parameter, size_t element);

/** Whether `cell` is in the list, and has elements of this tensor. */
bool state_layout_continues(const struct state_layout *layout, const struct state_cell *cell, enum state_array array,
                            uint32_t parameter);

/** Elements [first, first + count) of a tensor, if this rank holds them in one piece; otherwise NULL. */
float *state_layout_find(const struct state_layout *layout, enum state_array array, uint32_t parameter, size_t first,
                         size_t count);

#endif
