/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How much of what they hold runs use: a watch (observe/telemetry/usage_watch.h) over each run that is measured, and what it
 * says, told once.
 *
 * Of a run that holds GPUs, the share in which they ran anything counts (system/gpu/SLOT/used); of one that holds
 * processors, its processor time (system/node/cpu) over its slots. A node that has not been heard of for a minute is
 * not known.
 *
 *     run_metrics_config.measured = run_use_measured, .context = use
 *     while (run_use_next(use, &told))
 *         ... flag it, or stop it ...
 *
 * Times are those of the records, so that what is read late is judged as if it had come in time. A new attempt starts
 * over. For an attempt that was under way before the watch began, the samples in the store are used first, so that a
 * restart of the server does not reset its idle time. Belongs to the store's thread.
 */
#ifndef WEFT_PLATFORM_METRICS_RUN_USE_H
#define WEFT_PLATFORM_METRICS_RUN_USE_H

#include "observe/telemetry/usage_watch.h"
#include "platform/metrics/run_metrics.h"
#include "platform/registry/registry.h"

#define RUN_USE_SENTENCE_BYTES 400

/** What is allowed to a run, into `policy`, which comes in as the default is. May be NULL: the default is for all. */
typedef void run_use_policy(void *context, int64_t run, struct usage_policy *policy);

struct run_use_config {
    struct database *registry;  /**< a reader will do */
    struct metric_store *store; /**< what was measured of an attempt before this watch began; NULL: nothing is known */
    run_use_policy *policy;
    void *context;
};

struct run_use;

/** Errors: MEMORY. */
weft_status run_use_open(const struct run_use_config *config, struct run_use **use, struct error *error);
void run_use_close(struct run_use *use);

/** For run_metrics_config, with the struct run_use as its context. A run that memory does not suffice for is not
 * watched. */
run_metrics_measured run_use_measured;

struct run_use_told {
    int64_t run, epoch;
    enum usage_verdict verdict;           /**< not USAGE_FINE, unless it was another one and that is over */
    char message[RUN_USE_SENTENCE_BYTES]; /**< what was seen; "" where it is fine again */
};

/** The next verdict that has changed and was not told yet; false: none. */
bool run_use_next(struct run_use *use, struct run_use_told *told);

/** What is seen of an attempt that is flagged, as of now; false, and "", of one that is not. */
bool run_use_say(const struct run_use *use, int64_t run, int64_t epoch, char message[RUN_USE_SENTENCE_BYTES]);

/** A node of that attempt has ended, and with it, or soon, all of it: nothing of the run is kept in mind. */
void run_use_end(struct run_use *use, int64_t run, int64_t epoch);

/** Forget runs that were not heard of for `seconds` before `now`, the time of a record (microseconds since 1970). */
void run_use_forget(struct run_use *use, uint64_t now, double seconds);

#endif
