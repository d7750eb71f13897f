/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/metric_value.h"

#include "base/text.h"
#include "observe/telemetry/metric_unit.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MOST 1e18

static char *bytes_text(double value, const char *more, char buffer[METRIC_VALUE_BYTES])
{
    char bytes[METRIC_VALUE_BYTES - 8];
    snprintf(buffer, METRIC_VALUE_BYTES, "%s%s", text_bytes((uint64_t)llround(value), bytes, sizeof bytes), more);
    return buffer;
}

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

static char *plain(double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.6g", value);
    return buffer;
}

static char *percent(double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.3g %%", 100 * value);
    return buffer;
}

static char *bytes(double value, char buffer[METRIC_VALUE_BYTES])
{
    return bytes_text(value, "", buffer);
}

static char *byte_rate(double value, char buffer[METRIC_VALUE_BYTES])
{
    return bytes_text(value, "/s", buffer);
}

static char *processors(double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.3g CPUs", value);
    return buffer;
}

static char *seconds(double value, char buffer[METRIC_VALUE_BYTES])
{
    return text_seconds(value, buffer, METRIC_VALUE_BYTES);
}

static char *watts(double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.4g W", value);
    return buffer;
}

static char *degrees(double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.4g °C", value);
    return buffer;
}

static const struct {
    const char *unit;
    char *(*text)(double value, char buffer[METRIC_VALUE_BYTES]);
} texts[] = {
    {METRIC_UNIT_SHARE, percent},         {METRIC_UNIT_BYTES, bytes},     {METRIC_UNIT_BYTE_RATE, byte_rate},
    {METRIC_UNIT_PROCESSORS, processors}, {METRIC_UNIT_SECONDS, seconds}, {METRIC_UNIT_JOULES, metric_energy_text},
    {METRIC_UNIT_WATTS, watts},           {METRIC_UNIT_DEGREES, degrees},
};

char *metric_value_text(const char *unit, double value, char buffer[METRIC_VALUE_BYTES])
{
    if (!(value >= 0 && value < BYTES_MOST)) /* nothing that was measured is */
        return plain(value, buffer);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].unit, unit) == 0)
            return texts[i].text(value, buffer);
    return plain(value, buffer);
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
