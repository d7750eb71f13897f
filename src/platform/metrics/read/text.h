/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writing the lines that platform/metrics/read/lines.h reads: {"step":10,"time":1700000000.5,"train/loss":1.25}.
 *
 *     struct metric_text text = {0};
 *     metric_text_begin(&text, 10, -1);
 *     metric_text_put(&text, "train/loss", 1.25);
 *     metric_text_end(&text);
 *     ... json_text(&text.line), json_size(&text.line), where text.count > 0 ...
 *     metric_text_free(&text);
 *
 * Values read back as they were, NaN and Infinity too. A line holds what a reader of one takes (METRIC_LINE_VALUES,
 * METRIC_LINE_MOST): metric_text_put() returns false when it is full. json_text() is NULL if memory ran
 * out.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_TEXT_H
#define WEFT_PLATFORM_METRICS_READ_TEXT_H

#include "base/format/json.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/** A zeroed struct is an empty line. */
struct metric_text {
    struct json_writer line;
    uint32_t count; /**< values in it */
};

/** Begin a line, the memory of the one before is used again. `time`: microseconds since 1970; -1: it does not say. */
void metric_text_begin(struct metric_text *text, int64_t step, int64_t time);

/** Add a value. False: this one does not fit any more, and the line is as it was. */
bool metric_text_put(struct metric_text *text, const char *name, double value);

/** A number as such a line has it: "1.25", "NaN", "Infinity", "-Infinity". Returns it, which may be `buffer`. */
const char *metric_text_number(double value, char buffer[TEXT_NUMBER_BYTES]);

/** End it, without a newline. */
void metric_text_end(struct metric_text *text);
void metric_text_free(struct metric_text *text);

#endif
