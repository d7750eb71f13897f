/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/rate.h"

#include <stdlib.h>

#define GROUPS 2048 /* a power of two */
#define WAYS   8    /* places of a group; a key has its place in one group */

struct bucket {
    uint64_t key, last; /* last: when it was used, 0 where the place is free */
    double level;
};

struct rate {
    double rate, burst;
    struct bucket buckets[GROUPS][WAYS];
};

weft_status rate_new(double rate, double burst, struct rate **result, struct error *error)
{
    struct rate *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the limits of requests a second");
    made->rate = rate;
    made->burst = burst < 1 ? 1 : burst;
    *result = made;
    return WEFT_OK;
}

void rate_free(struct rate *rate)
{
    free(rate);
}

double rate_take(struct rate *rate, uint64_t key, uint64_t now)
{
    struct bucket *group = rate->buckets[(key ^ key >> 32) & (GROUPS - 1)], *found = group;
    for (size_t i = 0; i < WAYS; i++) {
        if (group[i].last && group[i].key == key) {
            found = &group[i];
            break;
        }
        if (group[i].last < found->last)
            found = &group[i];
    }
    if (!found->last || found->key != key)
        *found = (struct bucket){key, now, rate->burst};
    else if (now > found->last)
        found->level += (double)(now - found->last) * 1e-9 * rate->rate;
    if (found->level > rate->burst)
        found->level = rate->burst;
    found->last = now ? now : 1;
    if (found->level < 1)
        return (1 - found->level) / rate->rate;
    found->level -= 1;
    return 0;
}
