/* SPDX-License-Identifier: Apache-2.0 */
#include "training/optimizer/optimizer.h"

#include <math.h>

const char *const optimizer_names[] = {"adamw", "sgd", "lamb", "lars", NULL};

bool optimizer_has_second_moments(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAMW || kind == OPTIMIZER_LAMB;
}

/* p: parameters, g: gradients or directions, m and v: moments. */
struct optimizer_traffic optimizer_traffic_of(enum optimizer_kind kind)
{
    static const struct optimizer_traffic traffic[] = {
        [OPTIMIZER_ADAMW] = {.arrays = 7, .passes = 1},                /* p g m v > p m v */
        [OPTIMIZER_SGD] = {.arrays = 5, .passes = 1, .casts = true},   /* p g m > p m */
        [OPTIMIZER_LAMB] = {.arrays = 12, .passes = 4, .casts = true}, /* p g m v > g m v; p; g; p g > p */
        [OPTIMIZER_LARS] = {.arrays = 11, .passes = 5, .casts = true}, /* g p > g; p; g; m g > m; p m > p */
    };
    return traffic[kind];
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

static void update_statistics(const struct piece *piece)
{
    const struct optimizer_arrays *arrays = &piece->arrays;
    piece->device->combine(piece->device, piece->count, 1, arrays->parameters,
                           -OPTIMIZER_STATISTIC_MOMENTUM * piece->step->mean, arrays->gradients, arrays->parameters);
    cast_parameters(piece);
}

/* lamb and lars: the direction replaces the gradient. */
static void direct(const struct piece *piece)
{
    const struct optimizer_arrays *arrays = &piece->arrays;
    struct device *device = piece->device;
    if (piece->optimizer->kind == OPTIMIZER_LAMB) {
        const struct adamw step = adamw_of(piece);
        device->adamw_direction(device, &step, piece->count, arrays->parameters, arrays->gradients,
                                arrays->first_moments, arrays->second_moments);
    } else {
        device->combine(device, piece->count, piece->step->gradient_scale, arrays->gradients, decay_of(piece),
                        arrays->parameters, arrays->gradients);
    }
}

/* Follow it. The learning rate's factor for the tensor is the ratio of the norms of its parameters and its direction. */
static void follow(const struct piece *piece, const struct optimizer_norms *norms)
{
    const struct optimizer_arrays *arrays = &piece->arrays;
    const bool is_lamb = piece->optimizer->kind == OPTIMIZER_LAMB,
               scales = piece->decays && norms->parameters > 0 && norms->direction > 0;
    const double trust = is_lamb ? 1 : piece->optimizer->trust,
                 ratio = scales ? trust * sqrt(norms->parameters) / sqrt(norms->direction) : 1;
    struct device *device = piece->device;
    if (is_lamb) {
        device->combine(device, piece->count, 1, arrays->parameters, -adamw_of(piece).rate * ratio, arrays->gradients,
                        arrays->parameters);
    } else {
        device->combine(device, piece->count, piece->optimizer->momentum, arrays->first_moments, piece->rate * ratio,
                        arrays->gradients, arrays->first_moments);
        device->combine(device, piece->count, 1, arrays->parameters, -1, arrays->first_moments, arrays->parameters);
    }
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
           next->statistic == parameter->statistic && next->decay == parameter->decay &&
           next->rate_factor == parameter->rate_factor;
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

/* The range [from, to) of the arrays, which begin with element `first`; its tensors are treated like `parameter`. */
static struct piece optimizer_piece_of(const struct model_parameter *parameter, struct device *device,
                                       const struct optimizer *optimizer, const struct optimizer_step *step,
                                       size_t first, size_t from, size_t to, const struct optimizer_arrays *arrays)
{
    const size_t done = from - first;
    return (struct piece){
        .device = device,
        .optimizer = optimizer,
        .step = step,
        .count = to - from,
        .rate = step->rate * parameter->rate_factor,
        .decays = parameter->decay,
        .arrays = {.parameters = at(arrays->parameters, done, device->type),
                   .gradients = at(arrays->gradients, done, device->type),
                   .first_moments = at(arrays->first_moments, done, device->type),
                   .second_moments = at(arrays->second_moments, done, device->type),
                   .as_activations = at(arrays->as_activations, done, device->activations),
                   .sums = arrays->sums},
    };
}

/* ---- lamb and lars ---- */

bool optimizer_needs_norms(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_LAMB || kind == OPTIMIZER_LARS;
}

/* Blocks of the flat array that have some of elements [first, end). */
static size_t blocks_touched(size_t first, size_t end)
{
    return first < end ? (end - 1) / DEVICE_SQUARES_BLOCK - first / DEVICE_SQUARES_BLOCK + 1 : 0;
}

/* Sums of squares of elements [first, first + count) of the flat array, for each of its blocks. */
static void sum_blocks(struct device *device, size_t first, size_t count, const void *array, double *sums)
{
    const size_t rest = DEVICE_SQUARES_BLOCK - first % DEVICE_SQUARES_BLOCK, head = rest < count ? rest : count;
    device->sum_of_squares(device, head, array, sums);
    if (head < count)
        device->sum_of_squares(device, count - head, (const char *)array + head * weft_type_size(device->type),
                               sums + 1);
}

/* What of tensor `i` lies in a range. */
static struct optimizer_range tensor_in_range(const struct model_description *description, size_t i,
                                              struct optimizer_range range)
{
    const size_t offset = description->parameters[i].offset, end = model_parameter_end(description, i),
                 stop = range.first + range.count, from = offset > range.first ? offset : range.first,
                 to = end < stop ? end : stop;
    return (struct optimizer_range){.first = from, .count = from < to ? to - from : 0};
}

/* Tensors of a range, from *i on: the next one that has some of it. */
static bool next_tensor(const struct model_description *description, struct optimizer_range range, size_t *i,
                        struct optimizer_range *tensor)
{
    for (; *i < description->parameter_count; ++*i) {
        *tensor = tensor_in_range(description, *i, range);
        if (tensor->count)
            return true;
    }
    return false;
}

size_t optimizer_sum_count(const struct model_description *description, struct optimizer_range range)
{
    struct optimizer_range tensor;
    size_t count = 0;
    for (size_t i = 0; next_tensor(description, range, &i, &tensor); i++)
        count += 2 * blocks_touched(tensor.first, tensor.first + tensor.count);
    return count;
}

void optimizer_direct(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step,
                      struct optimizer_range range, struct optimizer_range own, const struct optimizer_arrays *arrays,
                      double *sums)
{
    struct optimizer_range tensor;
    for (size_t i = 0; next_tensor(description, range, &i, &tensor); i++) {
        const size_t blocks = blocks_touched(tensor.first, tensor.first + tensor.count);
        const struct optimizer_range mine = tensor_in_range(description, i, own);
        if (mine.count && optimizer_counts(&description->parameters[i])) {
            const struct piece piece = optimizer_piece_of(&description->parameters[i], device, optimizer, step,
                                                          own.first, mine.first, mine.first + mine.count, arrays);
            const size_t before = mine.first / DEVICE_SQUARES_BLOCK - tensor.first / DEVICE_SQUARES_BLOCK;
            direct(&piece);
            sum_blocks(device, mine.first, mine.count, piece.arrays.parameters, sums + before);
            sum_blocks(device, mine.first, mine.count, piece.arrays.gradients, sums + blocks + before);
        }
        sums += 2 * blocks;
    }
}

size_t optimizer_add_sums(const struct model_description *description, struct optimizer_range range, const double *sums,
                          struct optimizer_norms *norms)
{
    struct optimizer_range tensor;
    size_t count = 0;
    for (size_t i = 0; next_tensor(description, range, &i, &tensor); i++) {
        const size_t blocks = blocks_touched(tensor.first, tensor.first + tensor.count);
        norms[count++] = (struct optimizer_norms){
            .parameter = i, .parameters = tree_sum(sums, blocks), .direction = tree_sum(sums + blocks, blocks)};
        sums += 2 * blocks;
    }
    return count;
}

void optimizer_follow(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step, struct optimizer_range own,
                      const struct optimizer_arrays *arrays, const struct optimizer_norms *norms, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const struct model_parameter *parameter = &description->parameters[norms[n].parameter];
        const struct optimizer_range mine = tensor_in_range(description, norms[n].parameter, own);
        const struct piece piece = optimizer_piece_of(parameter, device, optimizer, step, own.first, mine.first,
                                                      mine.first + mine.count, arrays);
        if (mine.count && !parameter->frozen)
            parameter->statistic ? update_statistics(&piece) : follow(&piece, &norms[n]);
    }
}

/* A tensor that is here as a whole. */
static void update_whole(const struct piece *piece, size_t first)
{
    const struct optimizer_arrays *arrays = &piece->arrays;
    const size_t blocks = blocks_touched(first, first + piece->count);
    struct optimizer_norms norms = {0};
    direct(piece);
    sum_blocks(piece->device, first, piece->count, arrays->parameters, arrays->sums);
    norms.parameters = tree_sum(arrays->sums, blocks);
    sum_blocks(piece->device, first, piece->count, arrays->gradients, arrays->sums);
    norms.direction = tree_sum(arrays->sums, blocks);
    follow(piece, &norms);
}

/* ---- a step ---- */

void optimizer_update(const struct model_description *description, struct device *device,
                      const struct optimizer *optimizer, const struct optimizer_step *step, size_t first, size_t count,
                      const struct optimizer_arrays *arrays)
{
    const bool one_tensor = optimizer_needs_norms(optimizer->kind);
    for (size_t from = first, to; from < first + count; from = to) {
        const size_t i = parameter_at(description, from),
                     end = model_parameter_end(description, last_of_piece(description, i, one_tensor));
        to = end < first + count ? end : first + count;
        const struct piece piece =
            optimizer_piece_of(&description->parameters[i], device, optimizer, step, first, from, to, arrays);
        if (description->parameters[i].frozen)
            continue;
        if (description->parameters[i].statistic)
            update_statistics(&piece);
        else if (one_tensor)
            update_whole(&piece, from);
        else
            (optimizer->kind == OPTIMIZER_ADAMW ? update_adamw : update_sgd)(&piece);
    }
}
