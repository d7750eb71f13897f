/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An optimizer's moments in one place: what rank 0 reads from a checkpoint and deals out, or gathers and writes. Where
 * nothing is sharded they are rank 0's own; else rank 0 has room for all of them while this is open.
 *
 *     whole_moments_open -> (fill in on rank 0) -> whole_moments_deal -> whole_moments_close
 *     whole_moments_open -> whole_moments_gather -> (write on rank 0) -> whole_moments_close
 *
 * Opening can fail on rank 0 alone: agree on that before dealing or gathering, which are collective.
 */
#ifndef WEFT_TRAINING_PARALLEL_WHOLE_MOMENTS_H
#define WEFT_TRAINING_PARALLEL_WHOLE_MOMENTS_H

#include "training/parallel/shards.h"

/** Of an optimizer that has two kinds of moments, one, or none: then the rest is NULL. */
struct moments {
    float *first, *second;
};

struct whole_moments {
    struct moments of_rank; /**< each rank's shard */
    struct moments whole;   /**< rank 0's; on others, and where nothing is sharded, the same as of_rank */
    float *room;            /**< where rank 0 has them; NULL: it needs none */
};

weft_status whole_moments_open(struct whole_moments *moments, const struct shards *shards, struct moments of_rank,
                               struct error *error);
void whole_moments_close(struct whole_moments *moments);

/** Rank 0's whole moments become every rank's shards. Collective. */
weft_status whole_moments_deal(const struct whole_moments *moments, const struct shards *shards, struct error *error);

/** Every rank's shards into rank 0's whole moments. Collective. */
weft_status whole_moments_gather(const struct whole_moments *moments, const struct shards *shards, struct error *error);

#endif
