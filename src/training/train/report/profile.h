/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The time of training steps on this rank, by layer and by kernel.
 *
 * A profile is given to a run in its configuration (train_config.profile). The trainer then computes on a device that
 * measures (training/tensor/profiled.h) and notifies the profile of layers and steps; results are the same. The profile
 * is that of one step, the median by wall time, so its parts add up to the total.
 *
 *     struct profile *profile;
 *     profile_open(3, 10, &profile, error);
 *     config.profile = profile;
 *     ... trainer_open, trainer_run ...
 *     const struct profile_step *step = profile_median(profile);
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_PROFILE_H
#define WEFT_TRAINING_TRAIN_REPORT_PROFILE_H

#include "training/model/model.h"
#include "training/tensor/profiled.h"

/** One layer in one direction. */
struct profile_turn {
    double seconds; /**< from its beginning to its end, with the time between kernels */
    double flops;   /**< as struct profiled_count has them */
};

struct profile_layer {
    struct profile_turn turns[2]; /**< by enum model_direction; all micro-batches of the step together */
};

/** One step. The seconds of all layers, of all kernels outside of them, and what remains make up `seconds`. */
struct profile_step {
    double seconds;
    double wait_seconds;                             /**< of what remains, waiting for other ranks */
    struct profile_layer *layers;                    /**< as many as the model has */
    struct profiled_count kernels[PROFILED_KERNELS]; /**< all of the step */
    struct profiled_count outside[PROFILED_KERNELS]; /**< those outside of layers: optimizer, sums, ... */
};

#define PROFILE_DEVICES 2

struct profile;

/** Room for `count` (at least 1) steps, after `warm` steps that are ignored. */
weft_status profile_open(size_t warm, size_t count, struct profile **profile, struct error *error);
void profile_close(struct profile *profile);

/** For the trainer: make room for the layers of a model. */
weft_status profile_describe(struct profile *profile, const struct model_description *description, struct error *error);
/** For the trainer: measure *device from now on. At most PROFILE_DEVICES: the model's, and the one that sums gradients
 * and takes the optimizer's steps. */
weft_status profile_measure(struct profile *profile, struct device **device, struct error *error);
/** For the trainer: a model_watcher; a step has ended. */
void profile_watch(void *profile, const struct model_turn *turn);
void profile_step_done(struct profile *profile, double seconds, double wait_seconds);

/** The median step; for an even count the shorter one of the middle two. NULL before the first. */
const struct profile_step *profile_median(const struct profile *profile);

#endif
