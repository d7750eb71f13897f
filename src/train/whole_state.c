/* SPDX-License-Identifier: Apache-2.0 */
#include "train/whole_state.h"

#include <stdlib.h>

weft_status whole_state_open(struct whole_state *whole, const struct training_state *state, const struct shards *shards,
                             struct error *error)
{
    *whole = (struct whole_state){.state = *state};
    if (!shards->sharded || shards->rank != 0)
        return WEFT_OK;
    const size_t arrays = state->second_moments ? 2 : 1;
    whole->moments = calloc(arrays * shards->elements, sizeof *whole->moments);
    if (!whole->moments)
        return error_memory(error, arrays * shards->elements * sizeof *whole->moments, "the whole optimiser state");
    whole->state.first_moments = whole->moments;
    if (state->second_moments)
        whole->state.second_moments = whole->moments + shards->elements;
    return WEFT_OK;
}

void whole_state_close(struct whole_state *whole)
{
    free(whole->moments);
    *whole = (struct whole_state){0};
}

static weft_status give(const struct shards *shards, void *array, size_t bytes, struct error *error)
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
    weft_status status = give(shards, &state->step, sizeof state->step, error);
    if (status == WEFT_OK)
        status = give(shards, &state->patience, sizeof state->patience, error);
    if (status == WEFT_OK)
        status = give(shards, state->parameters, shards->elements * sizeof *state->parameters, error);
    if (status == WEFT_OK)
        status = shards_deal(shards, whole->state.first_moments, state->first_moments, error);
    if (status == WEFT_OK && state->second_moments)
        status = shards_deal(shards, whole->state.second_moments, state->second_moments, error);
    return status;
}

weft_status whole_state_gather(const struct whole_state *whole, const struct training_state *state,
                               const struct shards *shards, struct error *error)
{
    weft_status status = shards_gather(shards, state->first_moments, whole->state.first_moments, error);
    if (status == WEFT_OK && state->second_moments)
        status = shards_gather(shards, state->second_moments, whole->state.second_moments, error);
    return status;
}
