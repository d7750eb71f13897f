/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rank writes which part of a checkpoint.
 *
 * Ranks that see the directory as rank 0 does divide whole tensors by bytes; with the optimizer's state in shards each
 * writes its own. A checkpoint that is small, or shards of which some rank cannot write its own, is rank 0's alone, to
 * which moments in shards are gathered first. All ranks find the same.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_PARTS_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_CHECKPOINT_PARTS_H

#include "training/checkpoint/checkpoint.h"
#include "training/parallel/partition.h"
#include "training/train/state/state.h"

/** Files of a checkpoint by what they hold. */
enum part_kind {
    PART_MODEL,
    PART_OPTIMIZER,
    PART_KINDS,
};
extern const char *const part_kind_names[PART_KINDS];

struct checkpoint_parts {
    struct tensor_list mine[PART_KINDS]; /**< what this rank writes */
    bool writes[PART_KINDS];             /**< whether it has a file of that kind */
    unsigned number[PART_KINDS];         /**< and its number, from 0 */
    unsigned parts[PART_KINDS];          /**< files of that kind */
    struct checkpoint_place *places;     /**< of the model's tensors */
    size_t place_count;
    uint64_t model_bytes;
    uint64_t bytes; /**< of all tensors */
};

/** Whether the moments' shards are gathered to rank 0: see above. `sees` tells which ranks see the directory. */
bool checkpoint_parts_gather(const struct training_state *state, const struct shards *shards, const bool *sees,
                             uint64_t least);

/**
 * Who writes what of `state` (which, where moments were gathered, is rank 0's whole one) into files of at least `least`
 * bytes. Local. Close it, whatever this returns. Errors: MEMORY.
 */
weft_status checkpoint_parts_open(struct checkpoint_parts *parts, const struct training_state *state,
                                  const struct shards *shards, const bool *sees, uint64_t least, struct error *error);

void checkpoint_parts_close(struct checkpoint_parts *parts);

#endif
