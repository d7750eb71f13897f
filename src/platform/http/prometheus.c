/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/prometheus.h"

#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* With \\, \n and (in labels) \" as the format has them. */
static void put_escaped(struct buffer *bytes, const char *words, bool label)
{
    for (; *words; words++) {
        const bool escaped = *words == '\\' || *words == '\n' || (*words == '"' && label);
        if (escaped)
            buffer_put(bytes, "\\", 1);
        buffer_put(bytes, *words == '\n' ? "n" : words, 1);
    }
}

void prometheus_family(struct prometheus *text, const char *name, const char *type, const char *help)
{
    text->family = name;
    buffer_print(&text->bytes, "# HELP %s ", name);
    put_escaped(&text->bytes, help, false);
    buffer_print(&text->bytes, "\n# TYPE %s %s\n", name, type);
}

void prometheus_sample(struct prometheus *text, double value, ...)
{
    char number[TEXT_NUMBER_BYTES];
    const char *name, *before = "{";
    va_list labels;
    buffer_put_string(&text->bytes, text->family);
    va_start(labels, value);
    while ((name = va_arg(labels, const char *))) {
        buffer_print(&text->bytes, "%s%s=\"", before, name);
        put_escaped(&text->bytes, va_arg(labels, const char *), true);
        buffer_put(&text->bytes, "\"", 1);
        before = ",";
    }
    va_end(labels);
    buffer_print(&text->bytes, "%s %s\n", *before == ',' ? "}" : "",
                 isfinite(value) ? text_number(value, number)
                 : isnan(value)  ? "NaN"
                 : value > 0     ? "+Inf"
                                 : "-Inf");
}

void prometheus_free(struct prometheus *text)
{
    buffer_free(&text->bytes);
}
