/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of a run in one place: what rank 0 reads from a checkpoint and deals out, or gathers and writes. Where
 * nothing is sharded it is rank 0's own state; else rank 0 has room for all moments while this is open.
 *
 *     whole_state_open -> (fill in on rank 0) -> whole_state_deal -> whole_state_close
 *     whole_state_open -> whole_state_gather -> (write on rank 0) -> whole_state_close
 *
 * Opening can fail on rank 0 alone: agree on that before dealing or gathering, which are collective.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_WHOLE_STATE_H
#define WEFT_TRAINING_TRAIN_STATE_WHOLE_STATE_H

#include "training/parallel/whole_moments.h"
#include "training/train/state/state.h"

struct whole_state {
    struct training_state state; /**< of rank 0; borrows what it does not own */
    struct whole_moments moments;
};

weft_status whole_state_open(struct whole_state *whole, const struct training_state *state, const struct shards *shards,
                             struct error *error);
void whole_state_close(struct whole_state *whole);

/** Rank 0's whole state becomes every rank's. Collective. */
weft_status whole_state_deal(const struct whole_state *whole, struct training_state *state, const struct shards *shards,
                             struct error *error);

/** Every rank's moments into rank 0's whole state. Collective. */
weft_status whole_state_gather(const struct whole_state *whole, const struct shards *shards, struct error *error);

#endif
