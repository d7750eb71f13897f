/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/layers/internal/convolution_unit.h"

#include <math.h>
#include <stdio.h>

size_t convolution_unit_width(const struct convolution_unit *unit)
{
    return convolution_rows_out(&unit->shape) * unit->shape.outputs;
}

double convolution_unit_flops(const struct convolution_unit *unit)
{
    return 2 * (double)convolution_rows_out(&unit->shape) * (double)convolution_weights(&unit->shape);
}

weft_status convolution_unit_add(struct model_description *description, struct convolution_unit *unit,
                                 const struct convolution_unit_names *names, struct error *error)
{
    const struct convolution *shape = &unit->shape;
    const size_t outputs = shape->outputs;
    const struct tensor_shape weight = {{outputs, convolution_group(shape), shape->kernel, shape->kernel}};
    const struct initial initial = {.deviation = sqrt(2.0 / (double)(outputs * shape->kernel * shape->kernel))};
    weft_status status =
        description_add_tensor(description, &weight, initial, names->convolution, ".weight", &unit->weight, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, outputs, 0, (struct initial){.mean = 1}, names->norm, ".weight",
                                           &unit->gain, error);
    if (status == WEFT_OK)
        status = description_add_parameter(description, outputs, 0, (struct initial){0}, names->norm, ".bias",
                                           &unit->bias, error);
    if (status == WEFT_OK)
        status = description_add_statistic(description, outputs, 0, names->norm, ".running_mean", &unit->mean, error);
    if (status == WEFT_OK)
        status =
            description_add_statistic(description, outputs, 1, names->norm, ".running_var", &unit->variance, error);
    return status;
}

bool convolution_units_are_alike(const struct convolution_unit *a, const struct convolution_unit *b)
{
    const struct convolution *one = &a->shape, *other = &b->shape;
    return one->height == other->height && one->width == other->width && one->inputs == other->inputs &&
           one->outputs == other->outputs && one->kernel == other->kernel && one->stride == other->stride &&
           one->padding == other->padding && one->depthwise == other->depthwise && a->rectifier == b->rectifier &&
           a->epsilon == b->epsilon;
}

/* ---- memory ---- */

void convolution_unit_plan(const struct convolution_unit *unit, const struct layer_room *room, struct arena *arena,
                           struct convolution_kept *kept)
{
    const size_t vector = unit->shape.outputs * room->element;
    kept->y = arena_take(arena, room->batch * convolution_unit_width(unit) * room->activation);
    kept->gain = arena_take(arena, vector);
    kept->bias = arena_take(arena, vector);
    kept->means = arena_take(arena, vector);
    kept->variances = arena_take(arena, vector);
    kept->reciprocals = arena_take(arena, vector);
}

void convolution_unit_plan_deferred(const struct convolution_unit *unit, const struct layer_room *room,
                                    struct arena *arena, struct convolution_deferred *deferred)
{
    const size_t vector = unit->shape.outputs * room->element;
    deferred->slope = arena_take(arena, room->batch * convolution_unit_width(unit) * room->activation);
    deferred->gain = arena_take(arena, vector);
    deferred->bias = arena_take(arena, vector);
    deferred->mean = arena_take(arena, vector);
    deferred->variance = arena_take(arena, vector);
    deferred->shared_gain = room->synchronizes_norms ? arena_take(arena, vector) : NULL;
    deferred->shared_bias = room->synchronizes_norms ? arena_take(arena, vector) : NULL;
}

/* ---- passes ---- */

struct convolution convolution_unit_shape(const struct pass *pass, const struct convolution_unit *unit)
{
    struct convolution shape = unit->shape;
    shape.batch = pass->batch;
    return shape;
}

size_t convolution_unit_rows(const struct pass *pass, const struct convolution_unit *unit)
{
    return pass->batch * convolution_rows_out(&unit->shape);
}

static bool unit_is_frozen(const struct pass *pass, const struct convolution_unit *unit)
{
    const struct model_parameter *parameters = pass->description->parameters;
    return !pass->prepare || (parameters[unit->mean].frozen && parameters[unit->variance].frozen);
}

static bool unit_is_synchronized(const struct pass *pass, const struct convolution_unit *unit)
{
    return pass->norms && !unit_is_frozen(pass, unit);
}

struct batch_norm convolution_unit_norm(const struct pass *pass, const struct convolution_unit *unit,
                                        const struct convolution_kept *kept,
                                        const struct convolution_deferred *deferred)
{
    return (struct batch_norm){.channels = unit->shape.outputs,
                               .epsilon = unit->epsilon,
                               .rectifier = unit->rectifier,
                               .frozen = unit_is_frozen(pass, unit),
                               .gain = kept->gain,
                               .bias = kept->bias,
                               .means = kept->means,
                               .variances = kept->variances,
                               .reciprocals = kept->reciprocals,
                               .gradient_gain = deferred ? deferred->gain : NULL,
                               .gradient_bias = deferred ? deferred->bias : NULL};
}

/* The same for kernels that read its slope. */
static struct batch_norm unit_norm_of_slope(const struct pass *pass, const struct convolution_unit *unit,
                                            const struct convolution_kept *kept,
                                            const struct convolution_deferred *deferred)
{
    struct batch_norm norm = convolution_unit_norm(pass, unit, kept, deferred);
    if (unit_is_synchronized(pass, unit)) {
        norm.gradient_gain = deferred->shared_gain;
        norm.gradient_bias = deferred->shared_bias;
    }
    return norm;
}

/* Two vectors that were taken one after the other, of all ranks; *stride: elements from one vector to the next. */
static const void *unit_gather(const struct pass *pass, const void *first, const void *second, size_t *stride)
{
    const size_t bytes = (size_t)((const char *)second - (const char *)first);
    *stride = bytes / weft_type_size(pass->device->type);
    return pass->norms->gather(pass->norms->context, first, 2 * bytes);
}

static void unit_synchronize_statistics(const struct pass *pass, const struct convolution_unit *unit,
                                        const struct batch_norm *norm)
{
    struct device *device = pass->device;
    size_t stride;
    const void *all = unit_gather(pass, norm->means, norm->variances, &stride);
    device->batch_norm_join(device, norm, convolution_unit_rows(pass, unit), pass->norms->ranks, stride, all);
}

static void unit_copy(const struct pass *pass, const struct convolution_unit *unit, size_t parameter, void *to)
{
    pass->device->copy(pass->device, to, pass_parameter(pass, parameter),
                       unit->shape.outputs * weft_type_size(pass->device->type));
}

void convolution_unit_forward(const struct pass *pass, const struct convolution_unit *unit,
                              const struct convolution_kept *kept, const void *x, const struct batch_norm *before)
{
    struct device *device = pass->device;
    const struct convolution shape = convolution_unit_shape(pass, unit);
    const struct batch_norm norm = convolution_unit_norm(pass, unit, kept, NULL);
    unit_copy(pass, unit, unit->gain, kept->gain);
    unit_copy(pass, unit, unit->bias, kept->bias);
    if (norm.frozen) {
        unit_copy(pass, unit, unit->mean, kept->means);
        device->batch_norm_reciprocals(device, norm.channels, norm.epsilon, pass_parameter(pass, unit->variance),
                                       kept->reciprocals);
    }
    device->convolution_forward(device, &shape, x, before, pass_weight(pass, unit->weight), kept->y, &norm);
    if (unit_is_synchronized(pass, unit))
        unit_synchronize_statistics(pass, unit, &norm);
}

void convolution_unit_share_gradients(const struct pass *pass, const struct convolution_unit *unit,
                                      const struct convolution_deferred *deferred)
{
    struct device *device = pass->device;
    if (!unit_is_synchronized(pass, unit))
        return;
    size_t stride;
    const void *all = unit_gather(pass, deferred->gain, deferred->bias, &stride);
    const double part = 1 / (double)pass->norms->ranks;
    device->combine(device, 2 * stride, part, all, part, pass_at(pass, all, 2 * stride), deferred->shared_gain);
    for (size_t rank = 2; rank < pass->norms->ranks; rank++)
        device->combine(device, 2 * stride, 1, deferred->shared_gain, part, pass_at(pass, all, rank * 2 * stride),
                        deferred->shared_gain);
}

void convolution_unit_backward_input(const struct pass *pass, const struct convolution_unit *unit,
                                     const struct convolution_kept *kept, const struct convolution_deferred *deferred,
                                     const void *x, const struct batch_norm *before, void *gradient_x)
{
    struct device *device = pass->device;
    const struct convolution shape = convolution_unit_shape(pass, unit);
    const struct batch_norm after = unit_norm_of_slope(pass, unit, kept, deferred);
    device->convolution_backward_input(device, &shape, pass_weight(pass, unit->weight), deferred->slope, kept->y,
                                       &after, x, before, gradient_x);
}

void convolution_unit_compare_statistics(const struct pass *pass, const struct convolution_unit *unit,
                                         const struct convolution_kept *kept,
                                         const struct convolution_deferred *deferred)
{
    struct device *device = pass->device;
    const size_t channels = unit->shape.outputs;
    if (unit_is_frozen(pass, unit)) {
        device->fill(device, channels, 0, deferred->mean);
        device->fill(device, channels, 0, deferred->variance);
        return;
    }
    device->combine(device, channels, 1, pass_parameter(pass, unit->mean), -1, kept->means, deferred->mean);
    device->combine(device, channels, 1, pass_parameter(pass, unit->variance), -1, kept->variances, deferred->variance);
}

void convolution_unit_backward_weights(const struct pass *pass, const struct convolution_unit *unit,
                                       const struct convolution_kept *kept, const struct convolution_deferred *deferred,
                                       const void *x, const struct batch_norm *before)
{
    struct device *device = pass->device;
    const struct convolution shape = convolution_unit_shape(pass, unit);
    const struct batch_norm after = unit_norm_of_slope(pass, unit, kept, deferred);
    const size_t channels = unit->shape.outputs;
    device->convolution_backward_weights(device, &shape, x, before, deferred->slope, kept->y, &after,
                                         pass_gradient(pass, unit->weight));
    gradient_store(pass, unit->gain, channels, deferred->gain);
    gradient_store(pass, unit->bias, channels, deferred->bias);
    gradient_store(pass, unit->mean, channels, deferred->mean);
    gradient_store(pass, unit->variance, channels, deferred->variance);
}
