/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/metric_unit.h"

#include <fnmatch.h>
#include <stddef.h>

/* The first that fits; '*' stands for slashes, too. */
static const struct {
    const char *pattern, *unit;
} units[] = {
    {"system/machine/cpu/*", METRIC_UNIT_SHARE},         {"system/*/memory/*", METRIC_UNIT_BYTES},
    {"system/machine/swap/*", METRIC_UNIT_BYTES},        {"system/gpu/*/used", METRIC_UNIT_SHARE},
    {"system/machine/network/*", METRIC_UNIT_BYTE_RATE}, {"system/machine/disk/*", METRIC_UNIT_BYTE_RATE},
    {"system/machine/power/*", METRIC_UNIT_WATTS},       {"system/gpu/*/power", METRIC_UNIT_WATTS},
    {"system/gpu/*/temperature", METRIC_UNIT_DEGREES},   {"system/node/cpu", METRIC_UNIT_PROCESSORS},
    {"system/node/processor_time", METRIC_UNIT_SECONDS}, {"system/node/energy", METRIC_UNIT_JOULES},
};

const char *metric_unit(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fnmatch(units[i].pattern, name, 0) == 0)
            return units[i].unit;
    return "";
}
