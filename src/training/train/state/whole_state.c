/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/whole_state.h"

weft_status whole_state_open(struct whole_state *whole, const struct training_state *state, const struct shards *shards,
                             struct error *error)
{
    *whole = (struct whole_state){.state = *state};
    weft_status status = whole_moments_open(&whole->moments, shards,
                                            (struct moments){state->first_moments, state->second_moments}, error);
    whole->state.first_moments = whole->moments.whole.first;
    whole->state.second_moments = whole->moments.whole.second;
    return status;
}

void whole_state_close(struct whole_state *whole)
{
    whole_moments_close(&whole->moments);
    *whole = (struct whole_state){0};
}

static weft_status whole_state_give(const struct shards *shards, void *array, size_t bytes, struct error *error)
{
    weft_status status = weft_broadcast(array, bytes, WEFT_U8, 0, shards->comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(shards->context));
}

weft_status whole_state_deal(const struct whole_state *whole, struct training_state *state, const struct shards *shards,
                             struct error *error)
{
    if (shards->rank == 0) {
        state->step = whole->state.step;
        state->patience = whole->state.patience;
    }
    weft_status status = whole_state_give(shards, &state->step, sizeof state->step, error);
    if (status == WEFT_OK)
        status = whole_state_give(shards, &state->patience, sizeof state->patience, error);
    if (status == WEFT_OK)
        status = whole_state_give(shards, state->parameters, shards->elements * sizeof *state->parameters, error);
    return status == WEFT_OK ? whole_moments_deal(&whole->moments, shards, error) : status;
}

weft_status whole_state_gather(const struct whole_state *whole, const struct shards *shards, struct error *error)
{
    return whole_moments_gather(&whole->moments, shards, error);
}
