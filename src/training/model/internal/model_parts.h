/* SPDX-License-Identifier: Apache-2.0 */
/** A model, for the files that make its passes: slots.c (memory), passes.c (layer by layer), model.c (all layers). */
#ifndef WEFT_TRAINING_MODEL_INTERNAL_MODEL_PARTS_H
#define WEFT_TRAINING_MODEL_INTERNAL_MODEL_PARTS_H

#include "training/model/layer.h"

/** A layer's memory in a slot. */
struct slot_layer {
    struct layer_places places;
    void *x; /**< the rows that enter; NULL: the caller has them, or it is the network's first layer */
};

/** The memory of one micro-batch. */
struct model_slot {
    struct model_arrays inputs; /**< those that the model's layers read */
    size_t target_count;        /**< targets that are not -1 */
    int32_t *table_rows;        /**< of each token: the row of a sparse gradient; NULL: gradients are not sparse */
    int32_t *distinct;          /**< in host memory: the tokens that these rows are of */
    size_t distinct_count;
    double *losses;        /**< loss_count() of them */
    uint64_t seed, sample; /**< of dropout */
    double loss_scale;
    struct slot_layer *layers; /**< of the whole network; those that the model does not run have no memory */
};

struct model {
    const struct model_description *description;
    struct device *device;
    struct model_options options; /**< `layers` is the model's copy */
    struct model_inputs inputs;
    void *memory;          /**< all of it */
    bool memory_is_shared; /**< from the tensor group, not from the device */
    struct model_slot *slots;
    struct slot_layer *slot_layers; /**< of all slots */
    int32_t *distinct;              /**< of all slots; NULL: gradients are not sparse */
    void *host;                     /**< losses, a row of logits, or token numbers, in host memory */

    /* For passes through all layers. */
    void *gradient;        /**< of the rows between two layers, during a backward pass */
    void *logits;          /**< model_logit_count() activations; outside of training */
    void *as_activations;  /**< all weights as activations; NULL where they are already */
    const void *cast_from; /**< the array that they were last cast from; NULL: out of date */
    bool prepared;         /**< a forward pass waits for its backward pass */

    model_watcher watcher; /**< NULL: none */
    void *watcher_context;
};

static inline size_t model_slot_count(const struct model *model)
{
    return model->options.slots ? model->options.slots : 1;
}

static inline bool model_runs_layer(const struct model *model, size_t layer)
{
    return !model->options.layers || model->options.layers[layer];
}

/** Whether a backward pass computes a layer's forward pass again. */
bool model_layer_is_recomputed(const struct model *model, size_t layer);

/** Layers before the first trained parameter need no backward pass. */
bool layer_is_passed_over(const struct model_description *description, size_t layer);

/** Whether the first layer's gradient of the tied table is sparse. */
static inline bool model_has_sparse_table(const struct model *model)
{
    return model->options.sparse_table && model->options.training && model_runs_layer(model, 0) &&
           model->description->layers[0].uses_tied;
}

/** Allocate the lists of slots, and free them. */
weft_status model_lists_open(struct model *model, struct error *error);
void model_lists_close(struct model *model);

/** Divide the memory at arena->base for a device of these types; with a base of NULL only arena->used is right. Returns
 * the bytes of a slot. */
size_t model_plan_memory(struct model *model, weft_type type, weft_type activations, struct arena *arena);

/** The pass of a call. `prepare`: dropout and label smoothing apply, and memory for the backward pass is filled. */
struct pass model_pass(const struct model *model, const struct layer_call *call, bool prepare);

/** The logits that a model has room for outside of training: those of each sample's classes, or of the tokens of one
 * row. */
static inline size_t model_logit_count(const struct model *model)
{
    const struct model_shape *shape = &model->description->shape;
    return shape->classes ? model->options.batch * shape->classes : shape->vocabulary;
}

/** The numbers that the last layer leaves in a slot's losses. */
size_t model_loss_count(const struct model *model, const struct layer_room *room);

/** The sizes for which the memory of a model on a device of these types is planned. */
struct layer_room model_room(const struct model *model, weft_type type, weft_type activations);

/** Errors: DATA for a number of an input that is out of bounds. */
weft_status model_check_input(const struct model *model, enum model_input input, const int32_t *numbers, size_t count,
                              struct error *error);

#endif
