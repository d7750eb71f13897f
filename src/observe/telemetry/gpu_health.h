/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether GPUs are fit for work, as NVIDIA's management library reports it. A GPU is ill if, in this order:
 *
 *     it is lost            it fell off the bus or has to be reset (gpu_metrics.h)
 *     a row of its memory   is bad, and could not be replaced by a spare one (remapped)
 *     its memory had        uncorrectable errors since its driver was started or it was reset
 *     its driver reported   a critical XID since gpu_health_open(), other than those that a program causes by itself
 *     it is slow            its hardware has halved its clocks or more in every sample of a minute: too hot, or too
 *                           little power
 *
 * XIDs are numbers of errors that the driver reports. NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors) lists
 * them with their possible causes. Those that a faulty program causes on a GPU that is fit do not count: 13, 31, 43, 45,
 * 68 and 109, the list by which NVIDIA's own Kubernetes device plugin goes. An event has the newest XID of its GPU only,
 * so of several in a row some may be missed.
 *
 * A function that the library lacks, or a GPU does not support, is not called, and that kind of illness is not seen. A
 * lost GPU is asked nothing: each question may take seconds.
 *
 * Not thread-safe. Tested with a stand-in for the library; not run on a GPU.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_GPU_HEALTH_H
#define WEFT_OBSERVE_TELEMETRY_GPU_HEALTH_H

#include "observe/telemetry/gpu_metrics.h"

#define GPU_ILLNESS_BYTES 400

struct gpu_health;

/**
 * Watch `count` GPUs of `metrics`, by their numbers there (`gpus`, copied); a number for which there is no GPU is always
 * fit. `metrics` outlives `*health`. Errors: MEMORY.
 */
weft_status gpu_health_open(const struct gpu_metrics *metrics, const uint32_t *gpus, uint32_t count,
                            struct gpu_health **health, struct error *error);

/** NULL is allowed. */
void gpu_health_close(struct gpu_health *health);

/** Examine the GPUs at time `now` (base/clock.h), right after gpu_metrics_sample(). */
void gpu_health_sample(struct gpu_health *health, uint64_t now);

/**
 * What is wrong with the GPU at `place` in the array given to gpu_health_open(), and what to do, as the last sample
 * found it: "GPU 3 (NVIDIA H100 80GB HBM3, GPU-...): 2 uncorrectable memory errors since its driver was started; reset
 * it or replace it". "": it is fit. Valid until the next sample.
 */
const char *gpu_health_illness(const struct gpu_health *health, uint32_t place);

#endif
