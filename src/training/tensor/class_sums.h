/* SPDX-License-Identifier: Apache-2.0 */
/** Sums over the classes of a row, from sums over parts of them: the same order, so the same bits, on every rank. */
#ifndef WEFT_TRAINING_TENSOR_CLASS_SUMS_H
#define WEFT_TRAINING_TENSOR_CLASS_SUMS_H

#include "training/tensor/device.h"

#include <math.h>

/** The sums over all classes of row `row`; those of the ranks are in `sums`, as for divided_cross_entropy(). */
static inline struct class_sums class_sums_join(const struct divided_classes *shape, const struct class_sums *sums,
                                                size_t row)
{
    struct class_sums all = {.largest = -INFINITY};
    for (size_t rank = 0; rank < shape->ranks; rank++)
        all.largest = fmax(all.largest, sums[rank * shape->rows + row].largest);
    bool found = false; /* the first part with the largest logit */
    for (size_t rank = 0; rank < shape->ranks; rank++) {
        const struct class_sums *part = &sums[rank * shape->rows + row];
        all.exponentials += part->exponentials * exp(part->largest - all.largest);
        all.sum += part->sum;
        all.at_target += part->at_target;
        if (!found && part->largest == all.largest) {
            found = true;
            all.right = part->right;
        }
    }
    return all;
}

/** The loss of a row with a target. */
static inline double class_sums_loss(const struct divided_classes *shape, const struct class_sums *all)
{
    const double mean = all->sum / (double)shape->all;
    return log(all->exponentials) + all->largest - all->at_target - shape->smoothing * (mean - all->at_target);
}

/** In place of the logit of a target that there is not; the sum of as many as there are ranks is finite. */
#define CLASS_SUMS_NO_TARGET (-1e300)

/** The sums of a row without a target: never right, finite, and no overflow in class_sums_join(). */
static inline struct class_sums class_sums_empty(void)
{
    return (struct class_sums){.exponentials = 1, .at_target = CLASS_SUMS_NO_TARGET};
}

/** Whether the prediction of a row, the first of its largest logits, is its target; not of rows without one. */
static inline bool class_sums_are_right(const struct class_sums *all)
{
    return all->right > 0;
}

/** Whether the target of row `row` is one of this rank's classes. */
static inline bool classes_have_target(const struct divided_classes *shape, size_t row)
{
    return shape->targets[row] >= 0 && (size_t)shape->targets[row] < shape->classes;
}

#endif
