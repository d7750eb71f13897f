/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a kind of network gives so that model.h works for it: one table. For the files of this module only.
 *
 * A new kind is a file that fills the table, a line in `kinds` of model.c and, for named sizes, lines in sizes.c.
 */
#ifndef WEFT_MODEL_OPERATIONS_H
#define WEFT_MODEL_OPERATIONS_H

#include "model/model.h"

/** Offsets in the flat array are multiples of this many elements. */
#define MODEL_ALIGNMENT 16

/** How a parameter begins: normal numbers of this mean and standard deviation; a deviation of 0 is a constant. */
struct model_initial {
    double mean;
    double deviation;
};

/** The beginning of every kind's own struct. */
struct model {
    const struct model_description *description;
    struct device *device;
    size_t batch;
    size_t sequence;
    bool training;
};

struct model_operations {
    const char *kind;
    /** Check the shape and list the parameters with description_add(). */
    weft_status (*describe)(struct model_description *description, struct error *error);
    struct model_initial (*initial)(const struct model_description *description,
                                    const struct model_parameter *parameter);
    double (*flops_per_token)(const struct model_description *description, size_t sequence);
    size_t (*memory)(const struct model_description *description, weft_type type, size_t batch, size_t sequence,
                     bool training);
    /** `base` is filled in already and becomes the first member of what is made. */
    weft_status (*open)(const struct model *base, struct model **model, struct error *error);
    void (*close)(struct model *model);
    /** As in model.h; token numbers are not checked yet. `prepare`: a backward pass may follow. */
    weft_status (*forward)(struct model *model, const void *parameters, const struct model_batch *batch, bool prepare,
                           double *loss, struct error *error);
    weft_status (*backward)(struct model *model, const void *parameters, void *gradients, model_ready ready,
                            void *context, struct error *error);
    /** NULL where a kind cannot be sampled from. */
    weft_status (*extend)(struct model *model, const void *parameters, size_t first, const int32_t *tokens,
                          size_t count, double *logits, struct error *error);
};

extern const struct model_operations gpt_operations;

/**
 * Append a tensor to a description being made: of `rows` x `columns`, or of `rows` elements where `columns` is 0.
 * Tensors of two dimensions get weight decay.
 */
weft_status description_add(struct model_description *description, size_t rows, size_t columns, struct error *error,
                            const char *name, ...) __attribute__((format(printf, 5, 6)));

#endif
