/* SPDX-License-Identifier: Apache-2.0 */
/** Values of a run's metrics as people read them. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_METRIC_VALUE_H
#define WEFT_CLI_PLATFORM_CLIENT_METRIC_VALUE_H

#include "base/format/json.h"

#include <stddef.h>

#define METRIC_VALUE_BYTES 32

/**
 * A value with its unit, as the list of a run's metrics has it (observe/telemetry/metric_unit.h): "24.1 GiB", "59 %",
 * "1.4 MiB/s". One without a unit, or of one that is not known here, is a number. Returns `buffer`.
 */
char *metric_value_text(const char *unit, double value, char buffer[METRIC_VALUE_BYTES]);

/** A value as the interface gives it: a number, or the text "NaN", "Infinity" or "-Infinity"; NaN if it is neither. */
double metric_value_of(const cJSON *value);

/** Joules as "812 J", "3.1 Wh", "1.25 kWh". Returns `buffer`. */
char *metric_energy_text(double joules, char buffer[METRIC_VALUE_BYTES]);

#endif
