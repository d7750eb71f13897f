/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/loss_scale.h"

#include <math.h>

void loss_scale_note(struct loss_scale *scale, bool skipped)
{
    if (!scale->scale)
        return;
    if (skipped) {
        scale->scale /= 2;
        scale->good_steps = 0;
        scale->skipped++;
    } else if (++scale->good_steps == LOSS_SCALE_STEPS) {
        scale->scale = fmin(scale->scale * 2, LOSS_SCALE_MOST);
        scale->good_steps = 0;
    }
}

void loss_scale_put(const struct loss_scale *scale, cJSON *training)
{
    if (!scale->scale)
        return;
    cJSON_AddNumberToObject(training, "loss_scale", scale->scale);
    cJSON_AddNumberToObject(training, "loss_scale_steps", (double)scale->good_steps);
    cJSON_AddNumberToObject(training, "skipped_steps", (double)scale->skipped);
}

static bool is_power_of_two(double value)
{
    int exponent;
    return frexp(value, &exponent) == 0.5;
}

weft_status loss_scale_get(const cJSON *training, const char *where, struct loss_scale *scale, struct error *error)
{
    struct loss_scale read = {0};
    if (!scale->scale || !cJSON_GetObjectItemCaseSensitive(training, "loss_scale"))
        return WEFT_OK;
    weft_status status = json_get_number(training, "loss_scale", where, &read.scale, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(training, "loss_scale_steps", where, &read.good_steps, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(training, "skipped_steps", where, &read.skipped, error);
    if (status != WEFT_OK)
        return status;
    if (!(read.scale >= 1 && read.scale <= LOSS_SCALE_MOST) || !is_power_of_two(read.scale) ||
        read.good_steps >= LOSS_SCALE_STEPS)
        return error_set(
            error, WEFT_ERROR_DATA,
            "'%s' has a loss scale of %g after %llu steps; it must be a power of two from 1 to %g, of fewer "
            "than %d steps",
            where, read.scale, (unsigned long long)read.good_steps, LOSS_SCALE_MOST, LOSS_SCALE_STEPS);
    *scale = read;
    return WEFT_OK;
}
