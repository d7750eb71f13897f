/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Progress: who drives the operations in flight, and how one waits.
 *
 * Everything that changes in a context is guarded by one *progress_lock*. A caller takes it for the length of its call and,
 * while it waits, drives all operations itself. The helper thread, asleep most of the time, drives the control plane
 * always and takes the progress_lock when operations are in flight and nobody drives them, so that requests move while the
 * caller computes. A driver lets other threads have the progress_lock between two rounds.
 *
 * Waiting: about a hundred pauses (none when ranks outnumber cores), then sched_yield, then sleep in poll, which a local
 * peer's doorbell, the fabric or a failure ends. A caller that leaves operations behind sets its sleeping flag, so that
 * doorbells ring, and arms them in the helper's epoll (one shot): then the helper wakes only for them.
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
    _Atomic uint32_t sleeping;      /**< its holder sleeps in poll */
    _Atomic uint32_t operations;    /**< in flight */
    bool asleep;                    /**< local peers ring the doorbell (guarded by the progress_lock) */
    bool crowded;                   /**< ranks outnumber cores: never spin */
    uint32_t shared; /**< not 0: somebody else was seen to run on this core: spin no more for so many yields */
    int caller_wake; /**< eventfd: ends a caller's sleep */
    int helper_wake; /**< eventfd: ends the helper's */
    int epoll;       /**< the helper's */
    pthread_t helper;
    bool running;
    _Atomic bool stopping;
    _Atomic bool asked; /**< peers may ask over the network at any time: see fabric_is_asked() */
    struct error held;  /**< an error of the network that may be the echo of a death (guarded by the progress_lock) */
    uint64_t held_since;
    uint64_t watched; /**< clock_now() of the last look at what does not move */
};

/** How long a wait has been going on. Zero it at the beginning. */
struct progress_idle {
    uint32_t rounds;
    uint64_t since;
};

/** Start the helper thread; the context has its control plane, near and fabric may come later (progress_attach()). */
weft_status progress_open(weft_context *context, struct error *error);
/** The transports are open: listen to their doorbells, too. */
weft_status progress_attach(weft_context *context, struct error *error);
/** After a failure: the network is about to be given up, and nothing of it is answered any more. */
void progress_detach(weft_context *context);
/** End the helper thread. */
void progress_close(weft_context *context);

/** Take the progress_lock to change or drive something; give it back, leaving what is in flight to the helper. */
void progress_enter(weft_context *context);
void progress_leave(weft_context *context);

/** One round for all operations, then a moment of waiting when nothing moved. `blocked`: what the caller waits for, or
 * NULL. */
void progress_turn(weft_context *context, struct progress_idle *idle, struct weft_request *blocked);

/** One round; whether anything moved. With the progress_lock. */
bool progress_round(weft_context *context);

/** An operation more or less is in flight. With the progress_lock. */
void progress_count(struct progress *progress, int change);

/** The job fails with this error: all ranks are told. An error of the network waits a little for a better reason. With
 * the progress_lock. */
void progress_fail(weft_context *context, const struct error *error);

/** Let the helper thread look at once. Any thread. */
void progress_wake_helper(weft_context *context);

#endif
