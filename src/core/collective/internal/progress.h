/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Progress: which thread drives the operations in flight, and how a thread waits.
 *
 * Everything that changes in a context is guarded by one *progress lock*. A caller holds it during its call and, while
 * it waits, drives all operations itself. The helper thread, asleep most of the time, always drives the control plane.
 * It takes the progress lock when operations are in flight and no caller drives them, so that requests progress while
 * the caller computes. A driver lets other threads take the progress lock between two rounds.
 *
 * Waiting: about a hundred pauses (none when ranks outnumber cores), then sched_yield, then a poll that ends with a
 * local rank's doorbell, the fabric or a failure. A caller that leaves operations in flight sets its sleeping flag, so
 * that doorbells ring, and arms them in the helper's epoll (one shot): then the helper wakes only for them.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_PROGRESS_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_PROGRESS_H

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weft_request;

struct progress {
    _Atomic uint32_t progress_lock; /**< 1: held */
    _Atomic uint32_t wanted;        /**< threads that wait for it */
    _Atomic uint32_t sleeping;      /**< the holder sleeps in poll */
    _Atomic uint32_t operations;    /**< in flight */
    _Atomic uint64_t calls;         /**< of progress_enter() so far (changed with the progress lock) */
    bool asleep;                    /**< local peers ring the doorbell (guarded by the progress lock) */
    bool crowded;                   /**< ranks outnumber cores: never spin */
    uint32_t shared; /**< not 0: another thread was seen on this core; do not spin for this many yields */
    int caller_wake; /**< eventfd: ends a caller's sleep */
    int helper_wake; /**< eventfd: ends the helper's */
    int epoll;       /**< the helper's */
    pthread_t helper;
    bool running;
    _Atomic bool stopping;
    _Atomic bool asked; /**< peers may send queries over the network at any time: see fabric_is_asked() */
    struct error held;  /**< a network error that may be a consequence of a death (guarded by the progress lock) */
    uint64_t held_since;
    uint64_t watched; /**< clock_now() of the last check for stalled operations */
};

/** How long a wait has lasted. Zero it at the beginning. */
struct progress_idle {
    uint32_t rounds;
    uint64_t since;
};

/** Start the helper thread. The context has its control plane; the transports may come later (progress_attach()). */
weft_status progress_open(weft_context *context, struct error *error);
/** The transports are open: watch their doorbells, too. */
weft_status progress_attach(weft_context *context, struct error *error);
/** After a failure: stop answering the network, which is about to be closed. */
void progress_detach(weft_context *context);
/** End the helper thread. */
void progress_close(weft_context *context);

/** Take the progress lock to change or drive something; release it, leaving what is in flight to the helper. */
void progress_enter(weft_context *context);
void progress_leave(weft_context *context);

/**
 * One round for all operations, then a short wait when nothing progressed. `blocked`: the request that the caller waits
 * for, or NULL.
 */
void progress_turn(weft_context *context, struct progress_idle *idle, struct weft_request *blocked);

/** One round. Returns whether anything progressed. With the progress lock. */
bool progress_round(weft_context *context);

/** Count operations in flight. With the progress lock. */
void progress_count(struct progress *progress, int change);

/**
 * Fail the job with this error on all ranks. A network error waits a little for a better reason. With the progress
 * lock.
 */
void progress_fail(weft_context *context, const struct error *error);

/** Wake the helper thread. Any thread. */
void progress_wake_helper(weft_context *context);

#endif
