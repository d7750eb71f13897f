/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rank writes which part of a checkpoint.
 *
 * Ranks that see the same directory as rank 0 share the tensors, balanced by bytes. With sharded optimizer state each
 * rank writes its own shard. Rank 0 writes everything, after gathering sharded moments, if the checkpoint is small or
 * some rank cannot write its shard. All ranks compute the same result.
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

/**
 * Assign `count` tensors to `writers`, whole, so that other tools can read each file, and balanced by bytes: the largest
 * first, each to the writer with the smallest load, the first one of equals (Graham 1969, "Bounds on multiprocessing
 * timing anomalies": at most 4/3 of the optimum). The result depends on shapes alone.
 *
 * `loads` holds the bytes that each writer already has, and is updated; `writer_of[i]` receives the writer of tensor i.
 * Errors: MEMORY.
 */
weft_status checkpoint_parts_balance(const struct named_tensor *tensors, size_t count, unsigned writers,
                                     uint64_t *loads, unsigned *writer_of, struct error *error);

/** The number of writers such that each file has at least `least` bytes: from 1 to `most`. */
unsigned checkpoint_parts_writers(uint64_t bytes, uint64_t least, unsigned most);

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

/** Whether shards of moments are gathered on rank 0. `sees` says which ranks see the directory. */
bool checkpoint_parts_gather(const struct training_state *state, const struct shards *shards, const bool *sees,
                             uint64_t least);

/**
 * Assign the tensors of `state` (on rank 0 with gathered moments, if they were gathered) to files of at least `least`
 * bytes. Local. Close it, whatever this returns. Errors: MEMORY.
 */
weft_status checkpoint_parts_open(struct checkpoint_parts *parts, const struct training_state *state,
                                  const struct shards *shards, const bool *sees, uint64_t least, struct error *error);

void checkpoint_parts_close(struct checkpoint_parts *parts);

#endif
