/* SPDX-License-Identifier: Apache-2.0 */
/** The units of metrics that are measured: one table of them, for all who show their values. */
#ifndef WEFT_OBSERVE_TELEMETRY_METRIC_UNIT_H
#define WEFT_OBSERVE_TELEMETRY_METRIC_UNIT_H

#define METRIC_UNIT_SHARE      "share" /**< of 0 to 1 */
#define METRIC_UNIT_BYTES      "bytes"
#define METRIC_UNIT_BYTE_RATE  "bytes/s"
#define METRIC_UNIT_PROCESSORS "CPUs" /**< as many as were at work all the time */
#define METRIC_UNIT_SECONDS    "s"
#define METRIC_UNIT_JOULES     "J"
#define METRIC_UNIT_WATTS      "W"
#define METRIC_UNIT_DEGREES    "°C"

/**
 * The unit of the metric `name` (observe/telemetry/machine_metrics.h, gpu_metrics.h, cpu_power.h,
 * platform/agent/internal/sampler.h); "" for counts, and for metrics that a program has reported, whose unit is not
 * known.
 */
const char *metric_unit(const char *name);

#endif
