/* SPDX-License-Identifier: Apache-2.0 */
/**
 * weft/report.h: report a program's metrics and progress, one call each. Link with libweft; no other part of Weft is
 * needed.
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
 * Each call is a line of JSON, {"step":1,"time":1700000000.250000,"rank":0,"train/loss":1.5}. The platform draws these
 * lines as curves: each name is a graph, and the part before a slash is its group. A program may write such lines by
 * other means, for example to its standard output: docs/tutorials/report-metrics.md.
 *
 * The environment says where the lines go: WEFT_METRICS names a file, a pipe, or a directory in which each rank has a
 * file of its own (rank-3.jsonl). If it is not set, nothing is reported and a call costs nothing, so programs can keep
 * their calls wherever they run.
 *
 * Reporters keep no global state: several ranks that are threads of one process, or several libraries of one program,
 * can have one each.
 *
 * ## Errors
 *
 * As in weft/weft.h: a status, and a message in weft_message(NULL) of the calling thread. Failed writes do not stop
 * later reports, and a program may ignore them.
 *
 * ## Threads
 *
 * Several threads may use a reporter at the same time, except while one closes it.
 */
#ifndef WEFT_REPORT_H
#define WEFT_REPORT_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_reporter weft_reporter;

#define WEFT_REPORT_NAME_MOST 200 /**< largest size of a name in bytes */

/* ---- reporting ---- */

/**
 * Open a reporter.
 *
 * `path` is a file, which is appended to and created if it does not exist; a pipe with a reader; or a directory. NULL:
 * what WEFT_METRICS names. If that is not set, `*reporter` becomes NULL, which all calls here accept, and the status is
 * WEFT_OK. In a directory the file is rank-N.jsonl, where N is the rank that the launcher has given, and 0 without one.
 * The caller owns the reporter and ends it with weft_reporter_close().
 *
 * Errors: WEFT_ERROR_SYSTEM if the file cannot be opened or the pipe has no reader; WEFT_ERROR_ARGUMENT if the path is
 * too long; WEFT_ERROR_MEMORY.
 */
WEFT_API weft_status weft_reporter_open(const char *path, weft_reporter **reporter);

/**
 * Report the value of a metric at a step.
 *
 * `name` ("train/loss") has 1 to WEFT_REPORT_NAME_MOST bytes of UTF-8. Values that are not finite are reported as such.
 *
 * A call puts a line into a buffer of 4 KiB, which takes about half a microsecond. One write() empties the buffer when it
 * is full or its first line is a tenth of a second old; a killed process loses at most that much. Lines of several
 * processes in one file or pipe are not mixed up. It never waits for a reader: lines for which a pipe has no room are
 * dropped.
 *
 * Errors: WEFT_ERROR_ARGUMENT if the name is empty or too long; WEFT_ERROR_SYSTEM if lines could not be written. Each
 * failure is reported once, by the call that finds it or the next one, and reporting goes on.
 */
WEFT_API weft_status weft_report(weft_reporter *reporter, const char *name, int64_t step, double value);

/**
 * Report that `done` of `total` units of the run's work are done.
 *
 * The program chooses the units (steps, bytes, epochs); fractions are allowed. 0 <= done <= total, and total > 0.
 * `seconds_left` is the program's estimate of the seconds until it ends, including everything after the last unit. If it
 * is negative, the platform estimates the time from the rate between reports.
 *
 * The line is {"time":1700000000.250000,"rank":0,"progress":120,"of":1600,"seconds_left":225.5}, without the last member
 * if there is no estimate. These lines do not become curves. The platform shows the last report (weft ps, weft why, the
 * pages) and uses it to forecast when the runs start that wait for this one's slots. If several ranks report, the lowest
 * rank's reports count, so it is enough that rank 0 reports. Once a second is often enough. A program that resumes reports
 * the work of the whole run: 900 of 1600, not 0 of 700.
 *
 * Lines are buffered as in weft_report().
 *
 * Errors: WEFT_ERROR_ARGUMENT if the numbers are out of range; nothing is reported then. WEFT_ERROR_SYSTEM as for
 * weft_report().
 */
WEFT_API weft_status weft_report_progress(weft_reporter *reporter, double done, double total, double seconds_left);

/**
 * Write the buffered lines now.
 *
 * Errors: WEFT_ERROR_SYSTEM if lines could not be written.
 */
WEFT_API weft_status weft_reporter_flush(weft_reporter *reporter);

/**
 * Write the buffered lines and free the reporter.
 *
 * No other thread may be in a call with it. `reporter` may be NULL.
 *
 * Errors: WEFT_ERROR_SYSTEM if lines could not be written; the reporter is freed all the same.
 */
WEFT_API weft_status weft_reporter_close(weft_reporter *reporter);

#ifdef __cplusplus
}
#endif
#endif
