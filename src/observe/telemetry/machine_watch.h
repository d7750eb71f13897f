/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The state of this machine, sampled every few seconds by a separate thread: processors, memory, network, disks
 * (machine_metrics.h), GPUs (gpu_metrics.h), power (cpu_power.h). The kernel, and a GPU that fails, may take seconds to
 * answer; machine_watch_read() never waits for them.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_MACHINE_WATCH_H
#define WEFT_OBSERVE_TELEMETRY_MACHINE_WATCH_H

#include "observe/telemetry/internal/measured_values.h"

struct machine_watch;

/** Begin, with a sample every `seconds`. Errors: SYSTEM, MEMORY. */
weft_status machine_watch_start(double seconds, struct machine_watch **watch, struct error *error);

/** The thread ends, or is left to itself where it waits for a GPU. NULL is allowed. */
void machine_watch_stop(struct machine_watch *watch);

/**
 * Copy the newest values to `values`, which are measured_values_free()d. `*number` counts samples from 1 on; 0: no
 * sample yet. From any thread. Errors: MEMORY.
 */
weft_status machine_watch_read(struct machine_watch *watch, struct measured_values *values, uint64_t *number,
                               struct error *error);

#endif
