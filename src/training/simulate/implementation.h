/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a training system makes of a network's arithmetic, as data: number formats, fused kernels, memory for each
 * parameter, what overlaps. Weft's own and those of published systems, so that their measured steps can be predicted.
 *
 * Constants; thread-safe.
 */
#ifndef WEFT_TRAINING_SIMULATE_IMPLEMENTATION_H
#define WEFT_TRAINING_SIMULATE_IMPLEMENTATION_H

#include "base/error.h"
#include "core/topology/cluster_device.h"
#include "weft/weft.h"

#include <stdbool.h>

struct implementation {
    const char *name;                 /**< "weft", "megatron-lm" */
    const char *about;                /**< for people: lower case, no full stop */
    bool runnable;                    /**< `weft train` does exactly this */
    enum cluster_precision precision; /**< of matrix products */
    weft_type type;                   /**< of weights as layers read them, and of rows between layers */
    weft_type activations;            /**< of arrays within layers */

    /* Memory and traffic; bytes for each parameter first. */
    double weight_bytes;         /**< as layers read them */
    double gradient_bytes;       /**< sums over micro-batches */
    double gradient_wire_bytes;  /**< as the data axis moves them */
    double optimizer_bytes;      /**< moments and, if any, the master copy: what ZeRO-1 divides */
    double update_traffic_bytes; /**< read and written by a step of AdamW; unused where `runnable` (work_step()) */
    double accumulation_bytes;   /**< read and written to add the gradients of a micro-batch; 0: part of the product */

    double runtime_bytes; /**< of a device besides: contexts, workspaces, buckets, fragmentation */
    double logit_bytes;   /**< of further copies of the logits, for each of them */
    size_t
        layers_of_checkpoint; /**< full recomputation keeps the input of so many neighboring layers: 1 or 2, a block */
    bool keeps_outputs;       /**< a stage keeps the rows that it has sent until their gradient comes */
    bool gathers_again; /**< where rows are divided, inputs of products are gathered again for the backward pass, not
                                    kept whole */

    double launches; /**< kernels that it starts for each of Weft's */

    /* Attention. */
    bool stores_scores;        /**< softmax's input and output are written to memory, as before FlashAttention */
    bool skips_masked;         /**< scores that the causal mask hides are not computed */
    double score_dropout;      /**< share of attention's probabilities that is dropped */
    bool recomputes_core_only; /**< "attention" recomputes scores and softmax but not the products around them
                                  (Korthikanti et al. 2022); otherwise the whole layer up to its last product */
    bool recomputes_outputs;   /**< full recomputation repeats the last product and its sum over the tensor axis, too */

    /* The step. */
    bool overlaps_reductions; /**< gradients move while the backward pass goes on */
    bool overlaps_sharing;    /**< ZeRO-1 and 2: new weights move while the next step's forward pass goes on */
    bool
        scatters_messages; /**< each rank of a tensor axis sends a part of the rows between stages, and they are gathered
                                 within the next stage (Narayanan et al. 2021, section 4.1) */
    bool overlaps_pipeline; /**< messages between stages move while a stage computes */
};

/** Weft's own with products in `precision`, weights and rows between layers in f32. */
const struct implementation *implementation_weft(enum cluster_precision precision);

/** The one called `name`. An unknown name is WEFT_ERROR_ARGUMENT, and the message lists the names. */
weft_status implementation_find(const char *name, const struct implementation **implementation, struct error *error);

#endif
