/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchange: operations so small that contribution and flag travel together, in one step (STEP_EXCHANGE).
 *
 * A rank publishes its contribution in its control line, polls until the ranks whose data it needs have published (in a
 * barrier: all), and computes its result from what they published. A rank that needs no data continues at once. The
 * three parts serve requests (core/collective/execution/shm_step.c) and exchange_run(), which runs a whole blocking
 * operation. Guarded by the context's progress lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_EXCHANGE_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_EXCHANGE_H

#include "core/collective/call.h"
#include "core/collective/internal/reduction.h"
#include "core/collective/internal/schedule_cache.h"

#include <stdbool.h>
#include <stdint.h>

/** Where the contributions to an operation are. */
enum exchange_room {
    EXCHANGE_LINE,  /**< next to the flag, in its line */
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

/** The result of polling the others. */
enum exchange_sight {
    EXCHANGE_COMPLETE,
    EXCHANGE_WAITS,    /**< for member *looked of the schedule's group */
    EXCHANGE_MISMATCH, /**< that member makes another call */
};

/** The smallest room for contributions to a schedule with blocks of `block_bytes`. */
enum exchange_room exchange_room(const struct schedule *schedule, uint64_t block_bytes);

/** How many operations a rank may be ahead of another when it begins one in that room; all other places are in use. */
uint32_t exchange_ahead(enum exchange_room room);

/** Publish this rank's `bytes` bytes. Does not yet ring the local ranks' doorbells. */
void exchange_publish(const struct exchange_operation *operation, uint64_t bytes);

/** Poll the members of the group from number *looked on, and count those that have published. */
enum exchange_sight exchange_look(const struct exchange_operation *operation, uint32_t *looked);

/** The ranks whose data is needed have published: write the output. */
void exchange_take(const struct exchange_operation *operation);

/** The outcome of exchange_run(). */
enum exchange_outcome {
    EXCHANGE_RAN,    /**< the call is complete */
    EXCHANGE_FAILED, /**< it cannot begin or complete; `error` says why */
    EXCHANGE_NOT,    /**< not begun: this call takes the general path */
    EXCHANGE_LATE,   /**< begun, but a rank is late: *started continues on the general path */
};

/**
 * Run a blocking call to completion, if its schedule is an exchange and nothing of its communicator is in flight.
 *
 * An 8-byte all-reduce takes this path, so every nanosecond counts. Work that others wait for comes first. Work that
 * only this rank needs (the log, the schedule's checksum, the doorbells) is done while the lines are in transit.
 */
enum exchange_outcome exchange_run(weft_comm *comm, const struct call *call, struct weft_request **started,
                                   struct error *error);

#endif
