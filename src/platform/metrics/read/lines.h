/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A line of a program's output, or of a file, as metrics: a JSON object with a whole number "step" and other numbers.
 *
 *     {"step": 10, "train/loss": 1.25, "lr": 0.001}
 *     {"step": 10, "train": {"loss": 1.25}}            the same as "train/loss"
 *     [rank 3] {"step": 10, "loss": NaN}               as weft run shows it; NaN and Infinity as Python writes them
 *     {"event":"step","step":10,"loss":1.25}           as weft train --metrics writes it: the curve "train/loss"
 *     {"progress": 10, "of": 50, "seconds_left": 9}    how far the run is; alone, or beside the metrics of a step
 *
 * Other lines are not metrics and are treated as the program's output: lines without a "step", or with incomplete JSON.
 * "progress" needs no "step". Strings, arrays, true, false and null are skipped. Of an object's own keys three are no
 * curves: "step"; "time" if it is a number of seconds since 1970; "rank" if it is a whole number, for one program that
 * speaks for many ranks. Of the lines of weft train, those of steps, evaluations, checkpoints and recoveries are metrics
 * (of the latter two those that have a curve, names.h); a loss that was not finite is null there, and is NaN here.
 *
 * Where an object has the numbers "progress" and "of", these two and "seconds_left" report progress and are no curves.
 * The report counts if 0 <= progress <= of, of > 0, and all are finite; a "seconds_left" that is negative, not finite
 * or null is left out.
 *
 * Reading a line allocates no memory. Other lines (without a brace at the start, or without "step") cost one scan of
 * their bytes. Thread-safe.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_LINES_H
#define WEFT_PLATFORM_METRICS_READ_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METRIC_NAME_MOST   200   /**< bytes of a name, its groups included */
#define METRIC_LINE_VALUES 256   /**< of one line; those above are left out */
#define METRIC_LINE_MOST   65536 /**< bytes of a line; longer ones are not metrics */
#define METRIC_LINE_DEPTH  16    /**< nesting of objects and arrays; deeper lines are not metrics */

/** The members of a line that report progress. */
#define METRIC_PROGRESS     "progress"
#define METRIC_OF           "of"
#define METRIC_SECONDS_LEFT "seconds_left"

/** Measured by the node agent, not reported by the program. */
#define METRIC_SYSTEM        "system/"
#define METRIC_SYSTEM_ENERGY "system/node/energy" /**< joules of a node since its attempt began there */

struct metric_value {
    char name[METRIC_NAME_MOST + 1]; /**< "train/loss": printable */
    double value;
};

/** How far a run says it is, in units of its own: steps, bytes, epochs. */
struct metric_progress {
    bool known;          /**< the line reports it; otherwise the rest is 0 */
    double done, total;  /**< 0 <= done <= total, total > 0 */
    double seconds_left; /**< the program's own estimate; -1: it gives none */
};

struct metric_line {
    int64_t step;
    int64_t time;    /**< microseconds since 1970; -1: the line does not say */
    int32_t rank;    /**< -1: the line does not say */
    size_t count;    /**< of values: 1 at least, or 0 in a line that only reports progress; `step` is then 0 */
    size_t left_out; /**< values whose names are too long or empty, or that are too many */
    struct metric_progress progress;
    struct metric_value values[METRIC_LINE_VALUES];
};

#define METRIC_RANK_PREFIX "[rank " /**< what weft run puts before each line: "[rank 3] ", "[rank 3 host] " */
#define METRIC_NO_RANK     UINT32_MAX

/** The rank before a line, and the bytes of that prefix; METRIC_NO_RANK and 0 if there is none. */
uint32_t metric_line_rank(const char *line, size_t size, size_t *prefix);

/** Read a line of `length` bytes, with or without its newline. False if it is not a line of metrics; `metrics` is then
 * undefined. */
bool metric_line_read(const char *line, size_t length, struct metric_line *metrics);

#endif
