/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/store/internal/summary.h"

#include "base/float_bits.h"

#include <math.h>

static int64_t least(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static int64_t greatest(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

void metric_summary_add(struct metric_summary *summary, const struct metric_summary *next)
{
    if (next->count == 0)
        return;
    if (summary->count == 0) {
        *summary = *next;
        return;
    }
    if (metric_summary_finite(next) > 0) {
        const bool any = metric_summary_finite(summary) > 0;
        if (!any || next->lowest.value < summary->lowest.value)
            summary->lowest = next->lowest;
        if (!any || next->highest.value > summary->highest.value)
            summary->highest = next->highest;
    }
    /* Each part rises, and what came next begins where the first ended or above. */
    summary->rising = summary->rising && next->rising && next->steps[0] >= summary->steps[1];
    summary->sum += next->sum;
    summary->count += next->count;
    summary->nan += next->nan;
    for (int i = 0; i < 2; i++)
        summary->infinite[i] += next->infinite[i];
    summary->steps[0] = least(summary->steps[0], next->steps[0]);
    summary->steps[1] = greatest(summary->steps[1], next->steps[1]);
    summary->times[0] = least(summary->times[0], next->times[0]);
    summary->times[1] = greatest(summary->times[1], next->times[1]);
}

/* Written out, for it is what drawing spends its time with where points are drawn one by one. */
void metric_summary_point(struct metric_summary *summary, const struct metric_point *point)
{
    const double value = point->value;
    if (summary->count == 0)
        *summary = (struct metric_summary){
            .steps = {point->step, point->step}, .times = {point->time, point->time}, .rising = true};
    if (!isfinite(value)) {
        summary->nan += isnan(value) != 0;
        summary->infinite[value > 0] += !isnan(value);
    } else {
        const bool first = metric_summary_finite(summary) == 0;
        if (first || value < summary->lowest.value)
            summary->lowest = *point;
        if (first || value > summary->highest.value)
            summary->highest = *point;
        summary->sum += value;
    }
    summary->count++;
    summary->rising = summary->rising && point->step >= summary->steps[1];
    summary->steps[0] = least(summary->steps[0], point->step);
    summary->steps[1] = greatest(summary->steps[1], point->step);
    summary->times[0] = least(summary->times[0], point->time);
    summary->times[1] = greatest(summary->times[1], point->time);
}

struct metric_summary metric_summary_of(const struct metric_point *points, size_t count)
{
    struct metric_summary summary = {0};
    for (size_t i = 0; i < count; i++)
        metric_summary_point(&summary, &points[i]);
    return summary;
}

/* ---- bytes ---- */

#define WORDS ((METRIC_SUMMARY_BYTES - 1) / 8)

void metric_summary_write(const struct metric_summary *summary, uint8_t bytes[METRIC_SUMMARY_BYTES])
{
    const struct metric_point *low = &summary->lowest, *high = &summary->highest;
    const uint64_t words[WORDS] = {
        summary->count,
        summary->nan,
        summary->infinite[0],
        summary->infinite[1],
        double_to_bits(summary->sum),
        (uint64_t)summary->steps[0],
        (uint64_t)summary->steps[1],
        (uint64_t)summary->times[0],
        (uint64_t)summary->times[1],
        (uint64_t)low->step,
        (uint64_t)low->time,
        double_to_bits(low->value),
        (uint64_t)high->step,
        (uint64_t)high->time,
        double_to_bits(high->value),
    };
    for (size_t i = 0; i < 8 * WORDS; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> 8 * (i % 8));
    bytes[8 * WORDS] = summary->rising;
}

/* Whatever the bytes say, nothing that is drawn from them runs over: counts have room to be added up. */
static bool sound(const struct metric_summary *summary)
{
    const uint64_t most = (uint64_t)1 << 48;
    return summary->count > 0 && summary->count < most && summary->nan <= summary->count &&
           summary->infinite[0] <= summary->count - summary->nan &&
           summary->infinite[1] <= summary->count - summary->nan - summary->infinite[0] &&
           summary->steps[0] <= summary->steps[1] && summary->times[0] <= summary->times[1];
}

weft_status metric_summary_read(const uint8_t *bytes, size_t size, const char *where, struct metric_summary *summary,
                                struct error *error)
{
    uint64_t words[WORDS] = {0};
    for (size_t i = 0; i < 8 * WORDS && i < size; i++)
        words[i / 8] |= (uint64_t)bytes[i] << 8 * (i % 8);
    struct metric_summary read = {
        .count = words[0],
        .nan = words[1],
        .infinite = {words[2], words[3]},
        .sum = double_from_bits(words[4]),
        .steps = {(int64_t)words[5], (int64_t)words[6]},
        .times = {(int64_t)words[7], (int64_t)words[8]},
        .lowest = {(int64_t)words[9], (int64_t)words[10], double_from_bits(words[11])},
        .highest = {(int64_t)words[12], (int64_t)words[13], double_from_bits(words[14])},
    };
    if (size != METRIC_SUMMARY_BYTES || bytes[8 * WORDS] > 1 || !sound(&read))
        return error_set(error, WEFT_ERROR_DATA, "%s: %zu bytes that are no summary of metrics", where, size);
    read.rising = bytes[8 * WORDS] == 1;
    *summary = read;
    return WEFT_OK;
}

/* ---- levels ---- */

weft_status metric_levels_add(struct metric_levels *levels, const struct metric_summary *block,
                              metric_summary_emit *emit, void *state, struct error *error)
{
    struct metric_summary whole = *block;
    weft_status status = emit(state, 0, &whole, error);
    for (unsigned level = 1; level < METRIC_LEVELS && status == WEFT_OK; level++) {
        metric_summary_add(&levels->partial[level], &whole);
        if (++levels->filled[level] < METRIC_FAN)
            break;
        whole = levels->partial[level];
        levels->partial[level] = (struct metric_summary){0};
        levels->filled[level] = 0;
        status = emit(state, level, &whole, error);
    }
    return status;
}
