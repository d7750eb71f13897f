/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Blocks: up to METRIC_BLOCK_POINTS points of one series, in the order in which they came, as bytes of a database.
 *
 * Steps and times are kept as variable-length differences (LEB128 of zigzag, as in protocol buffers: of steps the
 * difference of differences), values as 4 bytes each where all of the block are floats, else as 8: a point takes 7 to
 * 12 bytes where it would take 24. Every bit of every value comes back, those of a NaN included.
 *
 * What is read is checked as if a stranger had written it. Thread-safe.
 */
#ifndef WEFT_PLATFORM_METRICS_STORE_INTERNAL_BLOCK_H
#define WEFT_PLATFORM_METRICS_STORE_INTERNAL_BLOCK_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define METRIC_BLOCK_POINTS 256

/** Most bytes that a block takes. */
#define METRIC_BLOCK_BYTES (8 + METRIC_BLOCK_POINTS * 28)

/** One value of one metric at one rank. */
struct metric_point {
    int64_t step;
    int64_t time; /**< microseconds since 1970 */
    double value; /**< may be not finite */
};

/** Write `count` (1 to METRIC_BLOCK_POINTS) points; returns how many bytes they took. */
size_t metric_block_write(const struct metric_point *points, size_t count, uint8_t bytes[METRIC_BLOCK_BYTES]);

/**
 * Read the block that `bytes` begins with, which may be followed by something else: `*used` bytes are its own (NULL:
 * nothing may follow). Errors: DATA, with `where` ("block 3 of series 7"); then `points` holds nothing of use.
 */
weft_status metric_block_read(const uint8_t *bytes, size_t size, const char *where,
                              struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, size_t *used,
                              struct error *error);

#endif
