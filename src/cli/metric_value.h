/* SPDX-License-Identifier: Apache-2.0 */
/** Values of a run's metrics as people read them. */
#ifndef WEFT_CLI_METRIC_VALUE_H
#define WEFT_CLI_METRIC_VALUE_H

#include <stddef.h>

#define METRIC_VALUE_BYTES 32

/**
 * The value of the metric `name`: one that was measured ("system/...") with the unit that it has
 * (insight/machine_metrics.h, gpu_metrics.h, platform/node_sampler.h): "24.1 GiB", "59 %", "1.4 MiB/s". What a program
 * has reported is a number. Returns `buffer`.
 */
char *metric_value_text(const char *name, double value, char buffer[METRIC_VALUE_BYTES]);

/** Joules as "812 J", "3.1 Wh", "1.25 kWh". Returns `buffer`. */
char *metric_energy_text(double joules, char buffer[METRIC_VALUE_BYTES]);

#endif
