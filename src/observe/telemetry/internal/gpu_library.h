/* SPDX-License-Identifier: Apache-2.0 */
/** What gpu_health.c needs of gpu_metrics.c: the library and the handles of GPUs, which are opened once for both. */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_GPU_LIBRARY_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_GPU_LIBRARY_H

#include "observe/telemetry/gpu_metrics.h"

/** The library's function of that name; NULL: it has none, or the library does not work. */
void *gpu_metrics_function(const struct gpu_metrics *metrics, const char *name);

/** The handle of GPU `index`, which must exist; NULL: it could not be had. */
struct nvml_device *gpu_metrics_device(const struct gpu_metrics *metrics, uint32_t index);

/** The library's text for a result; valid until the library is closed. */
const char *gpu_metrics_reason(const struct gpu_metrics *metrics, int result);

#endif
