/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What this machine's GPUs do, as NVIDIA's management library (NVML) tells it, which is loaded at run time: a machine
 * without the library, or without its driver, has no GPUs, and that is no error. Values, for GPU 0, 1 ... in the order
 * of their places on the bus (which is CUDA's where CUDA_DEVICE_ORDER=PCI_BUS_ID; go by the UUID):
 *
 *     machine/gpu/0/used              share of the last second, or less, in which a kernel ran, 0 to 1
 *     machine/gpu/0/memory/used       bytes
 *     machine/gpu/0/memory/total      bytes
 *     machine/gpu/0/power             watts
 *     machine/gpu/0/temperature       degrees Celsius
 *
 * A value that a GPU does not tell (use of one divided by MIG, power of old ones) is left out, and so are all of a GPU
 * that is lost, until it comes back. The library may take milliseconds to answer, and seconds about a GPU that is
 * failing: sample from a thread that may wait. Not thread-safe; no state but the library's own, which counts its users.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_GPU_METRICS_H
#define WEFT_OBSERVE_TELEMETRY_GPU_METRICS_H

#include "observe/telemetry/internal/measured_values.h"
#include "observe/telemetry/internal/nvml.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_TROUBLE_BYTES 400

/** A GPU as the last sample found it; NaN: not known. */
struct gpu_reading {
    char name[NVML_NAME_BYTES]; /**< "NVIDIA H100 80GB HBM3"; "" if it was never told */
    char uuid[NVML_UUID_BYTES]; /**< "GPU-..."; the same in every process and after every restart */
    bool lost;                  /**< it cannot be reached */
    int result;                 /**< why, a result of the library (internal/nvml.h); NVML_SUCCESS: it is not lost */
    double used;                /**< share, 0 to 1 */
    double memory_used, memory_total;
    double power;       /**< watts */
    double temperature; /**< degrees Celsius */
    double energy;      /**< joules since its driver was started, for differences (observe/telemetry/energy.h) */
};

struct gpu_metrics;

/**
 * Load `library` (NULL: NVML_LIBRARY; a path, for tests) and find the GPUs. Errors: MEMORY. With a library that exists
 * but cannot be used, the machine has no GPUs, and gpu_metrics_trouble() returns the reason.
 */
weft_status gpu_metrics_open(const char *library, struct gpu_metrics **metrics, struct error *error);
void gpu_metrics_close(struct gpu_metrics *metrics);

/** Read all GPUs. */
void gpu_metrics_sample(struct gpu_metrics *metrics);

/** The GPUs and how many there are; before the first sample only names are known. */
const struct gpu_reading *gpu_metrics_gpus(const struct gpu_metrics *metrics, uint32_t *count);

/** Add the values above. Errors: MEMORY. */
weft_status gpu_metrics_tell(const struct gpu_metrics *metrics, struct measured_values *values, struct error *error);

/** What is wrong, and what to do, as a message: a library that does not work, or the first GPU that is lost; "". */
const char *gpu_metrics_trouble(const struct gpu_metrics *metrics);

#endif
