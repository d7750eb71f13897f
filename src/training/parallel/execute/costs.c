/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/execute/costs.h"

#include "base/clock.h"
#include "base/random.h"
#include "training/model/passes.h"
#include "training/model/tensor_group.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- without measuring ---- */

/* A layer without any operations still takes a little. */
void costs_estimate(const struct model_description *description, const struct model_options *options, double *costs)
{
    double sum = 0;
    for (size_t i = 0; i < description->layer_count; i++) {
        struct model_layer layer;
        model_get_layer(description, i, WEFT_F32, WEFT_F32, options, &layer);
        sum += costs[i] = layer.flops;
    }
    for (size_t i = 0; i < description->layer_count; i++)
        costs[i] += sum * 1e-3 / (double)description->layer_count;
}

/* ---- measuring ---- */

/* Each copy is used once to warm up and then at least so often, and a layer at least so often in all. */
#define ROUNDS      2
#define TURNS_LEAST 5
#define TURNS_MOST  (ROUNDS * COPIES_MOST)

/* Layers that are alike take turns in up to so much memory. */
#define COPIES_BYTES ((size_t)256 << 20)
#define COPIES_MOST  4

/* One layer by itself, with memory for its rows, weights and gradients. */
struct costs_probe {
    const struct model_description *description;
    struct device *device;
    size_t layer;
    struct model *model;
    uint32_t alike, copies; /* layers like this one; arrays for so many of them */
    size_t bytes;           /* of a copy */
    char *memory;
    struct layer_arrays arrays;
    void *x, *y, *gradient;
    struct model_arrays arrays_read;
};

static size_t larger_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t group_elements(const struct costs_probe *probe, size_t group)
{
    return group == NO_PARAMETER ? 0 : probe->description->groups[group].count;
}

/* Give out the memory of a probe; with a base of NULL, count it. */
static size_t lay_out_probe(struct costs_probe *probe, size_t rows, char *base)
{
    const struct model_description *description = probe->description;
    const bool is_same = probe->device->activations == probe->device->type;
    const size_t element = weft_type_size(probe->device->type),
                 activation = is_same ? 0 : weft_type_size(probe->device->activations),
                 own = group_elements(probe, model_layer_group(description, probe->layer)),
                 tied = model_layer_uses_tied(description, probe->layer)
                            ? group_elements(probe, model_tied_group(description))
                            : 0,
                 row_bytes = (rows * description->widest * element + 63) / 64 * 64;
    const size_t sizes[] = {own * element,  own * activation, own * element, tied * element, tied * activation,
                            tied * element, row_bytes,        row_bytes,     row_bytes};
    char *places[9];
    size_t used = 0;
    for (size_t i = 0; i < 9; i++) {
        places[i] = base ? base + used : NULL;
        used += (sizes[i] + 63) / 64 * 64;
    }
    probe->arrays = (struct layer_arrays){.own = places[0],
                                          .own_activations = places[is_same ? 0 : 1],
                                          .gradients = places[2],
                                          .tied = places[3],
                                          .tied_activations = places[is_same ? 3 : 4],
                                          .tied_gradients = places[5]};
    probe->x = places[6];
    probe->y = places[7];
    probe->gradient = places[8];
    return larger_size(used, 64);
}

static void fill_with_noise(struct device *device, size_t count, double scale, void *array, void *activations)
{
    for (size_t i = 0; i < count; i++) {
        const double value = scale * (2 * random_uniform(count, i) - 1);
        if (device->type == WEFT_F64)
            ((double *)array)[i] = value;
        else
            ((float *)array)[i] = (float)value;
    }
    if (activations != array)
        device->to_activations(device, count, array, activations);
}

/* Numbers as large as in training: products of zeros take less power, and therefore less time. */
static void fill_copy(struct costs_probe *probe, size_t rows)
{
    const struct model_description *description = probe->description;
    const struct layer_arrays *arrays = &probe->arrays;
    const size_t numbers = rows * description->widest;
    fill_with_noise(probe->device, group_elements(probe, model_layer_group(description, probe->layer)), 0.03,
                    (void *)arrays->own, (void *)arrays->own_activations);
    if (model_layer_uses_tied(description, probe->layer))
        fill_with_noise(probe->device, group_elements(probe, model_tied_group(description)), 0.03, (void *)arrays->tied,
                        (void *)arrays->tied_activations);
    fill_with_noise(probe->device, numbers, 1e-3, probe->y, probe->gradient);
    fill_with_noise(probe->device, numbers, 1, probe->y, probe->x);
}

static weft_status open_probe(struct costs_probe *probe, const struct model_options *options, struct error *error)
{
    const size_t layers = probe->description->layer_count, rows = options->batch * options->sequence;
    struct model_options own = *options;
    bool *only = calloc(layers, sizeof *only);
    if (!only)
        return error_memory(error, layers * sizeof *only, "the measurement of a layer");
    only[probe->layer] = true;
    own.training = true;
    own.layers = only;
    probe->bytes = lay_out_probe(probe, rows, NULL);
    probe->copies = probe->alike < COPIES_MOST ? probe->alike : COPIES_MOST;
    while (probe->copies > 1 && probe->copies * probe->bytes > COPIES_BYTES)
        probe->copies--;
    own.slots = probe->copies;
    weft_status status = model_open(probe->description, probe->device, &own, &probe->model, error);
    if (status == WEFT_OK)
        status = model_arrays_allocate(probe->description, only, options->sequence, options->batch, &probe->arrays_read,
                                       error);
    free(only);
    if (status != WEFT_OK)
        return status;
    probe->memory =
        probe->device->allocate(probe->device, probe->copies * probe->bytes, "the measurement of a layer", error);
    if (!probe->memory)
        return WEFT_ERROR_MEMORY;
    for (uint32_t copy = 0; copy < probe->copies; copy++) {
        lay_out_probe(probe, rows, probe->memory + copy * probe->bytes);
        fill_copy(probe, rows);
    }
    return probe->device->finish(probe->device, error);
}

/* Seconds of `pass` for the copy that is laid out. */
static weft_status probe_pass(struct costs_probe *probe, uint32_t copy, int pass, double *seconds, struct error *error)
{
    const struct layer_call call = {
        .layer = probe->layer, .slot = copy, .x = probe->x, .y = probe->y, .arrays = &probe->arrays};
    const uint64_t begin = clock_now();
    if (pass == 0)
        model_layer_forward(probe->model, &call, true);
    else if (pass == 1)
        model_layer_backward_input(probe->model, &call, probe->gradient);
    else
        model_layer_backward_weights(probe->model, &call);
    const weft_status status = probe->device->finish(probe->device, error);
    *seconds = (double)(clock_now() - begin) * 1e-9;
    return status;
}

/* Copies forward and then backward in reverse, as layers of a step. Seconds of the passes: seconds[0 .. copies). */
static weft_status probe_round(struct costs_probe *probe, const struct model_options *options,
                               double seconds[][COSTS_PASSES], struct error *error)
{
    struct model_batch batch = {0};
    memcpy(batch.inputs, probe->arrays_read.of, sizeof batch.inputs);
    const size_t rows = options->batch * options->sequence;
    weft_status status = WEFT_OK;
    for (uint32_t copy = 0; status == WEFT_OK && copy < probe->copies; copy++) {
        lay_out_probe(probe, rows, probe->memory + copy * probe->bytes);
        status = model_slot_load(probe->model, copy, &batch, error);
        if (status == WEFT_OK)
            status = probe_pass(probe, copy, 0, &seconds[copy][0], error);
    }
    for (uint32_t copy = probe->copies; status == WEFT_OK && copy-- > 0;) {
        lay_out_probe(probe, rows, probe->memory + copy * probe->bytes);
        status = probe_pass(probe, copy, 1, &seconds[copy][1], error);
        if (status == WEFT_OK)
            status = probe_pass(probe, copy, 2, &seconds[copy][2], error);
    }
    return status;
}

static int compare_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status run_probe(struct costs_probe *probe, const struct model_options *options,
                             double seconds[COSTS_PASSES], struct error *error)
{
    double turns[TURNS_MOST][COSTS_PASSES], sorted[TURNS_MOST];
    uint32_t counted = 0;
    weft_status status = probe_round(probe, options, turns, error); /* warms up */
    while (status == WEFT_OK && (counted < ROUNDS * probe->copies || counted < TURNS_LEAST)) {
        status = probe_round(probe, options, turns + counted, error);
        counted += probe->copies;
    }
    for (int pass = 0; status == WEFT_OK && pass < COSTS_PASSES; pass++) {
        for (uint32_t turn = 0; turn < counted; turn++)
            sorted[turn] = turns[turn][pass];
        qsort(sorted, counted, sizeof *sorted, compare_seconds);
        seconds[pass] = sorted[counted / 2];
    }
    return status;
}

static void close_probe(struct costs_probe *probe)
{
    model_close(probe->model);
    if (probe->memory)
        probe->device->release(probe->device, probe->memory);
    model_arrays_free(&probe->arrays_read);
}

/* The first layer that is like this one, of those before it, which are known. */
static size_t find_alike(const struct model_description *description, const struct model_options *options,
                         const size_t *alike, size_t number)
{
    const bool again = model_recomputes_layer(description, options->recompute, options->recompute_layers, number);
    size_t first = 0;
    while (first < number &&
           (alike[first] != first || !model_layers_are_alike(description, first, number) ||
            model_recomputes_layer(description, options->recompute, options->recompute_layers, first) != again))
        first++;
    return first;
}

static uint32_t count_alike(const size_t *alike, size_t count, size_t number)
{
    uint32_t found = 0;
    for (size_t other = number; other < count; other++)
        found += alike[other] == number;
    return found;
}

/* Once `ends` is set (NULL: never), layers that are left are not measured. */
static weft_status measure_on(struct device *device, const struct model_description *description,
                              const struct model_options *options, atomic_bool *ends, double (*seconds)[COSTS_PASSES],
                              struct error *error)
{
    const size_t layers = description->layer_count;
    size_t *alike = calloc(layers, sizeof *alike);
    weft_status status = alike ? WEFT_OK : error_memory(error, layers * sizeof *alike, "the costs of layers");
    for (size_t i = 0; status == WEFT_OK && i < layers; i++)
        alike[i] = find_alike(description, options, alike, i);
    for (size_t i = 0; status == WEFT_OK && i < layers && !(ends && atomic_load(ends)); i++) {
        struct costs_probe probe = {
            .description = description, .device = device, .layer = i, .alike = count_alike(alike, layers, i)};
        if (alike[i] < i) {
            memcpy(seconds[i], seconds[alike[i]], sizeof *seconds);
            continue;
        }
        status = open_probe(&probe, options, error);
        if (status == WEFT_OK)
            status = run_probe(&probe, options, seconds[i], error);
        close_probe(&probe);
    }
    free(alike);
    return status;
}

weft_status costs_measure(const struct model_description *description, struct device *device,
                          const struct model_options *options, double *costs, struct error *error)
{
    double(*seconds)[COSTS_PASSES] = calloc(description->layer_count, sizeof *seconds);
    if (!seconds)
        return error_memory(error, description->layer_count * sizeof *seconds, "the costs of layers");
    const weft_status status = measure_on(device, description, options, NULL, seconds, error);
    for (size_t i = 0; status == WEFT_OK && i < description->layer_count; i++)
        costs[i] = seconds[i][0] + seconds[i][1] + seconds[i][2];
    free(seconds);
    return status;
}

/* ---- a tensor axis ---- */

static void sum_nothing(void *context, weft_type type, size_t count, void *array)
{
}

static void gather_nothing(void *context, size_t bytes, void *array)
{
}

/* ---- together with others ---- */

/* A rank that measures, or computes beside the one that does. */
struct costs_rank {
    pthread_t thread;
    const struct model_description *description;
    const struct costs_setting *setting;
    const struct model_options *options;
    atomic_bool *ends;
};

/* Failures are those of the rank that is measured, too, or leave it alone. */
static void *compute_beside(void *argument)
{
    const struct costs_rank *rank = argument;
    double(*seconds)[COSTS_PASSES] = calloc(rank->description->layer_count, sizeof *seconds);
    struct device *device;
    if (seconds &&
        device_open(device_cpu_name(rank->setting->activations), rank->setting->threads, &device, NULL) == WEFT_OK) {
        while (!atomic_load(rank->ends) &&
               measure_on(device, rank->description, rank->options, rank->ends, seconds, NULL) == WEFT_OK)
            continue;
        device->close(device);
    }
    free(seconds);
    return NULL;
}

static uint32_t ranks_with_room(uint32_t ranks, int threads)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    const uint32_t most = (uint32_t)(CPU_COUNT(&allowed) / (threads > 1 ? threads : 1));
    return ranks < most ? ranks : most;
}

static weft_status measure_beside_others(const struct costs_rank *rank, double (*seconds)[COSTS_PASSES],
                                         struct error *error)
{
    const struct costs_setting *setting = rank->setting;
    const uint32_t together = ranks_with_room(setting->together, setting->threads);
    struct costs_rank *others = calloc(together ? together : 1, sizeof *others);
    uint32_t begun = 0;
    struct device *device;
    if (!others)
        return error_memory(error, together * sizeof *others, "the measurement of a layer");
    weft_status status = device_open(device_cpu_name(setting->activations), setting->threads, &device, error);
    for (uint32_t i = 0; status == WEFT_OK && i + 1 < together; i++) {
        others[i] = *rank;
        if (pthread_create(&others[i].thread, NULL, compute_beside, &others[i]) != 0)
            break;
        begun++;
    }
    if (status == WEFT_OK) {
        status = measure_on(device, rank->description, rank->options, NULL, seconds, error);
        device->close(device);
    }
    atomic_store(rank->ends, true);
    for (uint32_t i = 0; i < begun; i++)
        pthread_join(others[i].thread, NULL);
    free(others);
    return status;
}

weft_status costs_measure_passes(const struct costs_setting *setting, double (*seconds)[COSTS_PASSES],
                                 struct error *error)
{
    const struct tensor_group alone = {.ranks = setting->tensor,
                                       .divides_rows = setting->divides_rows,
                                       .sum = sum_nothing,
                                       .sum_part = sum_nothing,
                                       .gather = gather_nothing};
    struct model_options options = setting->options;
    struct model_description *divided = NULL;
    atomic_bool ends = false;
    weft_status status = WEFT_OK;
    if (setting->tensor > 1) {
        options.tensor = &alone;
        status = model_description_copy(setting->description, &divided, error);
        if (status == WEFT_OK)
            status = model_divide(divided, setting->tensor, 0, error);
    }
    const struct costs_rank rank = {
        .description = divided ? divided : setting->description,
        .setting = setting,
        .options = &options,
        .ends = &ends,
    };
    if (status == WEFT_OK)
        status = measure_beside_others(&rank, seconds, error);
    model_description_free(divided);
    return status;
}
