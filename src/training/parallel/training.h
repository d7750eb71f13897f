/* SPDX-License-Identifier: Apache-2.0 */
/** A training of weft/train.h, for the files of this module, and for callers that need its shards. */
#ifndef WEFT_TRAINING_PARALLEL_TRAINING_H
#define WEFT_TRAINING_PARALLEL_TRAINING_H

#include "training/optimizer/optimizer.h"
#include "training/parallel/internal/data_parallel.h"
#include "training/parallel/internal/tensor_names.h"
#include "training/parallel/shards.h"

#include <weft/train.h>

/* What travels with the gradients behind the notes. */
enum training_extra {
    TRAINING_EXTRA_MISSING = WEFT_TRAINING_NOTES, /**< some gradient was not ready */
    TRAINING_EXTRA_DISORDERED,                    /**< a bucket waited for one that should have been ready before it */
};

_Static_assert(TRAINING_EXTRA_DISORDERED < DATA_PARALLEL_EXTRAS, "what travels has room");
_Static_assert(WEFT_PARAMETER_DIMENSIONS == MODEL_DIMENSIONS && WEFT_PARAMETER_NAME_BYTES == MODEL_NAME_BYTES,
               "a parameter is a tensor of a flat array");

struct weft_training {
    weft_context *context;
    weft_comm *comm;
    weft_training_config config;
    struct optimizer optimizer;
    struct device *device;
    bool started;

    struct tensor_name *names;        /**< as registered here; from the start on in rank 0's order */
    uint32_t count;                   /**< of them */
    struct model_description tensors; /**< from the start on: names and places alone */
    struct parameter_groups groups;   /**< how each of them is treated */
    uint32_t *numbers;                /**< of each parameter registered here: its number in `tensors` */

    struct data_parallel parallel;
    struct shards shards;
    float *values;
    void *first_moments, *second_moments; /**< of this rank's shard; NULL: none */
    double *square_sums;                  /**< a block each, for the gradient's norm */
    uint16_t *narrowed;                   /**< the program's; NULL: none */

    uint64_t steps;
    bool in_micro_batch;                /**< some gradient of it is ready */
    bool *ready;                        /**< of each tensor, in the micro-batch under way */
    uint32_t ready_count;               /**< how many are */
    bool *missing;                      /**< of each tensor: it was not ready in a micro-batch of this step */
    float extras[DATA_PARALLEL_EXTRAS]; /**< of the micro-batch under way */
    uint64_t agree_at;                  /**< no new order of gradients is agreed on before this step */
};

/** Keep the message for weft_message(), and pass the status on. */
weft_status training_note_error(weft_training *training, weft_status status, const struct error *error);

/** How values and moments are divided among the ranks. */
const struct shards *training_shards(const weft_training *training);

/** Which rank computes which micro-batch. */
const struct micro_batches *training_layout(const weft_training *training);

/** The place of the device that sums gradients and takes the optimizer's steps: before weft_training_start() another
 * may be put around it. */
struct device **training_device(weft_training *training);

/** Gradient bytes fused into one all-reduce, where neighbours become ready together. */
size_t training_bucket_bytes(const weft_training *training);

/** Steps done before this process began: what a checkpoint said. */
void training_set_steps(weft_training *training, uint64_t steps);

#endif
