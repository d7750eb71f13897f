/* SPDX-License-Identifier: Apache-2.0 */
/** The compute time of one rank, measured by running the model on random tokens, once for each size of micro-batch. */
#ifndef WEFT_TRAINING_PLAN_CALIBRATE_H
#define WEFT_TRAINING_PLAN_CALIBRATE_H

#include "training/model/model.h"

#define CALIBRATION_SIZES 32

/** Belongs to one thread. */
struct calibration {
    const struct model_description *description;
    struct device *device;
    uint32_t sequence;
    float *parameters, *gradients;
    double seconds[CALIBRATION_SIZES]; /**< of a micro-batch of 2^i sequences; 0: not measured yet */
    weft_status status;                /**< first failure of calibration_compute() */
    struct error error;
};

/** `description` and `device` are borrowed. */
weft_status calibration_open(struct calibration *calibration, const struct model_description *description,
                             struct device *device, uint32_t sequence, struct error *error);
void calibration_close(struct calibration *calibration);

/**
 * Seconds of forward and backward of a micro-batch of `sequences` (a power of two) sequences: the best of a few runs,
 * measured on first use. From 16 sequences on it is assumed proportional. Has the signature of struct
 * strategy_problem's member; a failure returns 0 and is stored.
 */
double calibration_compute(void *calibration, uint32_t sequences);

/** Seconds of clipping and one AdamW step. */
double calibration_update(struct calibration *calibration);

#endif
