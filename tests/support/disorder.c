/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's calls of execution_advance_lane() come here first (--wrap): another lane may get the turn. */
#include "disorder.h"

#include "base/hash.h"
#include "base/random.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/internal/execution.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static weft_comm *_Atomic disordered[DISORDER_COMMS]; /* ranks may be threads */
static atomic_ullong drawn, turns;
static _Thread_local uint32_t order[SCHEDULE_LANES]; /* of the present round */

bool __real_execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget);
bool __wrap_execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget);

static bool disorder_is_set(const weft_comm *comm)
{
    for (uint32_t i = 0; i < DISORDER_COMMS; i++)
        if (atomic_load_explicit(&disordered[i], memory_order_relaxed) == comm)
            return true;
    return false;
}

void disorder_set(weft_comm *comm, bool disorder)
{
    if (disorder_is_set(comm) == disorder)
        return;
    for (uint32_t i = 0; i < DISORDER_COMMS; i++) {
        weft_comm *there = disorder ? NULL : comm;
        if (atomic_compare_exchange_strong(&disordered[i], &there, disorder ? comm : NULL))
            return;
    }
    abort(); /* more communicators than there is room for */
}

unsigned long long disorder_turns(void)
{
    return atomic_load(&turns);
}

/* The executor goes round all lanes: with the first of them an order of this round is drawn, and each call takes the
 * next lane of it, a step far. The executor's budget stays as it is: only when nothing moves is the round the last. */
bool __wrap_execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget)
{
    if (!disorder_is_set(request->comm))
        return __real_execution_advance_lane(request, number, budget);
    uint64_t seed = hash_number(request->comm->rank, request->sequence), one = 1;
    for (uint32_t i = 0; number == 0 && i < request->schedule->lane_count; i++) {
        uint32_t at = (uint32_t)random_below(seed, atomic_fetch_add(&drawn, 1), i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    uint64_t wait = random_below(seed, atomic_fetch_add(&drawn, 1), 16);
    if (wait < 4)
        nanosleep(&(struct timespec){.tv_nsec = (long)wait * 10000}, NULL);
    atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
    return __real_execution_advance_lane(request, order[number], &one);
}
