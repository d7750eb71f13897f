/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/text.h"

#include "platform/metrics/read/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES (6 * METRIC_NAME_MOST) /* every byte escaped */

void metric_text_begin(struct metric_text *text, int64_t step, int64_t time)
{
    char head[96];
    buffer_consume(&text->bytes, buffer_size(&text->bytes));
    text->count = 0;
    int length = snprintf(head, sizeof head, "{\"step\":%" PRId64, step);
    if (time >= 0)
        length += snprintf(head + length, sizeof head - (size_t)length, ",\"time\":%" PRId64 ".%06d", time / 1000000,
                           (int)(time % 1000000));
    buffer_put(&text->bytes, head, (size_t)length);
}

const char *metric_text_number(double value, char number[TEXT_NUMBER_BYTES])
{
    if (isfinite(value))
        return text_number(value, number);
    return isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

static size_t read_text_escape(const char *name, char *to)
{
    size_t length = 0;
    for (; *name; name++) {
        const unsigned char byte = (unsigned char)*name;
        if (byte == '"' || byte == '\\')
            to[length++] = '\\';
        if (byte < 0x20)
            length += (size_t)sprintf(to + length, "\\u%04x", byte);
        else
            to[length++] = (char)byte;
    }
    return length;
}

bool metric_text_put(struct metric_text *text, const char *name, double value)
{
    char member[NAME_BYTES + TEXT_NUMBER_BYTES + 8] = ",\"", number[TEXT_NUMBER_BYTES];
    if (text->count == METRIC_LINE_VALUES || strnlen(name, METRIC_NAME_MOST + 1) > METRIC_NAME_MOST)
        return false;
    size_t length = 2 + read_text_escape(name, member + 2);
    length += (size_t)sprintf(member + length, "\":%s", metric_text_number(value, number));
    if (buffer_size(&text->bytes) + length + 1 > METRIC_LINE_MOST)
        return false;
    buffer_put(&text->bytes, member, length);
    text->count++;
    return true;
}

void metric_text_end(struct metric_text *text)
{
    buffer_put(&text->bytes, "}", 1);
}

void metric_text_free(struct metric_text *text)
{
    buffer_free(&text->bytes);
    text->count = 0;
}
