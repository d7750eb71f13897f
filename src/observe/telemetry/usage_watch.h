/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Finds "zombies": runs that hold GPUs or CPU slots and do not use them.
 *
 * A run's watch receives samples: a time, and the share in use of the slots that the run holds.
 *
 *     idle      its mean use over the last `idle_seconds` that were seen is below `idle_below`: it is a zombie, and is
 *               flagged; if the policy says so, it is to be stopped once it has been seen for `stop_seconds` more
 *     at work   its mean use over the last `busy_seconds` that were seen is `busy_above` or more: it is no zombie (any
 *               longer), and what was seen before does not count any more
 *
 * Between the two nothing changes, so that a run at the limit is not flagged and cleared alternately. Means are used,
 * so that a short activity (a heartbeat of some library) or a short pause (a checkpoint) changes nothing either.
 *
 * Only observed time counts. A sample covers the time since the previous sample, if that is no longer than
 * `gap_seconds`. A longer time is a gap, which counts as neither idle nor work. After a gap longer than
 * `forget_seconds`, and in the first `grace_seconds` of a run (it reads its data), the watch starts over.
 *
 * Windows of time are kept in WINDOW_PARTS parts, and hold between the seconds asked for and a part more.
 *
 * Pure: times come from the caller, in seconds of any clock that does not go back. Thread-safe.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_USAGE_WATCH_H
#define WEFT_OBSERVE_TELEMETRY_USAGE_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * A site's definition of a zombie, and the action against it. All in seconds from 0 to 1e9 (idle_seconds and
 * gap_seconds: from 1), or shares from 0 to 1. The reader of a policy file checks the bounds.
 */
struct usage_policy {
    double idle_below;     /**< 0.05 */
    double busy_above;     /**< 0.10; not below idle_below */
    double idle_seconds;   /**< 3600 */
    double busy_seconds;   /**< 300 */
    double gap_seconds;    /**< longest time that one sample covers: 60 */
    double forget_seconds; /**< after a longer gap it starts over: 600; not below gap_seconds */
    double grace_seconds;  /**< from a run's start: 600 */
    bool stops;            /**< whether zombies are stopped; otherwise they are flagged only */
    double stop_seconds;   /**< seen for so long after the flag, without being at work: 3600 */
};

/** The figures above; zombies are flagged only. */
struct usage_policy usage_policy_default(void);

/** The share in use at one time. */
struct usage_sample {
    double at;      /**< time */
    double used;    /**< share in use of all that the run holds, 0 to 1: the mean over it; NaN: not known, which is as
                         if no sample had been taken */
    double busiest; /**< share of the one of them that is used most, for the message; NaN: not told */
};

/**
 * The mean and the largest of the shares of `count` things that a run holds, into used and busiest. Those that are NaN
 * are not known, and if more than half of them are not, nothing is.
 */
struct usage_sample usage_sample_of(double at, const double *shares, size_t count);

#define WINDOW_PARTS 32

/** The last seconds that were seen. */
struct usage_window {
    struct usage_part {
        double from;    /**< time at which it begins */
        double seconds; /**< that were seen */
        double sum;     /**< of share x seconds */
        double most;    /**< largest share of anything that the run holds */
    } parts[WINDOW_PARTS + 1];
    uint32_t first, count; /**< a ring: the oldest, and how many there are; the last one is being filled */
};

enum usage_verdict {
    USAGE_FINE,   /**< at work, or not seen idle for long enough */
    USAGE_ZOMBIE, /**< flagged */
    USAGE_STOP,   /**< flagged for so long that the policy has it stopped */
};

/** A run's watch, made by usage_watch_begin(); its figures may be read. */
struct usage_watch {
    double started;                       /**< time of the run's start */
    double at;                            /**< time of the last sample */
    bool sampled;                         /**< there is one */
    double seen_after;                    /**< seconds seen after the flag */
    struct usage_window lately, for_long; /**< busy_seconds and idle_seconds */
    enum usage_verdict verdict;
};

/** Begin to watch a run that was started at the moment `started`. */
void usage_watch_begin(struct usage_watch *watch, double started);

/** Take a sample, and judge. One that is not later than the last is left out. `policy` may change from one sample to
 * the next. */
enum usage_verdict usage_watch_take(struct usage_watch *watch, const struct usage_policy *policy,
                                    const struct usage_sample *sample);

/**
 * Say what was seen of a run that is flagged, as a message; "" of one that is not. `held` names what it holds: "8
 * GPUs". "it used 1.2 % of its 8 GPUs on average in the 1 h that was seen last, never more than 4 % of one: below 5 %
 * is taken for idle; it is stopped in 23 min unless it works again". Returns `text`.
 */
char *usage_watch_say(const struct usage_watch *watch, const struct usage_policy *policy, const char *held, char *text,
                      size_t size);

#endif
