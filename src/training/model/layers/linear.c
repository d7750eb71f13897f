/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/linear.h"

weft_status linear_add(struct model_description *description, struct linear *linear, double deviation,
                       const char *prefix, const char *weight, const char *bias, struct error *error)
{
    size_t rows = linear->outputs_first ? linear->outputs : linear->inputs;
    size_t columns = linear->outputs_first ? linear->inputs : linear->outputs;
    weft_status status = description_add_parameter(description, rows, columns, (struct initial){0, deviation}, prefix,
                                                   weight, &linear->weight, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, linear->outputs, 0, (struct initial){0}, prefix, bias,
                                           &linear->bias, error);
    return status;
}

static const void *layers_linear_weight_of(const struct pass *pass, const struct linear *linear)
{
    return pass_activation_at(pass, pass->weights, pass->description->parameters[linear->weight].offset);
}

void linear_forward(const struct pass *pass, const struct linear *linear, const void *x, void *y, size_t stride)
{
    struct device *device = pass->device;
    device->matmul(device,
                   &(struct matmul){
                       .rows = pass_rows(pass),
                       .columns = linear->outputs,
                       .inner = linear->inputs,
                       .transpose_b = linear->outputs_first,
                       .a = x,
                       .b = layers_linear_weight_of(pass, linear),
                       .bias = linear->bias == NO_PARAMETER ? NULL : pass_tensor(pass, pass->parameters, linear->bias),
                       .c = y,
                       .stride_c = stride,
                   });
}

void linear_backward_weight(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                            size_t stride, bool accumulate, void *gradient_x)
{
    struct device *device = pass->device;
    struct matmul to_weight = {
        .rows = linear->inputs,
        .columns = linear->outputs,
        .inner = pass_rows(pass),
        .transpose_a = true,
        .a = x,
        .b = gradient_y,
        .wide = true,
        .c = pass_tensor(pass, pass->gradients, linear->weight),
        .stride_b = stride,
    };
    if (linear->outputs_first) {
        to_weight.rows = linear->outputs;
        to_weight.columns = linear->inputs;
        to_weight.a = gradient_y;
        to_weight.b = x;
        to_weight.stride_a = stride;
        to_weight.stride_b = 0;
    }
    device->matmul(device, &to_weight);
    device->matmul(device, &(struct matmul){
                               .rows = pass_rows(pass),
                               .columns = linear->inputs,
                               .inner = linear->outputs,
                               .transpose_b = !linear->outputs_first,
                               .accumulate = accumulate,
                               .a = gradient_y,
                               .b = layers_linear_weight_of(pass, linear),
                               .c = gradient_x,
                               .stride_a = stride,
                           });
}

void linear_backward(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                     size_t stride, bool accumulate, void *gradient_x)
{
    struct device *device = pass->device;
    if (linear->bias != NO_PARAMETER)
        device->column_sums(device, pass_rows(pass), linear->outputs, gradient_y,
                            pass_tensor(pass, pass->gradients, linear->bias));
    linear_backward_weight(pass, linear, x, gradient_y, stride, accumulate, gradient_x);
}
