/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/metric_value.h"

#include "base/text.h"
#include "observe/telemetry/metric_unit.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MOST 1e18

char *metric_energy_text(double joules, char buffer[METRIC_VALUE_BYTES])
{
    if (joules >= 3.6e6)
        snprintf(buffer, METRIC_VALUE_BYTES, "%.4g kWh", joules / 3.6e6);
    else if (joules >= 3600)
        snprintf(buffer, METRIC_VALUE_BYTES, "%.4g Wh", joules / 3600);
    else
        snprintf(buffer, METRIC_VALUE_BYTES, "%.4g J", joules);
    return buffer;
}

static char *write_bytes(double value, char buffer[METRIC_VALUE_BYTES])
{
    return text_bytes((uint64_t)llround(value), buffer, METRIC_VALUE_BYTES);
}

static char *write_seconds(double value, char buffer[METRIC_VALUE_BYTES])
{
    return text_seconds(value, buffer, METRIC_VALUE_BYTES);
}

/* How values of a unit are written: by a function, or as a number of `digits` times `scale`; then comes `after`. */
static const struct {
    const char *unit;
    char *(*write)(double value, char buffer[METRIC_VALUE_BYTES]);
    int digits;
    double scale;
    const char *after;
} units[] = {
    {METRIC_UNIT_SHARE, NULL, 3, 100, " %"},
    {METRIC_UNIT_BYTES, write_bytes, .after = ""},
    {METRIC_UNIT_BYTE_RATE, write_bytes, .after = "/s"},
    {METRIC_UNIT_PROCESSORS, NULL, 3, 1, " CPUs"},
    {METRIC_UNIT_SECONDS, write_seconds, .after = ""},
    {METRIC_UNIT_JOULES, metric_energy_text, .after = ""},
    {METRIC_UNIT_WATTS, NULL, 4, 1, " W"},
    {METRIC_UNIT_DEGREES, NULL, 4, 1, " °C"},
};

char *metric_value_text(const char *unit, double value, char buffer[METRIC_VALUE_BYTES])
{
    size_t i = 0;
    while (i < ARRAY_SIZE(units) && strcmp(units[i].unit, unit) != 0)
        i++;
    /* No measured value is negative or so large. */
    if (i == ARRAY_SIZE(units) || !(value >= 0 && value < BYTES_MOST))
        snprintf(buffer, METRIC_VALUE_BYTES, "%.6g", value);
    else if (!units[i].write)
        snprintf(buffer, METRIC_VALUE_BYTES, "%.*g%s", units[i].digits, units[i].scale * value, units[i].after);
    else
        strcat(units[i].write(value, buffer), units[i].after);
    return buffer;
}

double metric_value_of(const cJSON *value)
{
    if (cJSON_IsNumber(value))
        return value->valuedouble;
    const char *text = cJSON_GetStringValue(value);
    if (text && strcmp(text, "Infinity") == 0)
        return INFINITY;
    return text && strcmp(text, "-Infinity") == 0 ? -INFINITY : NAN;
}
