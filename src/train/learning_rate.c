/* SPDX-License-Identifier: Apache-2.0 */
#include "train/learning_rate.h"

#include <math.h>

double learning_rate_scaled(double peak, enum learning_rate_scaling scaling, uint32_t ranks)
{
    switch (scaling) {
    case LEARNING_RATE_LINEAR:
        return peak * ranks;
    case LEARNING_RATE_ROOT:
        return peak * sqrt(ranks);
    case LEARNING_RATE_AS_GIVEN:
        break;
    }
    return peak;
}

double learning_rate_at(const struct learning_rate *schedule, uint64_t step)
{
    if (step < schedule->warmup)
        return schedule->peak * (double)(step + 1) / (double)schedule->warmup;
    if (step >= schedule->steps)
        return schedule->floor;
    double progress = (double)(step - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
    return schedule->floor + 0.5 * (schedule->peak - schedule->floor) * (1.0 + cos(3.14159265358979323846 * progress));
}
