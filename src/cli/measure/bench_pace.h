/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The pace of `weft bench train --paced`: each pass of a layer sleeps for as long as a rank takes to compute it.
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

struct bench_pace_source {
    double scale;            /**< passes take so many times as long */
    uint32_t together;       /**< ranks that compute at once while rank 0 measures, costs.h */
    const char *layer_times; /**< a file of layer times, read by rank 0 instead of measuring; NULL: measure */
};

/**
 * Find what the passes of `config` take, on rank 0, while the others wait. Collective.
 *
 * Errors: those of costs_measure_passes() and layer_times_read(), on all ranks; *speaks as in
 * training/parallel/agreement.h.
 */
weft_status bench_pace_open(const struct train_config *config, const struct bench_pace_source *source,
                            weft_context *context, struct bench_pace **pace, bool *speaks, struct error *error);
void bench_pace_close(struct bench_pace *pace);

/** For struct train_config; valid as long as the pace. */
const struct executor_pace *bench_pace_hook(const struct bench_pace *pace);

/** What each layer takes in all, for struct train_config's `costs`; valid as long as the pace. */
const double *bench_pace_costs(const struct bench_pace *pace);

#endif
