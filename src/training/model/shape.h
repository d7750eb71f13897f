/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The numbers of a shape by name: the keys of a file that describes a network (training/model/file/model_file.h), the
 * options that change them, and the text that is printed.
 */
#ifndef WEFT_TRAINING_MODEL_SHAPE_H
#define WEFT_TRAINING_MODEL_SHAPE_H

#include "training/model/model.h"

enum shape_kind {
    SHAPE_WHOLE, /**< a size_t */
    SHAPE_REAL,  /**< a double */
    SHAPE_FLAG,  /**< a bool: 0 or 1 */
};

struct shape_number {
    const char *name; /**< the member of struct model_shape: "kv_heads" */
    enum shape_kind kind;
    size_t offset; /**< of that member */
    double least, most;
    bool of_all;       /**< every kind of network has it, but for those that read images: they name theirs, as all
                          kinds name their others */
    bool is_newer;     /**< checkpoints lack it where it is 0, as those from before it do */
    bool may_be_usual; /**< 0 stands for the kind's default */
    const char *about; /**< for users: lower case, no full stop */
};

/** All of them, in the order in which they are printed. */
extern const struct shape_number shape_numbers[];
extern const size_t shape_number_count;

double shape_number_get(const struct model_shape *shape, const struct shape_number *number);

/** `value` must be one that the number's kind can hold. */
void shape_number_set(struct model_shape *shape, const struct shape_number *number, double value);

#define SHAPE_TEXT_BYTES 256

/** "4 layers, 4 heads, width 128, context 128, vocabulary 256": the numbers that distinguish shapes; returns `text`. */
char *shape_text(const struct model_shape *shape, char text[SHAPE_TEXT_BYTES]);

#endif
