/* SPDX-License-Identifier: Apache-2.0 */
/** Records what the passes of a network's layers do: see training/simulate/work.h. */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_WORK_RECORD_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_WORK_RECORD_H

#include "training/model/passes.h"
#include "training/model/tensor_group.h"
#include "training/simulate/work.h"

/** Must not move while it is open. */
struct work_recorder {
    const struct model_description *description;
    const bool *layers; /**< those that may be recorded; NULL: all */
    const struct work_settings *settings;
    struct device *device;     /**< counts */
    struct tensor_group group; /**< records collectives */
    struct model *plain;       /**< nothing is recomputed */
    struct model *recomputing; /**< NULL: nothing is to be */
    void *flat, *rows;         /**< address space for weights and gradients, and for the gradient of rows */
    struct layer_work *work;   /**< of the pass under way */
    struct layer_work core;    /**< of forward attention without the products around it */
    double first, limit;       /**< kernels before the pass; only so many of its kernels are recorded */
    bool overflowed;           /**< the list of collectives was too short */
};

/** Close it with work_recorder_close(), also after an error. Errors: those of model_work_open(). */
weft_status work_recorder_open(struct work_recorder *recorder, const struct model_description *description,
                               const bool *layers, const struct work_settings *settings, struct error *error);
void work_recorder_close(struct work_recorder *recorder);

/** The work of all passes of a layer. */
weft_status work_recorder_layer(struct work_recorder *recorder, size_t layer, struct layer_work work[WORK_PASSES],
                                struct error *error);

#endif
