/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/internal/measured_values.h"
#include "observe/telemetry/metric_unit.h"

#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void measured_values_clear(struct measured_values *list)
{
    list->count = 0;
}

void measured_values_free(struct measured_values *list)
{
    free(list->values);
    *list = (struct measured_values){0};
}

weft_status measured_values_add(struct measured_values *list, double value, struct error *error, const char *format,
                                ...)
{
    va_list arguments;
    if (!isfinite(value))
        return WEFT_OK;
    if (ARRAY_RESERVE(list->values, list->room, list->count + 1, "measured values", error) != WEFT_OK)
        return WEFT_ERROR_MEMORY;
    struct measured_value *added = &list->values[list->count++];
    va_start(arguments, format);
    vsnprintf(added->name, sizeof added->name, format, arguments);
    va_end(arguments);
    added->value = value;
    return WEFT_OK;
}

double measured_values_find(const struct measured_values *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->values[i].name, name) == 0)
            return list->values[i].value;
    return NAN;
}

static bool belongs_in_name(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           (letter && strchr(".:_-", letter));
}

char *measured_name_part(const char *text, char part[MEASURED_PART_BYTES])
{
    size_t length = 0;
    for (; text[length] && length < MEASURED_PART_BYTES - 1; length++)
        part[length] = belongs_in_name(text[length]) ? text[length] : '_';
    part[length] = '\0';
    return part;
}

/* ---- units ---- */

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
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (fnmatch(units[i].pattern, name, 0) == 0)
            return units[i].unit;
    return "";
}
