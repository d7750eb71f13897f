/* SPDX-License-Identifier: Apache-2.0 */
/**
 * AdamW (Loshchilov and Hutter 2019, "Decoupled weight decay regularization", algorithm 2), one step, elementwise:
 *
 *     g = gradient gradient_scale
 *     m = beta1 m + (1 - beta1) g                 first moment
 *     v = beta2 v + (1 - beta2) g g               second moment
 *     p = p - rate weight_decay p - rate (m correction1) / (sqrt(v correction2) + epsilon)
 *
 * Its direction, as LAMB takes it, is (m correction1) / (sqrt(v correction2) + epsilon) + weight_decay p.
 *
 * Every element is computed alone, so a range gives the same bits however it is cut into calls, ranks or threads.
 * Constants are rounded to the device's type once; the arithmetic is in that type.
 */
#ifndef WEFT_TRAINING_TENSOR_ADAMW_H
#define WEFT_TRAINING_TENSOR_ADAMW_H

#include "training/tensor/device.h"

#include <math.h>

/** The constants of step number `step` (from 1). `weight_decay` may be set to 0 on a copy, for parameters without
 * decay. */
static inline struct adamw adamw_step(uint64_t step, double rate, double beta1, double beta2, double epsilon,
                                      double weight_decay, double gradient_scale)
{
    return (struct adamw){
        .rate = rate,
        .beta1 = beta1,
        .beta2 = beta2,
        .epsilon = epsilon,
        .weight_decay = weight_decay,
        .correction1 = 1.0 / (1.0 - pow(beta1, (double)step)),
        .correction2 = 1.0 / (1.0 - pow(beta2, (double)step)),
        .gradient_scale = gradient_scale,
    };
}

#endif
