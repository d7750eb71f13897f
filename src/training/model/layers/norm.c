/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/norm.h"

void norm_plan(const struct norm *norm, const struct layer_room *room, struct purse *purse, struct norm_kept *kept)
{
    const size_t column = room->batch * room->sequence * room->element;
    kept->out = purse_take(purse, room->batch * room->sequence * norm->width * room->activation);
    kept->means = norm->bias == NO_PARAMETER ? NULL : purse_take(purse, column);
    kept->reciprocals = purse_take(purse, column);
}

weft_status norm_add(struct model_description *description, struct norm *norm, const char *prefix, const char *gain,
                     const char *bias, struct error *error)
{
    weft_status status = description_add_parameter(description, norm->width, 0, (struct initial){.mean = 1}, prefix,
                                                   gain, &norm->gain, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, norm->width, 0, (struct initial){0}, prefix, bias, &norm->bias,
                                           error);
    return status;
}

void norm_forward(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept)
{
    struct device *device = pass->device;
    const void *gain = pass_tensor(pass, pass->parameters, norm->gain);
    if (norm->bias == NO_PARAMETER)
        device->rms_norm_forward(device, pass_rows(pass), norm->width, norm->epsilon, x, gain, kept->out,
                                 kept->reciprocals);
    else
        device->layer_norm_forward(device, pass_rows(pass), norm->width, norm->epsilon, x, gain,
                                   pass_tensor(pass, pass->parameters, norm->bias), kept->out, kept->means,
                                   kept->reciprocals);
}

void norm_backward(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                   const void *gradient_out, bool accumulate, void *gradient_x)
{
    struct device *device = pass->device;
    const void *gain = pass_tensor(pass, pass->parameters, norm->gain);
    void *gradient_gain = pass_tensor(pass, pass->gradients, norm->gain);
    if (norm->bias == NO_PARAMETER)
        device->rms_norm_backward(device, pass_rows(pass), norm->width, gradient_out, x, gain, kept->reciprocals,
                                  accumulate, gradient_x, gradient_gain);
    else
        device->layer_norm_backward(device, pass_rows(pass), norm->width, gradient_out, x, gain, kept->means,
                                    kept->reciprocals, accumulate, gradient_x, gradient_gain,
                                    pass_tensor(pass, pass->gradients, norm->bias));
}
