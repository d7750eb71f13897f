/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Classes of whole samples, from the first row of each (Devlin et al. 2018, "BERT"):
 *
 *     logits = classifier(dropout(tanh(dense(x[0]))))
 *
 * and their cross entropy with the samples' labels. A part of last layers. On a tensor axis every rank does all of it, with
 * the same bits.
 */
#ifndef WEFT_TRAINING_MODEL_LAYERS_INTERNAL_POOLER_H
#define WEFT_TRAINING_MODEL_LAYERS_INTERNAL_POOLER_H

#include "training/model/layers/internal/common.h"

struct pooler {
    size_t width;
    size_t classes;
    bool drops; /**< dropout before the classifier */
    struct linear dense, classifier;
};

struct pooler_names {
    const char *dense, *dense_bias;
    const char *classifier, *classifier_bias;
};

/** Add its parameters to the last layer: all but the classifier's, and the classifier's. */
weft_status pooler_add_dense(struct model_description *description, struct pooler *pooler, double deviation,
                             const struct pooler_names *names, struct error *error);
weft_status pooler_add_classifier(struct model_description *description, struct pooler *pooler, double deviation,
                                  const struct pooler_names *names, struct error *error);

/** A row of activations for each sample unless noted. */
struct pooler_arrays {
    void *first;    /**< kept: the rows that are pooled */
    void *pooled;   /**< kept */
    void *dropped;  /**< kept: what the classifier reads */
    void *logits;   /**< kept: classes a row; then their gradients */
    void *to_dense; /**< deferred */
    void *to_first; /**< scratch */
    void *wide;     /**< scratch: elements of the device's type */
};

/** Take memory for `arrays`, in each of the three arenas. */
void pooler_plan(const struct pooler *pooler, const struct layer_room *room, struct arena *kept, struct arena *deferred,
                 struct arena *scratch, struct pooler_arrays *arrays);

/** Doubles that pooler_losses() leaves for `batch` samples. */
size_t pooler_loss_count(size_t batch);

/** The logits, into arrays->logits, or into `logits` unless it is NULL. `x` has all rows of the micro-batch. */
void pooler_forward(const struct pooler *pooler, const struct pass *pass, const struct layer *layer,
                    const struct pooler_arrays *arrays, const void *x, void *logits);

/** The losses of the samples at `losses`, in pass->losses; with pass->prepare logits become gradients of their mean. */
void pooler_losses(const struct pooler *pooler, const struct pass *pass, const struct pooler_arrays *arrays,
                   double *losses);

/** Their mean, and the share of samples whose label has the largest logit, from a copy of these numbers. */
double pooler_loss(const double *losses, size_t batch);
double pooler_accuracy(const double *losses, size_t batch);

/** Adds the gradient of x to `gradient`, of all rows of the micro-batch. */
void pooler_backward_input(const struct pooler *pooler, const struct pass *pass, const struct layer *layer,
                           const struct pooler_arrays *arrays, void *gradient);
void pooler_backward_weights(const struct pooler *pooler, const struct pass *pass, const struct pooler_arrays *arrays);

/** Floating-point operations of the forward pass for one sample. */
double pooler_flops(const struct pooler *pooler);

/** A pass over `count` rows of each sample, none of which are divided over the tensor axis; `group` is for its use. */
struct pass pass_of_rows(const struct pass *pass, size_t count, struct tensor_group *group);

/** The rows that enter a last layer, of the whole micro-batch: x itself, or all ranks' parts in `all`. */
const void *pass_all_rows(const struct pass *pass, size_t width, const void *x, void *all);

/** This rank's rows of the gradient of all rows, into `gradient`; nothing where that is the same array. */
void pass_own_gradient(const struct pass *pass, size_t width, const void *all, void *gradient);

#endif
