/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Assumptions of a simulation for what traces do not say: which jobs may be preempted, and what time limits they have.
 * They matter: without preemption and with loose limits, mean waits at least double on most traces.
 *
 * No limit is shorter than its job, so no job is killed. Pure; safe from any thread.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_ASSUMPTIONS_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_ASSUMPTIONS_H

#include "platform/scheduler/internal/trace.h"

#include <stdbool.h>

enum assumed_limits {
    ASSUME_NO_LIMITS,       /**< the scheduler knows of none */
    ASSUME_TRUE_LIMITS,     /**< a job's true duration */
    ASSUME_BUCKETED_LIMITS, /**< that, rounded up to 15m, 30m, 1h, 2h, 4h, 8h, 12h, 1d, 2d, 4d, 7d, or whole weeks */
    ASSUME_DEFAULT_LIMITS,  /**< 1 day, as `weft submit` gives without --time-limit; longer jobs as bucketed */
};

/** Their names ("none", "true", "bucketed", "default") in this order, NULL at the end. */
extern const char *const assumed_limits_names[];

struct assumptions {
    double preemptible; /**< share of the jobs that may be preempted, 0 to 1 */
    enum assumed_limits limits;
};

/** Whether a job may be preempted: by a hash of its number, so a larger share includes the jobs of a smaller one. */
bool assume_preemptible(const struct assumptions *assumptions, const struct trace_job *job);

/** A job's time limit in seconds; 0: it has none. */
double assume_limit(const struct assumptions *assumptions, const struct trace_job *job);

#endif
