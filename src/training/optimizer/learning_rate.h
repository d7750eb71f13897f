/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The learning rate of each step: linear warm-up to the peak, then decay to a floor in one of several shapes; and how it
 * is scaled with the number of ranks.
 */
#ifndef WEFT_TRAINING_OPTIMIZER_LEARNING_RATE_H
#define WEFT_TRAINING_OPTIMIZER_LEARNING_RATE_H

#include <stdint.h>
#include <weft/train.h>

enum learning_rate_shape {
    LEARNING_RATE_COSINE, /**< half a wave (Loshchilov and Hutter 2017, "SGDR") */
    LEARNING_RATE_LINEAR, /**< a straight line */
    LEARNING_RATE_STEP, /**< a third at the peak, a third at the geometric mean of peak and floor, a third at the floor */
    LEARNING_RATE_WSD, /**< at the peak, then a line over the last LEARNING_RATE_DECAY of the steps (Hu et al. 2024,
                             "MiniCPM": warm-up, stable, decay) */
};

#define LEARNING_RATE_DECAY 0.2

/** "cosine", "linear", "step", "wsd", in the enumeration's order; ends with NULL. */
extern const char *const learning_rate_shapes[];

/** "none", "linear", "root": how the learning rate is scaled with the number of ranks, in the order of
 * weft_rate_scaling; ends with NULL. */
extern const char *const learning_rate_scalings[];

struct learning_rate {
    enum learning_rate_shape shape;
    double peak;     /**< after warm-up */
    double floor;    /**< at the last step */
    uint64_t warmup; /**< steps of linear rise */
    uint64_t steps;  /**< in the whole run */
};

/** The learning rate of step `step`, numbered from 0. */
double learning_rate_at(const struct learning_rate *schedule, uint64_t step);

/** `rate` as scaled for `ranks`. */
double learning_rate_scaled(double rate, weft_rate_scaling scaling, uint32_t ranks);

#endif
