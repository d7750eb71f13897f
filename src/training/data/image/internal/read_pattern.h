/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Predicts where the next reads of a split begin, from the distances between past ones: a rank reads every R-th micro-batch,
 * or some neighboring ones of each step. A pattern belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_INTERNAL_READ_PATTERN_H
#define WEFT_TRAINING_DATA_IMAGE_INTERNAL_READ_PATTERN_H

#include <stdint.h>
#include <string.h>

#define READ_PATTERN_PERIOD 16u /* longest that is recognized */
#define READ_PATTERN_KEPT   (2 * READ_PATTERN_PERIOD + 1)

struct read_pattern {
    uint64_t first[READ_PATTERN_KEPT]; /**< of the last reads, the newest last */
    uint32_t count;
};

/** A read began at sample `first`. */
static inline void read_pattern_add(struct read_pattern *pattern, uint64_t first)
{
    if (pattern->count == READ_PATTERN_KEPT) {
        memmove(pattern->first, pattern->first + 1, (READ_PATTERN_KEPT - 1) * sizeof *pattern->first);
        pattern->count--;
    }
    pattern->first[pattern->count++] = first;
}

/** The distance before read `back` reads ago; 0: before the newest. */
static inline uint64_t read_pattern_distance(const struct read_pattern *pattern, uint32_t back)
{
    const uint32_t last = pattern->count - 1 - back;
    return pattern->first[last] - pattern->first[last - 1];
}

/** The shortest period that the distances have had twice; 0: there is none yet. */
static inline uint32_t read_pattern_period(const struct read_pattern *pattern)
{
    for (uint32_t period = 1; 2 * period < pattern->count; period++) {
        uint32_t same = 0;
        while (same < period && read_pattern_distance(pattern, same) == read_pattern_distance(pattern, same + period))
            same++;
        if (same == period)
            return period;
    }
    return 0;
}

/**
 * Where the read that comes `ahead` (1: next) begins, for reads of `samples`. Needs one read. Without a period, a distance
 * back is not repeated: it is a new start. No prediction is below 0, which would be near 2^64.
 */
static inline uint64_t read_pattern_predict(const struct read_pattern *pattern, uint32_t ahead, uint64_t samples)
{
    const uint32_t period = read_pattern_period(pattern);
    uint64_t first = pattern->first[pattern->count - 1];
    for (uint32_t i = 0; i < ahead; i++) {
        uint64_t distance = samples;
        if (period)
            distance = read_pattern_distance(pattern, period - 1 - i % period);
        else if (pattern->count > 1 && read_pattern_distance(pattern, 0) >> 63 == 0)
            distance = read_pattern_distance(pattern, 0);
        first += (first + distance) >> 63 ? samples : distance;
    }
    return first;
}

#endif
