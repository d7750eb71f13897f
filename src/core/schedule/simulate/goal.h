/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules in GOAL, the text format of LogGOPSim and of other simulators of message passing (T. Hoefler, C. Siebert,
 * A. Lumsdaine, "Group Operation Assembly Language", ICPP 2009; T. Hoefler, T. Schneider, A. Lumsdaine, "LogGOPSim",
 * HPDC 2010), for a second opinion on a simulated time. Thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_GOAL_H
#define WEFT_CORE_SCHEDULE_SIMULATE_GOAL_H

#include "core/schedule/simulate/simulate.h"

#include <stdio.h>

/**
 * Write the schedules of all ranks, every segment of their loop, for blocks of `block_bytes`: each step is an operation
 * that requires the one before it in its lane and the steps that it waits for. Local work is `calc` in nanoseconds, as
 * the simulator counts it on `cluster`. The signals of ranks that share memory are messages of one byte, with tags from
 * 256 on.
 *
 * Errors: ARGUMENT for "exchange", which has neither messages nor work to write; MEMORY. Writing errors are left to
 * ferror().
 */
weft_status schedule_write_goal(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                                const struct simulated_cluster *cluster, uint64_t block_bytes, FILE *out,
                                struct error *error);

#endif
