/* SPDX-License-Identifier: Apache-2.0 */
/** How a learning rate follows the number of ranks: see weft_rate_scaling. */
#ifndef WEFT_TRAINING_PARALLEL_RATE_SCALING_H
#define WEFT_TRAINING_PARALLEL_RATE_SCALING_H

#include <math.h>
#include <weft/train.h>

/** `rate` as scaled for `ranks`. */
static inline double rate_scaled(double rate, weft_rate_scaling scaling, uint32_t ranks)
{
    switch (scaling) {
    case WEFT_RATE_LINEAR:
        return rate * ranks;
    case WEFT_RATE_ROOT:
        return rate * sqrt(ranks);
    default:
        return rate;
    }
}

#endif
