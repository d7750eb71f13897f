/* SPDX-License-Identifier: Apache-2.0 */
/** The training of weft/train.h, for the files of this module, and for callers that need its shards. */
#ifndef WEFT_TRAINING_PARALLEL_TRAINING_H
#define WEFT_TRAINING_PARALLEL_TRAINING_H

#include "training/optimizer/optimizer.h"
#include "training/parallel/internal/gradient_sum.h"
#include "training/parallel/state_pieces.h"

#include <weft/train.h>

/* Values that are summed with the gradients, after the program's metrics. */
enum training_metric {
    TRAINING_METRIC_MISSING = WEFT_TRAINING_NOTES, /**< some gradient was not ready */
    TRAINING_METRIC_DISORDERED,                    /**< a bucket had to wait for one before it */
};

_Static_assert(TRAINING_METRIC_DISORDERED < GRADIENT_METRICS, "there is room for all metrics");
_Static_assert(WEFT_PARAMETER_DIMENSIONS == MODEL_DIMENSIONS && WEFT_PARAMETER_NAME_BYTES == MODEL_NAME_BYTES,
               "a parameter is a tensor of a flat array");

struct weft_training {
    weft_context *context;
    weft_comm *comm;
    weft_training_config config;
    struct optimizer optimizer;
    struct device *device;
    bool started;

    struct model_description
        description;    /**< parameters alone: as registered here, after the start in rank 0's order */
    uint32_t *index_of; /**< index in the description of each parameter in the order of registration on this rank */

    struct gradient_sum sum;
    struct shards shards;
    float *values;
    void *first_moments, *second_moments; /**< of this rank's shard; NULL: none */
    double *square_sums;                  /**< one per block, for the gradient's norm */
    uint16_t *bf16_values;                /**< the program's copy; NULL: none */

    uint64_t steps;
    bool in_micro_batch;             /**< some gradient of it is ready */
    bool *ready;                     /**< of each parameter, in the current micro-batch */
    size_t ready_count;              /**< how many are */
    bool *missing;                   /**< of each parameter: it was not ready in a micro-batch of this step */
    float metrics[GRADIENT_METRICS]; /**< of the current micro-batch */
    uint64_t agree_at;               /**< the order of gradients is not renegotiated before this step */
};

/** Store the message for weft_message(), and return the status. */
weft_status training_note_error(weft_training *training, weft_status status, const struct error *error);

/** Where the ranks have values and moments, for checkpoints, after weft_training_start(). Collective; errors as of
 * state_layout_open(). Close the layout before the training. */
weft_status training_state_layout_open(const weft_training *training, struct state_layout **layout, bool *speaks,
                                       struct error *error);

/** The division of values and moments among the ranks. */
const struct shards *training_shards(const weft_training *training);

/** Before the start: have arrays laid out as those of a model, whose parameters are the registered ones, in its order. */
void training_follow_model(weft_training *training, const struct model_description *model);

/** Which rank computes which micro-batch. */
const struct micro_batches *training_layout(const weft_training *training);

/** Returns the location of the pointer to the device that sums gradients and takes the optimizer's steps. Before
 * weft_training_start() that device may be replaced by one that wraps it. */
struct device **training_device(weft_training *training);

/** Gradient bytes fused into one all-reduce if neighbors become ready together. */
size_t training_bucket_bytes(const weft_training *training);

/** Set the number of steps done before this process began, from a checkpoint. */
void training_set_steps(weft_training *training, uint64_t steps);

#endif
