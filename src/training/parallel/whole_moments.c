/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/whole_moments.h"

#include <stdlib.h>

weft_status whole_moments_open(struct whole_moments *moments, const struct shards *shards, struct moments of_rank,
                               struct error *error)
{
    *moments = (struct whole_moments){.of_rank = of_rank, .whole = of_rank};
    if (!shards->sharded || shards->rank != 0 || !of_rank.first)
        return WEFT_OK;
    const size_t arrays = of_rank.second ? 2 : 1;
    moments->room = calloc(arrays * shards->elements, sizeof *moments->room);
    if (!moments->room)
        return error_memory(error, arrays * shards->elements * sizeof *moments->room, "the whole optimizer state");
    moments->whole.first = moments->room;
    if (of_rank.second)
        moments->whole.second = moments->room + shards->elements;
    return WEFT_OK;
}

void whole_moments_close(struct whole_moments *moments)
{
    free(moments->room);
    *moments = (struct whole_moments){0};
}

weft_status whole_moments_deal(const struct whole_moments *moments, const struct shards *shards, struct error *error)
{
    weft_status status = WEFT_OK;
    if (moments->of_rank.first)
        status = shards_deal(shards, moments->whole.first, moments->of_rank.first, error);
    if (status == WEFT_OK && moments->of_rank.second)
        status = shards_deal(shards, moments->whole.second, moments->of_rank.second, error);
    return status;
}

weft_status whole_moments_gather(const struct whole_moments *moments, const struct shards *shards, struct error *error)
{
    weft_status status = WEFT_OK;
    if (moments->of_rank.first)
        status = shards_gather(shards, moments->of_rank.first, moments->whole.first, error);
    if (status == WEFT_OK && moments->of_rank.second)
        status = shards_gather(shards, moments->of_rank.second, moments->whole.second, error);
    return status;
}
