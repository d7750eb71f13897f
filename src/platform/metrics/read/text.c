/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/text.h"

#include "platform/metrics/read/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void metric_text_begin(struct metric_text *text, int64_t step, int64_t time)
{
    char seconds[32];
    text->count = 0;
    json_restart(&text->line);
    json_open_object(&text->line, NULL);
    json_put_integer(&text->line, "step", step);
    if (time < 0)
        return;
    snprintf(seconds, sizeof seconds, "%" PRId64 ".%06d", time / 1000000, (int)(time % 1000000));
    json_put_raw(&text->line, "time", seconds);
}

const char *metric_text_number(double value, char number[TEXT_NUMBER_BYTES])
{
    if (isfinite(value))
        return text_number(value, number);
    return isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

bool metric_text_put(struct metric_text *text, const char *name, double value)
{
    const size_t before = text->line.text.end;
    char number[TEXT_NUMBER_BYTES];
    if (text->count == METRIC_LINE_VALUES || strnlen(name, METRIC_NAME_MOST + 1) > METRIC_NAME_MOST)
        return false;
    json_put_raw(&text->line, name, metric_text_number(value, number));
    if (json_size(&text->line) + 1 > METRIC_LINE_MOST) {
        text->line.text.end = before;
        return false;
    }
    text->count++;
    return true;
}

void metric_text_end(struct metric_text *text)
{
    json_close(&text->line);
}

void metric_text_free(struct metric_text *text)
{
    json_end(&text->line);
    text->count = 0;
}
