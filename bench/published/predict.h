/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The predicted time of a row's iteration: the step is simulated (training/simulate/step_simulate.h) on the described
 * cluster that it ran on, with at most ten parameters of devices and links changed.
 */
#ifndef BENCH_PUBLISHED_PREDICT_H
#define BENCH_PUBLISHED_PREDICT_H

#include "clusters.h"
#include "rows.h"
#include "training/simulate/described_memory.h"
#include "training/simulate/step_simulate.h"

/** A row, ready to be predicted. */
struct prediction {
    const struct row *row;
    struct published_cluster *cluster;             /**< borrowed; rows of the same cluster and ranks share it */
    struct model_description *description, *whole; /**< divided over the tensor axis, and not */
    uint32_t micro_batch, virtual_stages; /**< the row's; where not published, the fastest with unfitted parameters */
};

/** Close it with prediction_close(), also after an error. */
weft_status prediction_open(const struct row *row, struct published_cluster *cluster, struct prediction *prediction,
                            struct error *error);
void prediction_close(struct prediction *prediction);

/** Simulate an iteration. */
weft_status prediction_simulate(const struct prediction *prediction, const double parameters[PARAMETERS],
                                struct step_result *result, struct error *error);

/** Bytes of the pipeline rank that needs the most, and what it needs them for. */
double prediction_memory(const struct prediction *prediction, struct described_memory *of_largest);

#endif
