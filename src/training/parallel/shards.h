/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Optimizer state in shards (Rajbhandari et al. 2020, "ZeRO", stage 1): each rank keeps the moments of one range of the
 * flat array, updates the weights of that range, and gives them to all others. The update is elementwise, so the bits
 * are those of a rank that holds everything.
 *
 * Ranges are whole blocks of DEVICE_SQUARES_BLOCK elements, as equal as these allow; the first ranks have one more.
 * Without sharding every rank's range is all of the array, and the functions below have nothing to do.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDS_H
#define WEFT_TRAINING_PARALLEL_SHARDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shards {
    weft_context *context;
    weft_comm *comm; /**< borrowed */
    bool sharded;
    uint32_t rank, ranks;
    size_t elements;                     /**< of the whole array */
    size_t first, count;                 /**< this rank's range */
    size_t *firsts, *counts;             /**< every rank's, where sharded */
    size_t *block_firsts, *block_counts; /**< the same in blocks of DEVICE_SQUARES_BLOCK elements */
};

weft_status shards_open(struct shards *shards, weft_context *context, weft_comm *comm, size_t elements, bool sharded,
                        struct error *error);
void shards_close(struct shards *shards);

/** All ranges of `array` from the ranks that they belong to. Collective. */
weft_status shards_share(const struct shards *shards, float *array, struct error *error);

/** All blocks' `sums` (device->sum_of_squares() of the whole array) from the ranks whose ranges they are. Collective.
 */
weft_status shards_share_sums(const struct shards *shards, double *sums, struct error *error);

/** Every rank's `part` (its range alone) into `whole` at rank 0. Collective where sharded. */
weft_status shards_gather(const struct shards *shards, const float *part, float *whole, struct error *error);

/** From `whole` at rank 0 to every rank's `part`, which is all of the array where nothing is sharded. Collective. */
weft_status shards_deal(const struct shards *shards, const float *whole, float *part, struct error *error);

#endif
