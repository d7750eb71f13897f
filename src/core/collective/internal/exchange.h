/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchange: operations so small that contribution and flag cross together, in one step (STEP_EXCHANGE).
 *
 * A rank publishes its contribution in its control line, looks until those have published whose data it takes (in a
 * barrier: all), and takes its result from what they gave. Who takes nothing goes on at once. The three parts serve
 * requests (core/collective/execution/shm_step.c) and exchange_run(), which takes a whole blocking operation at once. Guarded by the
 * context's progress_lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_EXCHANGE_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_EXCHANGE_H

#include "core/collective/call.h"
#include "core/collective/internal/reduction.h"
#include "core/collective/internal/schedule_cache.h"

#include <stdbool.h>
#include <stdint.h>

/** Where the contributions to an operation lie. */
enum exchange_room {
    EXCHANGE_LINE,  /**< beside the flag, in its line */
    EXCHANGE_SHORT, /**< in the short annex */
    EXCHANGE_LONG,  /**< in the long annex */
};

/** One such operation of this rank. */
struct exchange_operation {
    weft_comm *comm;
    const struct call *call;
    const struct schedule *schedule;
    uint64_t number; /**< among its communicator's shared-memory operations */
    uint64_t tag;
    uint64_t block_bytes;                  /**< of the largest block, in the v-forms */
    enum exchange_room room;               /**< where contributions lie: exchange_room() */
    const struct reduction_finish *finish; /**< NULL: nothing follows the sum */
};

/** What looking at the others came to. */
enum exchange_sight {
    EXCHANGE_COMPLETE,
    EXCHANGE_WAITS,    /**< for the member *looked of the schedule's group */
    EXCHANGE_MISMATCH, /**< that member makes another call */
};

/** The smallest room for contributions to a schedule with blocks of `block_bytes`. */
enum exchange_room exchange_room(const struct schedule *schedule, uint64_t block_bytes);

/** How many operations a rank may be ahead of another when it begins one in that room: all others are in use. */
uint32_t exchange_ahead(enum exchange_room room);

/** Show this rank's `bytes` bytes. The local ranks' doorbells are not rung yet. */
void exchange_publish(const struct exchange_operation *operation, uint64_t bytes);

/** Look at the members of the group from number *looked on, and count those that have published. */
enum exchange_sight exchange_look(const struct exchange_operation *operation, uint32_t *looked);

/** Those whose data it takes have published: write the output. */
void exchange_take(const struct exchange_operation *operation);

/** What exchange_run() came to. */
enum exchange_outcome {
    EXCHANGE_RAN,    /**< the call is complete */
    EXCHANGE_FAILED, /**< it cannot be begun, or not be completed; `error` says why */
    EXCHANGE_NOT,    /**< nothing was begun: this call takes the general way */
    EXCHANGE_LATE,   /**< it is begun, and somebody is late: *started goes on the general way */
};

/**
 * Take a blocking call from beginning to end, if its schedule is an exchange and nothing of its communicator is in flight.
 *
 * This is the way of an 8-byte all-reduce, so it has a budget: what others wait for comes first, and what only this
 * rank needs (the log, the schedule's checksum, the doorbells) is done while the lines cross.
 */
enum exchange_outcome exchange_run(weft_comm *comm, const struct call *call, struct weft_request **started,
                                   struct error *error);

#endif
