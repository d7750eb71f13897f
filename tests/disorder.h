/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: the lanes of a communicator's operations move in a random order, about a step each, some after a while.
 */
#ifndef WEFT_TESTS_DISORDER_H
#define WEFT_TESTS_DISORDER_H

#include "base/hash.h"
#include "base/random.h"
#include "collective/comm.h"
#include "collective/execution.h"

#include <stdatomic.h>
#include <time.h>

static inline bool disorder_advance(struct weft_request *request)
{
    static atomic_ullong drawn; /* by all ranks that are threads */
    uint64_t seed = hash_number(request->comm->rank, request->sequence);
    uint32_t lanes[PLAN_LANES] = {0}, count = request->plan->lane_count;
    bool moved = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)random_below(seed, atomic_fetch_add(&drawn, 1), i + 1);
        lanes[i] = lanes[at];
        lanes[at] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t budget = 1, wait = random_below(seed, atomic_fetch_add(&drawn, 1), 16);
        if (wait < 4)
            nanosleep(&(struct timespec){.tv_nsec = (long)wait * 10000}, NULL);
        moved |= execution_advance_lane(request, lanes[i], &budget);
    }
    return moved;
}

/** From now on, or no longer. */
static inline void disorder_set(weft_comm *comm, bool disorder)
{
    comm->advance_lanes = disorder ? disorder_advance : NULL;
}

#endif
