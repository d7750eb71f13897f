/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/common.h"

void gradient_store(const struct pass *pass, size_t parameter, size_t count, const void *sums)
{
    if (parameter != NO_PARAMETER)
        pass->device->copy(pass->device, pass_gradient(pass, parameter), sums,
                           count * weft_type_size(pass->device->type));
}

/* ---- linear maps ---- */

/* The segments of what is divided; returns their number. */
static size_t linear_segments(const struct linear *linear, size_t lengths[MODEL_SEGMENTS])
{
    size_t count = 0;
    for (; !linear->inputs_divided && count < MODEL_SEGMENTS && linear->segments[count]; count++)
        lengths[count] = linear->segments[count];
    if (count)
        return count;
    lengths[0] = linear->inputs_divided ? linear->inputs : linear->outputs;
    return 1;
}

weft_status linear_add(struct model_description *description, struct linear *linear, double deviation,
                       const char *prefix, const char *weight, const char *bias, struct error *error)
{
    size_t rows = linear->outputs_first ? linear->outputs : linear->inputs;
    size_t columns = linear->outputs_first ? linear->inputs : linear->outputs;
    struct model_division division = {.dimension = linear->outputs_first == linear->inputs_divided};
    division.segments = linear->whole ? 0 : linear_segments(linear, division.lengths);
    weft_status status = description_add_parameter(description, rows, columns, (struct initial){0, deviation}, prefix,
                                                   weight, &linear->weight, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, linear->outputs, 0, (struct initial){0}, prefix, bias,
                                           &linear->bias, error);
    if (status != WEFT_OK)
        return status;
    description_divide(description, linear->weight, &division);
    division.dimension = 0;
    if (!linear->inputs_divided)
        description_divide(description, linear->bias, &division);
    return WEFT_OK;
}

bool linears_are_alike(const struct linear *a, const struct linear *b)
{
    for (size_t i = 0; i < MODEL_SEGMENTS; i++)
        if (a->segments[i] != b->segments[i])
            return false;
    return a->inputs == b->inputs && a->outputs == b->outputs && a->outputs_first == b->outputs_first &&
           a->inputs_divided == b->inputs_divided && a->whole == b->whole &&
           (a->weight == NO_PARAMETER) == (b->weight == NO_PARAMETER) &&
           (a->bias == NO_PARAMETER) == (b->bias == NO_PARAMETER);
}

void linear_divide(struct linear *linear, size_t ranks, size_t rank)
{
    size_t lengths[MODEL_SEGMENTS], part = 0;
    if (linear->whole)
        return;
    for (size_t i = 0, count = linear_segments(linear, lengths); i < count; i++)
        part += tensor_part_count(lengths[i], ranks, rank);
    *(linear->inputs_divided ? &linear->inputs : &linear->outputs) = part;
}

/* The bias; where the ranks' outputs are added up, one of them adds it. */
static const void *linear_bias(const struct pass *pass, const struct linear *linear)
{
    const bool is_others = linear->inputs_divided && pass->tensor && pass->tensor->rank > 0;
    return linear->bias == NO_PARAMETER || is_others ? NULL : pass_parameter(pass, linear->bias);
}

void linear_forward(const struct pass *pass, const struct linear *linear, const void *x, void *y, size_t stride)
{
    struct device *device = pass->device;
    device->matmul(device, &(struct matmul){
                               .rows = pass_rows(pass),
                               .columns = linear->outputs,
                               .inner = linear->inputs,
                               .transpose_b = linear->outputs_first,
                               .a = x,
                               .b = pass_weight(pass, linear->weight),
                               .bias = linear_bias(pass, linear),
                               .c = y,
                               .stride_c = stride,
                           });
}

void linear_backward_input(const struct pass *pass, const struct linear *linear, const void *gradient_y, size_t stride,
                           bool accumulate, void *gradient_x)
{
    struct device *device = pass->device;
    device->matmul(device, &(struct matmul){
                               .rows = pass_rows(pass),
                               .columns = linear->inputs,
                               .inner = linear->outputs,
                               .transpose_b = !linear->outputs_first,
                               .accumulate = accumulate,
                               .a = gradient_y,
                               .b = pass_weight(pass, linear->weight),
                               .c = gradient_x,
                               .stride_a = stride,
                           });
}

void linear_backward_weight(const struct pass *pass, const struct linear *linear, const void *x, const void *gradient_y,
                            size_t stride)
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
        .c = pass_gradient(pass, linear->weight),
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
}

void linear_backward_weights(const struct pass *pass, const struct linear *linear, const void *x,
                             const void *gradient_y, size_t stride)
{
    struct device *device = pass->device;
    if (linear->bias != NO_PARAMETER)
        device->column_sums(device, pass_rows(pass), linear->outputs, gradient_y, pass_gradient(pass, linear->bias));
    linear_backward_weight(pass, linear, x, gradient_y, stride);
}

/* ---- norms ---- */

void norm_plan(const struct norm *norm, const struct layer_room *room, struct arena *arena, struct norm_kept *kept)
{
    const size_t column = room->batch * room->sequence * room->element;
    kept->out = arena_take(arena, room->batch * room->sequence * norm->width * room->activation);
    kept->means = norm->bias == NO_PARAMETER ? NULL : arena_take(arena, column);
    kept->reciprocals = arena_take(arena, column);
    kept->sum = norm->after ? arena_take(arena, column / (room->divides_rows ? room->ranks : 1) * norm->width) : NULL;
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

bool norms_are_alike(const struct norm *a, const struct norm *b)
{
    return a->width == b->width && a->epsilon == b->epsilon && a->after == b->after && /* the gain is always there */
           (a->bias == NO_PARAMETER) == (b->bias == NO_PARAMETER);
}

void norm_forward(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept)
{
    struct device *device = pass->device;
    const void *gain = pass_parameter(pass, norm->gain);
    const size_t rows = pass_own_rows(pass);
    void *out = pass_activation_at(pass, kept->out, pass_own_first(pass) * norm->width);
    if (norm->bias == NO_PARAMETER)
        device->rms_norm_forward(device, rows, norm->width, norm->epsilon, x, gain, out, kept->reciprocals);
    else
        device->layer_norm_forward(device, rows, norm->width, norm->epsilon, x, gain, pass_parameter(pass, norm->bias),
                                   out, kept->means, kept->reciprocals);
    pass_gather_rows(pass, device->activations, norm->width, kept->out);
}

void norm_plan_sums(const struct norm *norm, const struct layer_room *room, struct arena *arena, struct norm_sums *sums)
{
    sums->gain = arena_take(arena, norm->width * room->element);
    sums->bias = norm->bias == NO_PARAMETER ? NULL : arena_take(arena, norm->width * room->element);
}

void norm_sums_join(const struct pass *pass, const struct norm *norm, const struct norm_sums *sums)
{
    if (!pass_divides_rows(pass)) /* every rank had all rows */
        return;
    pass->tensor->sum(pass->tensor->context, pass->device->type, norm->width, sums->gain);
    if (norm->bias != NO_PARAMETER)
        pass->tensor->sum(pass->tensor->context, pass->device->type, norm->width, sums->bias);
}

void norm_backward_input(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                         void *gradient_out, bool accumulate, void *gradient_x, const struct norm_sums *sums)
{
    struct device *device = pass->device;
    const void *gain = pass_parameter(pass, norm->gain);
    const size_t rows = pass_own_rows(pass);
    const void *own = pass_activation_at(pass, gradient_out, pass_own_first(pass) * norm->width);
    pass_sum_rows(pass, device->activations, norm->width, gradient_out);
    if (norm->bias == NO_PARAMETER)
        device->rms_norm_backward(device, rows, norm->width, own, x, gain, kept->reciprocals, accumulate, gradient_x,
                                  sums->gain);
    else
        device->layer_norm_backward(device, rows, norm->width, own, x, gain, kept->means, kept->reciprocals, accumulate,
                                    gradient_x, sums->gain, sums->bias);
    norm_sums_join(pass, norm, sums);
}

void norm_backward_weights(const struct pass *pass, const struct norm *norm, const struct norm_sums *sums)
{
    gradient_store(pass, norm->gain, norm->width, sums->gain);
    gradient_store(pass, norm->bias, norm->width, sums->bias);
}

/* ---- residual branches ---- */

struct dropout pass_dropout(const struct pass *pass, const struct layer *layer)
{
    return (struct dropout){.share = pass->dropout,
                            .seed = pass->seed,
                            .sample = pass->sample,
                            .layer = (uint16_t)(layer - pass->description->layers),
                            .sequence = pass->sequence,
                            .first = pass_own_first(pass)};
}

/* y = x + dropout(branch) */
static void branch_join(const struct pass *pass, const struct layer *layer, const void *x, void *branch, void *y)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    const size_t rows = pass_own_rows(pass);
    const void *own = pass_activation_at(pass, branch, pass_own_first(pass) * layer->width);
    pass_sum_rows(pass, device->activations, layer->width, branch);
    if (dropout.share > 0)
        device->dropout_add_branch(device, &dropout, rows, layer->width, x, own, y);
    else
        device->add_branch(device, rows * layer->width, x, own, y);
}

void branch_enter(const struct pass *pass, const struct norm *norm, const void *x, const struct norm_kept *kept)
{
    struct device *device = pass->device;
    if (!norm->after) {
        norm_forward(pass, norm, x, kept);
        return;
    }
    device->to_activations(device, pass_own_rows(pass) * norm->width, x,
                           pass_activation_at(pass, kept->out, pass_own_first(pass) * norm->width));
    pass_gather_rows(pass, device->activations, norm->width, kept->out);
}

void branch_leave(const struct pass *pass, const struct layer *layer, const struct norm *norm, const void *x,
                  void *branch, const struct norm_kept *kept, void *y)
{
    struct device *device = pass->device;
    const size_t rows = pass_own_rows(pass);
    if (!norm->after) {
        branch_join(pass, layer, x, branch, y);
        return;
    }
    const void *gain = pass_parameter(pass, norm->gain), *bias = pass_parameter(pass, norm->bias);
    branch_join(pass, layer, x, branch, kept->sum);
    if (y)
        device->stream_norm_forward(device, rows, norm->width, norm->epsilon, kept->sum, gain, bias, y, kept->means,
                                    kept->reciprocals);
    else /* for the means and reciprocals */
        device->layer_norm_forward(device, rows, norm->width, norm->epsilon, kept->sum, gain, bias, branch, kept->means,
                                   kept->reciprocals);
}

void branch_begin_backward(const struct pass *pass, const struct layer *layer, const struct norm *norm,
                           const struct norm_kept *kept, void *gradient, void *to_branch, const struct norm_sums *sums)
{
    struct device *device = pass->device;
    const struct dropout dropout = pass_dropout(pass, layer);
    const size_t rows = pass_own_rows(pass);
    if (norm->after) {
        device->stream_norm_backward(device, rows, norm->width, gradient, kept->sum, pass_parameter(pass, norm->gain),
                                     kept->means, kept->reciprocals, false, gradient, sums->gain, sums->bias);
        norm_sums_join(pass, norm, sums);
    }
    void *own = pass_activation_at(pass, to_branch, pass_own_first(pass) * layer->width);
    if (dropout.share > 0)
        device->dropout_to_activations(device, &dropout, rows, layer->width, gradient, own);
    else
        device->to_activations(device, rows * layer->width, gradient, own);
    pass_gather_rows(pass, device->activations, layer->width, to_branch);
}

void branch_end_backward(const struct pass *pass, const struct norm *norm, const struct norm_kept *kept, const void *x,
                         void *to_out, void *gradient, const struct norm_sums *sums)
{
    struct device *device = pass->device;
    if (!norm->after) {
        norm_backward_input(pass, norm, kept, x, to_out, true, gradient, sums);
        return;
    }
    pass_sum_rows(pass, device->activations, norm->width, to_out);
    device->add_branch(device, pass_own_rows(pass) * norm->width, gradient,
                       pass_activation_at(pass, to_out, pass_own_first(pass) * norm->width), gradient);
}
