/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The plan of the queue: who waits, in which order, for what, and when each is expected to start; and when those that
 * run end at the latest.
 *
 * It is made when somebody asks and something has changed since the last time, and kept until then: asking costs
 * nothing. What runs report of their progress (platform/registry/run/progress.h) changes it every few seconds at most. A message costs
 * what writing it costs. What was submitted since the last pass stands at the end.
 */
#ifndef WEFT_PLATFORM_CONTROLLER_INTERNAL_PLAN_H
#define WEFT_PLATFORM_CONTROLLER_INTERNAL_PLAN_H

#include "platform/scheduler/outlook.h"

struct controller;

/** What a run waits for. */
enum controller_wait {
    CONTROLLER_WAITS_FOR_SLOTS,    /**< in the scheduler's queue: `outlook` says more */
    CONTROLLER_WAITS_FOR_PASS,     /**< the same; it has come since the last pass */
    CONTROLLER_WAITS_FOR_OTHERS,   /**< it has its slots, and others are leaving them */
    CONTROLLER_WAITS_FOR_BUDGET,   /**< more must accrue, be granted, or come back from other runs */
    CONTROLLER_WAITS_FOR_CLASS,    /**< its owner has as many runs of its class at once as may be */
    CONTROLLER_WAITS_FOR_PERSONAL, /**< its owner has as many personal runs at once as may be */
    CONTROLLER_WAITS_FOR_PAUSE,    /**< it has failed, and is not tried again yet */
    CONTROLLER_WAITS_FOR_RESUME,   /**< scheduling is paused */
    CONTROLLER_WAITS_FOR_DISK,     /**< the disk is full */
    CONTROLLER_WAITS_FOR_HOSTS,    /**< too few take runs, or the server was started so that it cannot run here */
};

struct controller_plan_run {
    int64_t run;
    const char *project, *owner;
    uint32_t nodes, slots; /**< slots of each node */
    int64_t since;         /**< milliseconds since 1970: it waits, or runs */
    enum controller_wait waits;
    struct outlook outlook; /**< of those that wait for slots */
    int64_t expected_start; /**< of those that wait; 0: nobody can say */
    int64_t awaits;         /**< the run after whose end it is expected to start; 0: none, or one that waits too */
    int64_t ends_before;    /**< of those that run: by the limits of their time and budget */
};

struct controller_plan {
    struct controller_plan_run
        *waiting; /**< the first to start first; those that wait for other things than slots last */
    struct controller_plan_run *running; /**< by number */
    size_t waiting_count, running_count;
};

/** The plan; valid until the next call of any function of the controller. */
weft_status controller_plan(struct controller *controller, int64_t now, const struct controller_plan **plan,
                            struct error *error);

/** Write the reason for which a run waits, as a message, to `text`; returns it. `whole`: for users who may see its
 * project; for others names, limits and balances are left out. */
char *controller_plan_reason(const struct controller *controller, const struct controller_plan_run *waits, bool whole,
                             int64_t now, char *text, size_t size);

/** Why a run waits, and when it is expected to start, as a message; "" if it does not wait. */
weft_status controller_why(struct controller *controller, int64_t run, int64_t now, char *text, size_t size,
                           struct error *error);

#endif
