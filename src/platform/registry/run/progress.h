/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An attempt's progress and time left, from its program's reports (struct metric_progress).
 *
 * The time left is the program's own estimate, or else what remains divided by the median of the rates between its
 * reports in the last quarter of the attempt, RUN_PROGRESS_SAMPLES of them at most: one slow or fast stretch does not
 * change it. A report with less done or another total starts a new estimate: the program works on something else, or
 * has gone back to a checkpoint. In a gang the lowest rank that reports counts, because in most programs rank 0 reports
 * for all; after a minute without its reports, another rank takes over.
 *
 * Reports are not trusted: only what is shown and the forecast of the queue may depend on them.
 * Times are milliseconds since 1970. Holds no memory; zeroed, it knows nothing.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_PROGRESS_H
#define WEFT_PLATFORM_REGISTRY_RUN_PROGRESS_H

#include "platform/metrics/read/lines.h"

#define RUN_PROGRESS_SAMPLES 16
#define RUN_PROGRESS_BYTES   96 /**< of the text */

/** The last report of an attempt. */
struct run_progress {
    int64_t reported; /**< when; 0: never, and the rest says nothing */
    double done, total;
    double left;  /**< seconds that were left at `reported`; -1: not known */
    int64_t rank; /**< that has reported it */
};

struct run_progress_watch {
    struct run_progress last;
    int64_t begun; /**< of the first report */
    uint32_t count;
    struct {
        int64_t time;
        double done;
    } samples[RUN_PROGRESS_SAMPLES]; /**< the oldest first */
};

/** Continue from a stored report; an empty one starts from nothing. */
void run_progress_begin(struct run_progress_watch *watch, const struct run_progress *last);

/** Take a report of `rank` at `time`. Returns whether it counts. */
bool run_progress_take(struct run_progress_watch *watch, const struct metric_progress *report, int64_t rank,
                       int64_t time);

/** The clock was set by so many milliseconds. */
void run_progress_shift(struct run_progress_watch *watch, int64_t by);

/** When an attempt should end by its last report; 0: it does not say, or that time has passed without its end. */
int64_t run_progress_end(const struct run_progress *progress, int64_t now);

/** "37 % done, with 3m45s left", "37 % done as of 5 min ago, with 12m00s left"; into `text`, which it returns. "" if
 * nothing is known. */
char *run_progress_say(const struct run_progress *progress, int64_t now, char text[RUN_PROGRESS_BYTES]);

/** Whole percent: 100 only where all is done. */
int run_progress_percent(double done, double total);

#endif
