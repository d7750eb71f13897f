/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Summaries of neighboring points of a series, and the levels that they make: level 0 has a summary a block, every
 * level above it one for METRIC_FAN of the level below. A curve of a million points is drawn from some thousand
 * summaries.
 *
 * NaN and infinities are counted, and take no part in minimum, maximum and sum. Thread-safe.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_SUMMARY_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_SUMMARY_H

#include "platform/metrics/store/internal/block.h"

#include <stdbool.h>

#define METRIC_FAN    16
#define METRIC_LEVELS 6 /**< 256 * 16^5: the highest summary stands for 268 million points */

#define METRIC_SUMMARY_BYTES 121

struct metric_summary {
    uint64_t count;              /**< of points; 0: of none, and nothing else below counts */
    uint64_t nan;                /**< of these, those that are NaN, */
    uint64_t infinite[2];        /**< minus infinity and plus infinity */
    double sum;                  /**< of the finite ones */
    struct metric_point lowest;  /**< the finite point of the least value, the first such; of no meaning if there is */
    struct metric_point highest; /**< none, as `highest` is */
    int64_t steps[2], times[2];  /**< least and greatest */
    bool rising;                 /**< no step is below one that came before it */
};

/** The number of points that are finite. */
static inline uint64_t metric_summary_finite(const struct metric_summary *summary)
{
    return summary->count - summary->nan - summary->infinite[0] - summary->infinite[1];
}

/** Take in the point, or the points of the summary, that came next. */
void metric_summary_point(struct metric_summary *summary, const struct metric_point *point);
void metric_summary_add(struct metric_summary *summary, const struct metric_summary *next);

/** The summary of `count` points. */
struct metric_summary metric_summary_of(const struct metric_point *points, size_t count);

/** As bytes of a database, all of them little-endian. Errors: DATA if they are invalid, with `where`. */
void metric_summary_write(const struct metric_summary *summary, uint8_t bytes[METRIC_SUMMARY_BYTES]);
weft_status metric_summary_read(const uint8_t *bytes, size_t size, const char *where, struct metric_summary *summary,
                                struct error *error);

/** What is not yet a whole summary, on each level: of METRIC_FAN summaries of the level below, so many are there. */
struct metric_levels {
    struct metric_summary partial[METRIC_LEVELS]; /**< [0] is not used: blocks are summed up where they are kept */
    unsigned filled[METRIC_LEVELS];
};

/**
 * Take in the summary of the next whole block. `emit` gets it as the one of level 0, then every summary of a higher
 * level that became whole by it; each is the next of its level. What `emit` returns as an error is passed on, and the
 * levels are then of no use.
 */
typedef weft_status metric_summary_emit(void *state, unsigned level, const struct metric_summary *summary,
                                        struct error *error);
weft_status metric_levels_add(struct metric_levels *levels, const struct metric_summary *block,
                              metric_summary_emit *emit, void *state, struct error *error);

#endif
