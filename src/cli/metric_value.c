/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metric_value.h"

#include "base/text.h"

#include <fnmatch.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define BYTES_MOST 1e18

enum unit {
    SHARE,
    BYTES,
    BYTES_A_SECOND,
    PROCESSORS,
    SECONDS,
    JOULES,
    WATTS,
    DEGREES,
};

/* The first that fits; '*' stands for slashes, too. */
static const struct {
    const char *pattern;
    enum unit unit;
} units[] = {
    {"system/machine/cpu/*", SHARE},
    {"system/*/memory/*", BYTES},
    {"system/machine/swap/*", BYTES},
    {"system/gpu/*/used", SHARE},
    {"system/machine/network/*", BYTES_A_SECOND},
    {"system/machine/disk/*", BYTES_A_SECOND},
    {"system/machine/power/*", WATTS},
    {"system/gpu/*/power", WATTS},
    {"system/gpu/*/temperature", DEGREES},
    {"system/node/cpu", PROCESSORS},
    {"system/node/processor_time", SECONDS},
    {"system/node/energy", JOULES},
};

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

static char *with_unit(enum unit unit, double value, char buffer[METRIC_VALUE_BYTES])
{
    switch (unit) {
    case SHARE:
        snprintf(buffer, METRIC_VALUE_BYTES, "%.3g %%", 100 * value);
        return buffer;
    case BYTES:
        return bytes_text(value, "", buffer);
    case BYTES_A_SECOND:
        return bytes_text(value, "/s", buffer);
    case PROCESSORS:
        snprintf(buffer, METRIC_VALUE_BYTES, "%.3g CPUs", value);
        return buffer;
    case SECONDS:
        return text_seconds(value, buffer, METRIC_VALUE_BYTES);
    case JOULES:
        return metric_energy_text(value, buffer);
    case WATTS:
        snprintf(buffer, METRIC_VALUE_BYTES, "%.4g W", value);
        return buffer;
    case DEGREES:
        snprintf(buffer, METRIC_VALUE_BYTES, "%.4g °C", value);
        return buffer;
    }
    return buffer;
}

char *metric_value_text(const char *name, double value, char buffer[METRIC_VALUE_BYTES])
{
    snprintf(buffer, METRIC_VALUE_BYTES, "%.6g", value);
    if (!(value >= 0 && value < BYTES_MOST)) /* nothing that was measured is */
        return buffer;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fnmatch(units[i].pattern, name, 0) == 0)
            return with_unit(units[i].unit, value, buffer);
    return buffer;
}
