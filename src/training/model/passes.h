/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Passes layer by layer, for schedules: several micro-batches under way at a time, some of a network's layers, and
 * parameters that lie group by group wherever the caller has them.
 *
 *     struct model_options options = {.batch = batch, .sequence = sequence, .training = true, .slots = 2};
 *     status = model_open(description, device, &options, &model, error);
 *     ...
 *     status = model_slot_load(model, slot, &micro_batch, error);
 *     for (layer = 0; layer < layers; layer++)
 *         model_layer_forward(model, &(struct layer_call){.layer = layer, .slot = slot, .arrays = &arrays[layer]}, true);
 *     status = model_slot_loss(model, slot, &loss, error);
 *     for (layer = layers; layer-- > 0;) {
 *         const struct layer_call call = {.layer = layer, .slot = slot, .arrays = &arrays[layer]};
 *         model_layer_backward_input(model, &call, gradient);
 *         model_layer_backward_weights(model, &call);
 *     }
 *
 * A *slot* keeps what the backward pass of one micro-batch needs of a run of neighboring layers. Any slot serves any run
 * of the layers that the model has. Rows pass from layer to layer within the slot. Where a run begins or ends within
 * the network, the caller has them: `x` and `y` of struct layer_call.
 *
 * Passes of different slots may be mixed in any order. Within a slot a layer's passes are forward, input, weights.
 * Without `split` (struct model_options) the weights pass follows its input pass, with no other pass between them.
 * Kernels are queued on the device; model_slot_loss() waits for them.
 */
#ifndef WEFT_TRAINING_MODEL_PASSES_H
#define WEFT_TRAINING_MODEL_PASSES_H

#include "training/model/model.h"

/**
 * Where the parameters of a layer are, on the device. What a layer does not use may be NULL.
 *
 * Arrays named "activations" hold the same values as activations. They are the same arrays where both types are.
 */
struct layer_arrays {
    const void *own; /**< the layer's group: model_layer_group() */
    const void *own_activations;
    const void *tied; /**< the tied table */
    const void *tied_activations;
    void *gradients;      /**< of the layer's group; for the weights pass only */
    void *tied_gradients; /**< this layer's part of the gradient of the tied table; for the weights pass only */
    bool is_sparse;       /**< that has the rows of model_slot_table_rows() alone, */
    size_t sparse_rows;   /**< and this many of them */
};

/** The arrays of a layer within flat arrays. `gradients` has gradient_elements, or is NULL. */
struct layer_arrays model_layer_arrays(const struct model_description *description, const struct device *device,
                                       size_t layer, const void *values, const void *activations, void *gradients);

/** A pass of a layer. The backward passes get the same x as the forward pass, with the same values, and no y. */
struct layer_call {
    size_t layer;
    size_t slot;
    const void *x; /**< rows that enter; NULL: those that the layer before left in the slot */
    void *y;       /**< where the rows that leave go; NULL: into the slot, for the next layer */
    const struct layer_arrays *arrays;
};

/**
 * Whether the passes of two layers launch the same kernels, on arrays of the same sizes and in the same order. They do if
 * the layers are of one kind, with equal settings and shapes of parameters, and backward passes reach both or neither.
 */
bool model_layers_are_alike(const struct model_description *description, size_t a, size_t b);

/**
 * Begin a micro-batch in a slot. Arrays that none of the model's layers reads may be NULL
 * (training/model/inputs.h). Errors: DATA for a number that is out of bounds, such as a token outside the vocabulary.
 */
weft_status model_slot_load(struct model *model, size_t slot, const struct model_batch *batch, struct error *error);

/** The rows that leave a layer; the losses in the slot, after the last one. `prepare`: backward passes follow, with
 * dropout and label smoothing. */
void model_layer_forward(struct model *model, const struct layer_call *call, bool prepare);

/**
 * `gradient`, of the rows that leave, becomes that of the rows that enter, in place: it has room for either
 * (description->widest elements a row are enough). The network's last layer overwrites it, the first one leaves no
 * gradient in it. Recomputes the layer's forward pass first if the model's options say so. Layers before
 * description->first_trainable leave it as it is.
 */
void model_layer_backward_input(struct model *model, const struct layer_call *call, void *gradient);

/**
 * With `sparse_table` (struct model_options): the tokens that occur in the slot's micro-batch, in ascending order; on a
 * tensor axis those of this rank's part of the table, counted from its first. The first layer's tied_gradients then have
 * a row for each of them, in the same order, and nothing else.
 */
size_t model_slot_table_rows(const struct model *model, size_t slot, const int32_t **tokens);

/** The gradients of the layer's parameters. Overwrites every element of both arrays of gradients, gaps within the groups
 * included. Those of layers before description->first_trainable are 0. */
void model_layer_backward_weights(struct model *model, const struct layer_call *call);

/** The loss of the slot's micro-batch, after the last layer's forward pass: the mean over its predictions. Errors: the
 * device's. */
weft_status model_slot_loss(struct model *model, size_t slot, double *loss, struct error *error);

/** Likewise the share of predictions that are right, of networks that classify; NAN of others. */
weft_status model_slot_accuracy(struct model *model, size_t slot, double *accuracy, struct error *error);

#endif
