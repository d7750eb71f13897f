/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/run/progress.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_MS 60000 /* age at which another rank may take over, and a report is shown with its age */
#define LEAST_MS  1000  /* between two samples */
#define SHARE     64  /* the gap between two samples is 1/64 of the time since the first report, so 16 are a quarter */
#define LEFT_MOST 1e9 /* seconds: thirty years */

void run_progress_begin(struct run_progress_watch *watch, const struct run_progress *last)
{
    *watch = (struct run_progress_watch){.last = *last, .begun = last->reported};
    if (!last->reported)
        return;
    watch->samples[0].time = last->reported;
    watch->samples[0].done = last->done;
    watch->count = 1;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Units per second: the median between samples, including the current report. 0: not known. */
static double run_progress_rate_of(const struct run_progress_watch *watch, double done, int64_t time)
{
    double rates[RUN_PROGRESS_SAMPLES];
    size_t count = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        const bool last = i + 1 == watch->count;
        const int64_t until = last ? time : watch->samples[i + 1].time;
        const double reached = last ? done : watch->samples[i + 1].done;
        const int64_t span = until - watch->samples[i].time;
        if (span > 0 && (!last || count == 0 || span >= LEAST_MS))
            rates[count++] = (reached - watch->samples[i].done) / (double)span * 1000;
    }
    if (count == 0)
        return 0;
    qsort(rates, count, sizeof *rates, by_size);
    return (rates[(count - 1) / 2] + rates[count / 2]) / 2;
}

static void add_sample(struct run_progress_watch *watch, double done, int64_t time)
{
    const int64_t share = (time - watch->begun) / SHARE, gap = share > LEAST_MS ? share : LEAST_MS;
    if (watch->count > 0 && time - watch->samples[watch->count - 1].time < gap)
        return;
    if (watch->count == RUN_PROGRESS_SAMPLES)
        memmove(watch->samples, watch->samples + 1, --watch->count * sizeof *watch->samples);
    watch->samples[watch->count].time = time;
    watch->samples[watch->count++].done = done;
}

bool run_progress_take(struct run_progress_watch *watch, const struct metric_progress *report, int64_t rank,
                       int64_t time)
{
    struct run_progress *last = &watch->last;
    if (!report->known || time <= 0 || time < last->reported)
        return false;
    if (last->reported && rank > last->rank && time - last->reported < SILENT_MS)
        return false;
    if (!last->reported || rank != last->rank || report->done < last->done || report->total != last->total) {
        watch->count = 0;
        watch->begun = time;
    }
    const double rate = run_progress_rate_of(watch, report->done, time), remaining = report->total - report->done;
    const double left = report->seconds_left >= 0 ? report->seconds_left
                        : remaining <= 0          ? 0
                        : rate > 0                ? remaining / rate
                                                  : -1;
    add_sample(watch, report->done, time);
    *last = (struct run_progress){time, report->done, report->total, fmin(left, LEFT_MOST), rank};
    return true;
}

void run_progress_shift(struct run_progress_watch *watch, int64_t by)
{
    if (!watch->last.reported)
        return;
    watch->last.reported += by;
    watch->begun += by;
    for (uint32_t i = 0; i < watch->count; i++)
        watch->samples[i].time += by;
}

int64_t run_progress_end(const struct run_progress *progress, int64_t now)
{
    if (!progress->reported || progress->left < 0)
        return 0;
    const int64_t end = progress->reported + (int64_t)(progress->left * 1000);
    return end > now ? end : 0;
}

int run_progress_percent(double done, double total)
{
    return done >= total ? 100 : (int)fmin(99, floor(100 * (done / total)));
}

char *run_progress_say(const struct run_progress *progress, int64_t now, char text[RUN_PROGRESS_BYTES])
{
    char span[32];
    *text = 0;
    if (!progress->reported)
        return text;
    const int64_t age = now - progress->reported, end = run_progress_end(progress, now);
    const int length =
        snprintf(text, RUN_PROGRESS_BYTES, "%d %% done", run_progress_percent(progress->done, progress->total));
    char *rest = text + length, *after = text + RUN_PROGRESS_BYTES;
    if (age >= SILENT_MS)
        rest += snprintf(rest, (size_t)(after - rest), " as of %s ago",
                         text_seconds((double)age / 1000, span, sizeof span));
    if (end)
        snprintf(rest, (size_t)(after - rest), ", with %s left",
                 text_time_left((double)(end - now) / 1000, span, sizeof span));
    return text;
}
