/* SPDX-License-Identifier: Apache-2.0 */
#include "training/optimizer/optimizer.h"

#include <math.h>

const char *const optimizer_names[] = {"adamw", "sgd", "lamb", "lars", NULL};

bool optimizer_has_second_moments(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_LAMB;
}

double optimizer_gradient_norm(struct device *device, size_t count, const void *gradients, double *sums)
{
    device->sum_of_squares(device, count, gradients, sums);
    return sqrt(tree_sum(sums, tree_blocks(count)));
}

/* ---- pieces that are treated alike ---- */

/* Elements of parameters with the same learning rate and the same weight decay; for lamb and lars, one tensor. */
struct piece {
    struct device *device;
    const struct optimizer *optimizer;
    const struct optimizer_step *step;
    size_t count;
    struct optimizer_arrays arrays;
    double rate;
    bool decays;
};

static struct adamw adamw_of(const struct piece *piece)
{
    const struct optimizer *optimizer = piece->optimizer;
    return adamw_step(piece->step->number, piece->rate, optimizer->beta1, optimizer->beta2, optimizer->epsilon,
                      piece->decays ? optimizer->weight_decay : 0, piece->step->gradient_scale);
}

static double decay_of(const struct piece *piece)
{
    return piece->decays ? piece->optimizer->weight_decay : 0;
}

/* The factor of the learning rate for one tensor: the ratio of the norms of its parameters and its direction. */
static double trust_ratio(const struct piece *piece, double trust)
{
    if (!piece->decays)
        return 1;
    const struct optimizer_arrays *arrays = &piece->arrays;
    double of_parameters = optimizer_gradient_norm(piece->device, piece->count, arrays->parameters, arrays->sums);
    double of_direction = optimizer_gradient_norm(piece->device, piece->count, arrays->gradients, arrays->sums);
    return of_parameters > 0 && of_direction > 0 ? trust * of_parameters / of_direction : 1;
}

static void cast_parameters(const struct piece *piece)
{
    if (piece->arrays.as_activations)
        piece->device->to_activations(piece->device, piece->count, piece->arrays.parameters,
                                      piece->arrays.as_activations);
}

static void update_adamw(const struct piece *piece)
{
    const struct adamw step = adamw_of(piece);
    const struct optimizer_arrays *arrays = &piece->arrays;
    piece->device->adamw(piece->device, &step, piece->count, arrays->parameters, arrays->gradients,
                         arrays->first_moments, arrays->second_moments, arrays->as_activations);
}

static void update_sgd(const struct piece *piece)
{
    const struct sgd step = {.rate = piece->rate,
                             .momentum = piece->optimizer->momentum,
                             .weight_decay = decay_of(piece),
                             .gradient_scale = piece->step->gradient_scale};
    const struct optimizer_arrays *arrays = &piece->arrays;
    piece->device->sgd(piece->device, &step, piece->count, arrays->parameters, arrays->gradients,
                       arrays->first_moments);
    cast_parameters(piece);
}

static void update_lamb(const struct piece *piece)
{
    const struct adamw step = adamw_of(piece);
    const struct optimizer_arrays *arrays = &piece->arrays;
    struct device *device = piece->device;
    device->adamw_direction(device, &step, piece->count, arrays->parameters, arrays->gradients, arrays->first_moments,
                            arrays->second_moments);
    device->combine(device, piece->count, 1, arrays->parameters, -step.rate * trust_ratio(piece, 1), arrays->gradients,
                    arrays->parameters);
    cast_parameters(piece);
}

static void update_lars(const struct piece *piece)
{
    const struct optimizer_arrays *arrays = &piece->arrays;
    struct device *device = piece->device;
    device->combine(device, piece->count, piece->step->gradient_scale, arrays->gradients, decay_of(piece),
                    arrays->parameters, arrays->gradients);
    device->combine(device, piece->count, piece->optimizer->momentum, arrays->first_moments,
                    piece->rate * trust_ratio(piece, piece->optimizer->trust), arrays->gradients,
                    arrays->first_moments);
    device->combine(device, piece->count, 1, arrays->parameters, -1, arrays->first_moments, arrays->parameters);
    cast_parameters(piece);
}

/* ---- ranges ---- */

/* The last parameter that begins at or before `element`; the flat array begins with the first. */
static size_t parameter_at(const struct model_description *description, size_t element)
{
    size_t low = 0, high = description->parameter_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (description->parameters[middle].offset <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * The last parameter of the piece that begins with parameter `i`: neighbors with equal settings are updated in one
 * call, unless tensors are updated one by one. A gap belongs to the parameter before it; its weights and gradients stay
 * 0.
 */
static size_t last_of_piece(const struct model_description *description, size_t i, bool one_tensor)
{
    const struct model_parameter *parameter = &description->parameters[i], *next = parameter + 1;
    for (; !one_tensor && i + 1 < description->parameter_count && next->frozen == parameter->frozen &&
           next->decay == parameter->decay && next->rate_factor == parameter->rate_factor;
         next++)
        i++;
    return i;
}

static void *at(void *array, size_t element, weft_type type)
{
    return array ? (char *)array + element * weft_type_size(type) : NULL;
}

void optimizer_clear_frozen(const struct model_description *description, struct device *device, size_t first,
                            size_t count, void *array)
{
    for (size_t i = 0, last; description->frozen_weights && i < description->parameter_count; i = last + 1) {
        last = last_of_piece(description, i, false);
        size_t from = description->parameters[i].offset, to = model_parameter_end(description, last);
        if (from < first)
            from = first;
        if (to > first + count)
            to = first + count;
        if (description->parameters[i].frozen && from < to)
            device->fill(device, to - from, 0, at(array, from - first, device->type));
    }
}

void optimizer_update(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step, size_t first, size_t count,
                      const struct optimizer_arrays *arrays)
{
    static void (*const updates[])(const struct piece *) = {[OPTIMIZER_ADAMW] = update_adamw,
                                                            [OPTIMIZER_SGD] = update_sgd,
                                                            [OPTIMIZER_LAMB] = update_lamb,
                                                            [OPTIMIZER_LARS] = update_lars};
    const bool one_tensor = optimizer->kind == OPTIMIZER_LAMB || optimizer->kind == OPTIMIZER_LARS;
    for (size_t done = 0; done < count;) {
        const size_t i = parameter_at(description, first + done);
        const struct model_parameter *parameter = &description->parameters[i];
        const size_t end = model_parameter_end(description, last_of_piece(description, i, one_tensor));
        const size_t length = (end < first + count ? end : first + count) - (first + done);
        const struct piece piece = {
            .device = device,
            .optimizer = optimizer,
            .step = step,
            .count = length,
            .rate = step->rate * parameter->rate_factor,
            .decays = parameter->decay,
            .arrays = {.parameters = at(arrays->parameters, done, device->type),
                       .gradients = at(arrays->gradients, done, device->type),
                       .first_moments = at(arrays->first_moments, done, device->type),
                       .second_moments = at(arrays->second_moments, done, device->type),
                       .as_activations = at(arrays->as_activations, done, device->activations),
                       .sums = arrays->sums},
        };
        if (!parameter->frozen)
            updates[optimizer->kind](&piece);
        done += length;
    }
}
