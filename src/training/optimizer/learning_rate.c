/* SPDX-License-Identifier: Apache-2.0 */
#include "training/optimizer/learning_rate.h"

#include <math.h>
#include <stddef.h>

const char *const learning_rate_shapes[] = {"cosine", "linear", "step", "wsd", NULL};

const char *const learning_rate_scalings[] = {"none", "linear", "root", NULL};

/* The learning rate after a fraction `progress` of the steps that follow warm-up. */
static double decayed(const struct learning_rate *schedule, double progress)
{
    const double range = schedule->peak - schedule->floor;
    switch (schedule->shape) {
    case LEARNING_RATE_COSINE:
        break;
    case LEARNING_RATE_LINEAR:
        return schedule->peak - range * progress;
    case LEARNING_RATE_STEP:
        return schedule->peak * pow(schedule->floor / schedule->peak, floor(progress * 3) / 2);
    case LEARNING_RATE_WSD:
        return progress <= 1 - LEARNING_RATE_DECAY
                   ? schedule->peak
                   : schedule->peak - range * (progress - (1 - LEARNING_RATE_DECAY)) / LEARNING_RATE_DECAY;
    }
    return schedule->floor + 0.5 * range * (1.0 + cos(3.14159265358979323846 * progress));
}

double learning_rate_at(const struct learning_rate *schedule, uint64_t step)
{
    if (step < schedule->warmup)
        return schedule->peak * (double)(step + 1) / (double)schedule->warmup;
    if (step >= schedule->steps || schedule->peak == 0)
        return schedule->floor;
    return decayed(schedule, (double)(step - schedule->warmup) / (double)(schedule->steps - schedule->warmup));
}

double learning_rate_scaled(double rate, weft_rate_scaling scaling, uint32_t ranks)
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
