/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The pace of `weft bench train --paced`: each pass of a layer sleeps for as long as rank 0 alone takes to compute it.
 *
 * So the schedules of many ranks can be timed on few processors, with real messages and sums. Ranks that sleep leave
 * their processor to communication; ranks that compute do not. Passes for weights are timed right after those for
 * inputs, as in all schedules but zb-h1.
 */
#ifndef WEFT_CLI_MEASURE_BENCH_PACE_H
#define WEFT_CLI_MEASURE_BENCH_PACE_H

#include "training/parallel/execute/executor.h"
#include "training/train/state/config.h"

struct bench_pace;

/**
 * Measure the passes of `config` on rank 0, while the others wait. Passes then take `scale` times as long. Collective.
 *
 * Errors: those of trainer_open() and trainer_run(), on all ranks; *speaks as in training/parallel/agreement.h.
 */
weft_status bench_pace_open(const struct train_config *config, double scale, weft_context *context,
                            struct bench_pace **pace, bool *speaks, struct error *error);
void bench_pace_close(struct bench_pace *pace);

/** For struct train_config; valid as long as the pace. */
const struct executor_pace *bench_pace_hook(const struct bench_pace *pace);

#endif
