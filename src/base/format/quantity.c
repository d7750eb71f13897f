/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format/quantity.h"

#include "base/array.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Factors are long double, so that the double that "67.1 GFLOP/s" reads as is the one that "67100000000" reads as. */
struct quantity_unit {
    const char *name;
    long double factor;
    bool printed; /* quantity_text() uses it; of a quantity, from the smallest to the largest */
};

static const struct quantity_unit units_of_bytes[] = {
    {"B", 1, true},          {"kB", 1e3, true},          {"MB", 1e6, true},
    {"GB", 1e9, true},       {"TB", 1e12, true},         {"KiB", 1024, false},
    {"MiB", 1048576, false}, {"GiB", 1073741824, false}, {"TiB", 1099511627776, false},
};
static const struct quantity_unit units_of_seconds[] = {
    {"ns", 1e-9L, true},
    {"us", 1e-6L, true},
    {"ms", 1e-3L, true},
    {"s", 1, true},
};
static const struct quantity_unit units_of_bandwidth[] = {
    {"B/s", 1, true},
    {"kB/s", 1e3, true},
    {"MB/s", 1e6, true},
    {"GB/s", 1e9, true},
    {"TB/s", 1e12, true},
    {"KiB/s", 1024, false},
    {"MiB/s", 1048576, false},
    {"GiB/s", 1073741824, false},
    {"bit/s", 1 / 8.0L, false},
    {"kbit/s", 1e3 / 8, false},
    {"Mbit/s", 1e6 / 8, false},
    {"Gbit/s", 1e9 / 8, false},
    {"Tbit/s", 1e12 / 8, false},
};
static const struct quantity_unit units_of_operations[] = {
    {"FLOP", 1, true},    {"kFLOP", 1e3, true},  {"MFLOP", 1e6, true},
    {"GFLOP", 1e9, true}, {"TFLOP", 1e12, true}, {"PFLOP", 1e15, true},
};
static const struct quantity_unit units_of_speed[] = {
    {"FLOP/s", 1, true},    {"kFLOP/s", 1e3, true},  {"MFLOP/s", 1e6, true},
    {"GFLOP/s", 1e9, true}, {"TFLOP/s", 1e12, true}, {"PFLOP/s", 1e15, true},
};

static const struct {
    const struct quantity_unit *units;
    size_t count;
    const char *example;
} quantities[QUANTITIES] = {
    [QUANTITY_NUMBER] = {NULL, 0, "a number without a unit"},
    [QUANTITY_BYTES] = {units_of_bytes, ARRAY_SIZE(units_of_bytes), "a size, as in \"80 GB\" or \"64 KiB\""},
    [QUANTITY_SECONDS] = {units_of_seconds, ARRAY_SIZE(units_of_seconds), "a time, as in \"1.5 us\" (ns, us, ms, s)"},
    [QUANTITY_BYTES_PER_SECOND] = {units_of_bandwidth, ARRAY_SIZE(units_of_bandwidth),
                                   "a bandwidth, as in \"25 GB/s\" or \"200 Gbit/s\""},
    [QUANTITY_OPERATIONS] = {units_of_operations, ARRAY_SIZE(units_of_operations),
                             "a number of operations, as in \"2 GFLOP\""},
    [QUANTITY_OPERATIONS_PER_SECOND] = {units_of_speed, ARRAY_SIZE(units_of_speed),
                                        "operations per second, as in \"312 TFLOP/s\""},
};

weft_status quantity_parse(const char *text, const char *what, enum quantity quantity, double least, double most,
                           double *value, struct error *error)
{
    char *end = NULL, low[QUANTITY_TEXT_BYTES], high[QUANTITY_TEXT_BYTES];
    long double read = strtold(text, &end), factor = 1;
    if (end == text || isspace((unsigned char)*text) || !isfinite(read))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is '%.100s'; it must be %s", what, text,
                         quantities[quantity].example);
    while (*end == ' ')
        end++;
    if (*end) {
        factor = 0;
        for (size_t i = 0; i < quantities[quantity].count; i++)
            if (strcmp(quantities[quantity].units[i].name, end) == 0)
                factor = quantities[quantity].units[i].factor;
    }
    if (factor == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is '%.100s', and '%.40s' is not a unit of it; it must be %s",
                         what, text, end, quantities[quantity].example);
    double number = (double)(read * factor);
    if (!(number >= least && number <= most))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is %.100s; it must be from %s to %s", what, text,
                         quantity_text(least, quantity, low), quantity_text(most, quantity, high));
    *value = number;
    return WEFT_OK;
}

char *quantity_text(double value, enum quantity quantity, char buffer[QUANTITY_TEXT_BYTES])
{
    const struct quantity_unit *unit = NULL, *units = quantities[quantity].units;
    for (size_t i = 0; i < quantities[quantity].count; i++)
        if (units[i].printed && (!unit || fabs(value) >= units[i].factor * (1 - 1e-9)))
            unit = &units[i];
    if (unit && value != 0)
        snprintf(buffer, QUANTITY_TEXT_BYTES, "%.6g %s", (double)(value / unit->factor), unit->name);
    else
        snprintf(buffer, QUANTITY_TEXT_BYTES, "%.6g", value);
    return buffer;
}
