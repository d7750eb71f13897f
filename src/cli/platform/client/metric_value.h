/* SPDX-License-Identifier: Apache-2.0 */
/** Values of a run's metrics as text for people. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_METRIC_VALUE_H
#define WEFT_CLI_PLATFORM_CLIENT_METRIC_VALUE_H

#include "base/format/json.h"

#include <stddef.h>

#define METRIC_VALUE_BYTES 32

/**
 * Write a value with its unit, one of observe/telemetry/metric_unit.h: "24.1 GiB", "59 %", "1.4 MiB/s". A value without
 * a unit, or of an unknown unit, is written as a number. Returns `buffer`.
 */
char *metric_value_text(const char *unit, double value, char buffer[METRIC_VALUE_BYTES]);

/** A value of the HTTP interface: a number, or one of the texts "NaN", "Infinity", "-Infinity"; NaN if it is neither. */
double metric_value_of(const cJSON *value);

/** Joules as "812 J", "3.1 Wh", "1.25 kWh". Returns `buffer`. */
char *metric_energy_text(double joules, char buffer[METRIC_VALUE_BYTES]);

#endif
