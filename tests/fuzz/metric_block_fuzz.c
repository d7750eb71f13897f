/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what the metrics' database keeps: blocks, summaries, rows of the spool. What is taken for one comes
 * back. */
#include "fuzz_file.h"

#include "platform/metrics/store/internal/flush.h"

#include <string.h>

static weft_status take(void *state, int64_t series, int64_t block, size_t offset, const struct metric_point *points,
                        size_t count, struct error *error)
{
    if (series < 1 || series >= METRIC_SERIES_MOST || block < 0 || block >= METRIC_BLOCKS_MOST || count == 0 ||
        offset + count >= METRIC_BLOCK_POINTS)
        abort();
    return WEFT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct metric_point points[METRIC_BLOCK_POINTS], again[METRIC_BLOCK_POINTS];
    struct metric_summary summary, sum = {0};
    uint8_t bytes[METRIC_BLOCK_BYTES];
    size_t count, found, used;
    if (metric_block_read(data, size, "", points, &count, &used, NULL) == WEFT_OK) {
        if (count == 0 || count > METRIC_BLOCK_POINTS || used > size)
            abort();
        const size_t written = metric_block_write(points, count, bytes);
        if (written > METRIC_BLOCK_BYTES ||
            metric_block_read(bytes, written, "", again, &found, NULL, NULL) != WEFT_OK || found != count ||
            memcmp(points, again, count * sizeof *points) != 0)
            abort();
        sum = metric_summary_of(points, count);
        if (sum.count != count || metric_summary_finite(&sum) > count || sum.steps[0] > sum.steps[1])
            abort();
    }
    if (metric_summary_read(data, size, "", &summary, NULL) == WEFT_OK) {
        metric_summary_write(&summary, bytes);
        if (memcmp(bytes, data, METRIC_SUMMARY_BYTES) != 0 || metric_summary_finite(&summary) > summary.count)
            abort();
        for (int i = 0; i < 100; i++)
            metric_summary_add(&sum, &summary);
    }
    metric_flush_read(data, size, take, NULL, NULL);
    return 0;
}
