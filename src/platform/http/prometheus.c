/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/prometheus.h"

#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static void http_prometheus_put(struct prometheus *text, const char *words)
{
    buffer_put(&text->bytes, words, strlen(words));
}

/* With \\, \n and (in labels) \" as the format has them. */
static void put_escaped(struct prometheus *text, const char *words, bool label)
{
    for (; *words; words++)
        if (*words == '\\')
            http_prometheus_put(text, "\\\\");
        else if (*words == '\n')
            http_prometheus_put(text, "\\n");
        else if (*words == '"' && label)
            http_prometheus_put(text, "\\\"");
        else
            buffer_put(&text->bytes, words, 1);
}

void prometheus_family(struct prometheus *text, const char *name, const char *type, const char *help)
{
    text->family = name;
    http_prometheus_put(text, "# HELP ");
    http_prometheus_put(text, name);
    http_prometheus_put(text, " ");
    put_escaped(text, help, false);
    http_prometheus_put(text, "\n# TYPE ");
    http_prometheus_put(text, name);
    http_prometheus_put(text, " ");
    http_prometheus_put(text, type);
    http_prometheus_put(text, "\n");
}

void prometheus_sample(struct prometheus *text, double value, ...)
{
    char number[TEXT_NUMBER_BYTES];
    const char *name, *before = "{";
    va_list labels;
    http_prometheus_put(text, text->family);
    va_start(labels, value);
    while ((name = va_arg(labels, const char *))) {
        http_prometheus_put(text, before);
        http_prometheus_put(text, name);
        http_prometheus_put(text, "=\"");
        put_escaped(text, va_arg(labels, const char *), true);
        http_prometheus_put(text, "\"");
        before = ",";
    }
    va_end(labels);
    if (*before == ',')
        http_prometheus_put(text, "}");
    http_prometheus_put(text, " ");
    http_prometheus_put(text, isfinite(value) ? text_number(value, number)
                              : isnan(value)  ? "NaN"
                              : value > 0     ? "+Inf"
                                              : "-Inf");
    http_prometheus_put(text, "\n");
}

void prometheus_free(struct prometheus *text)
{
    buffer_free(&text->bytes);
}
