/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/common.h"

/* ---- linear maps ---- */

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

static const void *linear_weight(const struct pass *pass, const struct linear *linear)
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
                       .b = linear_weight(pass, linear),
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
                               .b = linear_weight(pass, linear),
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

/* ---- norms ---- */

void norm_plan(const struct norm *norm, const struct layer_room *room, struct arena *arena, struct norm_kept *kept)
{
    const size_t column = room->batch * room->sequence * room->element;
    kept->out = arena_take(arena, room->batch * room->sequence * norm->width * room->activation);
    kept->means = norm->bias == NO_PARAMETER ? NULL : arena_take(arena, column);
    kept->reciprocals = arena_take(arena, column);
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

/* ---- residual branches ---- */

struct dropout pass_dropout(const struct pass *pass, const struct layer *layer)
{
    return (struct dropout){.share = pass->dropout,
                            .seed = pass->seed,
                            .sample = pass->sample,
                            .layer = (uint16_t)(layer - pass->description->layers),
                            .sequence = pass->sequence};
}

void branch_join(const struct pass *pass, const struct layer *layer, const void *x, const void *branch, void *y)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    if (dropout.share > 0)
        device->dropout_add_branch(device, &dropout, pass_rows(pass), layer->width, x, branch, y);
    else
        device->add_branch(device, pass_rows(pass) * layer->width, x, branch, y);
}

const void *branch_gradient(const struct pass *pass, const struct layer *layer, const void *gradient, void *scratch)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    if (!(dropout.share > 0))
        return pass_as_activations(pass, pass_rows(pass) * layer->width, gradient, scratch);
    device->dropout_to_activations(device, &dropout, pass_rows(pass), layer->width, gradient, scratch);
    return scratch;
}
