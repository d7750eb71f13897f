/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/report.h: a program's metrics and its progress, one call each. Link with libweft; nothing else of Weft need be
 * used.
 *
 *     weft_reporter *reporter;
 *     if (weft_reporter_open(NULL, &reporter) != WEFT_OK)
 *         fprintf(stderr, "%s\n", weft_message(NULL));
 *     for (int64_t step = 1; step <= steps; step++) {
 *         weft_report(reporter, "train/loss", step, loss);
 *         weft_report_progress(reporter, step, steps, -1);
 *     }
 *     weft_reporter_close(reporter);
 *
 * Each call is a line of JSON, {"step":1,"time":1700000000.250000,"rank":0,"train/loss":1.5}, which the platform draws
 * as a curve: every name is a graph of its own, those before a slash are groups. Any program may write such lines by
 * other means, on its standard output for example: docs/tutorials/report-metrics.md.
 *
 * The environment says where they go: WEFT_METRICS names a file, a pipe, or a directory in which each rank has a
 * file of its own (rank-3.jsonl). Where it is not set, nothing is reported, and a call costs nothing: programs can keep
 * their calls wherever they run.
 *
 * Reporters keep no global state: several ranks that are threads of one process, or several libraries of one program,
 * can have one each. Closing one leaves nothing behind.
 *
 * Errors: those of weft.h, with the message in weft_message(NULL) of the calling thread.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_reporter weft_reporter;

#define WEFT_REPORT_NAME_MOST 200 /**< bytes of a name */

/**
 * Begin. `path` is a file, which is appended to and made if it is not there, a pipe that somebody reads, or a
 * directory; NULL: what WEFT_METRICS names. If that names nothing, `*reporter` becomes NULL, which all calls here
 * accept, and the status is WEFT_OK. In a directory the file is rank-N.jsonl, by the rank that the launcher has given;
 * 0 where there is none.
 */
WEFT_API weft_status weft_reporter_open(const char *path, weft_reporter **reporter);

/**
 * Report the value of `name` ("train/loss", 1 to WEFT_REPORT_NAME_MOST bytes of UTF-8) at `step`. Values that are not
 * finite are reported as such. From any thread.
 *
 * A call puts a line into a buffer of 4 KiB (well under a microsecond), which is written by one write() when it is full
 * or its first line is a tenth of a second old: so much may be missing of a process that is killed. Lines of several
 * processes in one file or pipe do not get mixed up. It never waits for a reader: lines for which a pipe has no room
 * are dropped.
 *
 * Errors: ARGUMENT for a name that cannot be one; SYSTEM when lines could not be written. The call that
 * finds it, or the one after, reports it once, and reporting goes on; a program may well pay no attention.
 */
WEFT_API weft_status weft_report(weft_reporter *reporter, const char *name, int64_t step, double value);

/**
 * Report that `done` of `total` units of the run's work are done. Units are the program's own (steps, bytes, epochs)
 * and may be fractions; 0 <= done <= total, and total > 0. `seconds_left`: the program's own estimate of the seconds
 * until it ends, everything after the last unit included; negative: it has none, and the platform estimates the time
 * from the rate between reports.
 *
 * The line is {"time":1700000000.250000,"rank":0,"progress":120,"of":1600,"seconds_left":225.5}, without the last
 * member where there is no estimate. Any program may write such lines by other means. They are no curves. The platform
 * shows the last report (weft ps, weft why, the pages) and expects the runs that wait for this one's slots to start by
 * it. Where several ranks report, that of the lowest one counts: rank 0 alone may report. Once a second is enough. A
 * program that resumes reports the work of the whole run: 900 of 1600, not 0 of 700.
 *
 * From any thread, and buffered as weft_report() is. Errors: ARGUMENT for numbers that cannot be a progress, which
 * are not reported; SYSTEM as for weft_report().
 */
WEFT_API weft_status weft_report_progress(weft_reporter *reporter, double done, double total, double seconds_left);

/** Write what is in the buffer now. Errors: as above. */
WEFT_API weft_status weft_reporter_flush(weft_reporter *reporter);

/** Write it and end; no other thread may be in a call. Errors: as above; the reporter is gone all the same. */
WEFT_API weft_status weft_reporter_close(weft_reporter *reporter);

#ifdef __cplusplus
}
#endif
#endif
