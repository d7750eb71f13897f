/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rank writes which part of a checkpoint.
 *
 * Ranks that see the directory write elements that they hold. Of several ranks with the same elements one writes them,
 * so that all write about as much. Weights are written whole, so that other tools can read each file: if no rank holds
 * a tensor whole, the writer collects it. Moments may be cut. Rank 0 collects and writes everything if the checkpoint
 * is too small for two files, or if some elements are on ranks alone that do not see the directory.
 *
 * All ranks compute the same result from the layout.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_PARTS_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_PARTS_H

#include "training/checkpoint/checkpoint.h"
#include "training/parallel/state_transfer.h"

/** Files of a checkpoint by what they hold. */
enum part_kind {
    PART_MODEL,
    PART_OPTIMIZER,
    PART_KINDS,
};
extern const char *const part_kind_names[PART_KINDS];

/** Ranges of tensors, the same on all ranks. */
struct state_ranges {
    struct state_range *ranges;
    size_t count;
};

/**
 * Assign every element to a rank that writes it. The largest tensor comes first, each to the allowed rank with the
 * smallest load, the lowest of equals (Graham 1969, "Bounds on multiprocessing timing anomalies": at most 4/3 of the
 * optimum where every rank holds everything). Tensors with only one possible writer come before all others. A rank has
 * at most one range of a tensor.
 *
 * Ranks `allowed` may write: each cell has a holder among them, or rank 0 is the only one. `ranges` has room for as
 * many as the layout has cells. `loads` receives the bytes of each rank. Errors: MEMORY.
 */
weft_status checkpoint_parts_assign(const struct state_layout *layout, const bool *allowed, uint64_t *loads,
                                    struct state_ranges *ranges, struct error *error);

/** The number of writers such that each file has at least `least` bytes: from 1 to `most`. */
unsigned checkpoint_parts_writers(uint64_t bytes, uint64_t least, unsigned most);

struct checkpoint_parts {
    struct state_ranges ranges[PART_KINDS]; /**< what each rank writes */
    bool writes[PART_KINDS];                /**< whether this rank has a file of that kind */
    unsigned number[PART_KINDS];            /**< and its number, from 0 */
    unsigned parts[PART_KINDS];             /**< files of that kind */
    struct checkpoint_place *places;        /**< of the model's tensors */
    size_t place_count;
    uint64_t model_bytes;
    uint64_t bytes; /**< of all tensors */
};

/**
 * Assign the state to files of at least `least` bytes on average, or one for each rank that alone holds something.
 * `sees` says which ranks see the directory; rank 0 does. Local. Close it, whatever this returns. Errors: MEMORY.
 */
weft_status checkpoint_parts_open(struct checkpoint_parts *parts, const struct state_layout *layout, const bool *sees,
                                  uint64_t least, struct error *error);

void checkpoint_parts_close(struct checkpoint_parts *parts);

#endif
