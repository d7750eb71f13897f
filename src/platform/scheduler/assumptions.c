/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/assumptions.h"

#include "base/random.h"

#include <math.h>
#include <stddef.h>

#define SEED   18 /* any: which jobs are preemptible */
#define MINUTE 60.0
#define HOUR   3600.0
#define DAY    86400.0

const char *const assumed_limits_names[] = {"none", "true", "bucketed", "default", NULL};

bool assume_preemptible(const struct assumptions *assumptions, const struct trace_job *job)
{
    return random_uniform(SEED, job->name) < assumptions->preemptible;
}

/* The next of the values that users commonly give. */
static double assumptions_round_up(double seconds)
{
    static const double buckets[] = {15 * MINUTE, 30 * MINUTE, HOUR,    2 * HOUR, 4 * HOUR, 8 * HOUR,
                                     12 * HOUR,   DAY,         2 * DAY, 4 * DAY,  7 * DAY};
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        if (seconds <= buckets[i])
            return buckets[i];
    return ceil(seconds / (7 * DAY)) * 7 * DAY;
}

double assume_limit(const struct assumptions *assumptions, const struct trace_job *job)
{
    switch (assumptions->limits) {
    case ASSUME_NO_LIMITS:
        break;
    case ASSUME_TRUE_LIMITS:
        return fmax(job->duration, 1);
    case ASSUME_BUCKETED_LIMITS:
        return assumptions_round_up(job->duration);
    case ASSUME_DEFAULT_LIMITS:
        return fmax(assumptions_round_up(job->duration), DAY);
    }
    return 0;
}
