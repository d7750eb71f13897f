/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/execute/costs.h"

#include "base/clock.h"
#include "training/model/passes.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

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

/* Each copy is used so often: the first time warms up, the fastest of the others counts. */
#define ROUNDS 3

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
    int32_t *tokens;
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
    const size_t element = weft_type_size(probe->device->type), activation = weft_type_size(probe->device->activations),
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
                                          .own_activations = places[1],
                                          .gradients = places[2],
                                          .tied = places[3],
                                          .tied_activations = places[4],
                                          .tied_gradients = places[5]};
    probe->x = places[6];
    probe->y = places[7];
    probe->gradient = places[8];
    return larger_size(used, 64);
}

static weft_status open_probe(struct costs_probe *probe, const struct model_options *options, struct error *error)
{
    const size_t layers = probe->description->layer_count, rows = options->batch * options->sequence;
    struct model_options own = *options;
    bool *only = calloc(layers, sizeof *only);
    probe->tokens = calloc(rows, sizeof *probe->tokens);
    if (!only || !probe->tokens) {
        free(only);
        return error_memory(error, rows * sizeof *probe->tokens, "the measurement of a layer");
    }
    only[probe->layer] = true;
    own.training = true;
    own.layers = only;
    own.slots = 1;
    probe->bytes = lay_out_probe(probe, rows, NULL);
    probe->copies = probe->alike < COPIES_MOST ? probe->alike : COPIES_MOST;
    while (probe->copies > 1 && probe->copies * probe->bytes > COPIES_BYTES)
        probe->copies--;
    weft_status status = model_open(probe->description, probe->device, &own, &probe->model, error);
    free(only);
    if (status != WEFT_OK)
        return status;
    probe->memory =
        probe->device->allocate(probe->device, probe->copies * probe->bytes, "the measurement of a layer", error);
    return probe->memory ? WEFT_OK : WEFT_ERROR_MEMORY;
}

static weft_status run_probe(struct costs_probe *probe, const struct model_options *options, double *seconds,
                             struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t turn = 0; status == WEFT_OK && turn < ROUNDS * probe->copies; turn++) {
        lay_out_probe(probe, options->batch * options->sequence, probe->memory + turn % probe->copies * probe->bytes);
        const struct layer_call call = {.layer = probe->layer, .x = probe->x, .y = probe->y, .arrays = &probe->arrays};
        status = model_slot_load(probe->model, 0,
                                 &(struct model_batch){.tokens = probe->tokens, .targets = probe->tokens}, error);
        const uint64_t begin = clock_now();
        if (status == WEFT_OK) {
            model_layer_forward(probe->model, &call, true);
            model_layer_backward_input(probe->model, &call, probe->gradient);
            model_layer_backward_weights(probe->model, &call);
            status = probe->device->finish(probe->device, error);
        }
        const double taken = (double)(clock_now() - begin) * 1e-9;
        if (turn == probe->copies || (turn > probe->copies && taken < *seconds))
            *seconds = taken;
    }
    return status;
}

static void close_probe(struct costs_probe *probe)
{
    model_close(probe->model);
    if (probe->memory)
        probe->device->release(probe->device, probe->memory);
    free(probe->tokens);
}

/* The first layer that is like this one. */
static size_t find_alike(const struct model_description *description, size_t number)
{
    size_t first = 0;
    while (first < number && !model_layers_are_alike(description, first, number))
        first++;
    return first;
}

static uint32_t count_alike(const struct model_description *description, size_t number)
{
    uint32_t count = 0;
    for (size_t other = number; other < description->layer_count; other++)
        count += find_alike(description, other) == number;
    return count;
}

weft_status costs_measure(const struct model_description *description, struct device *device,
                          const struct model_options *options, double *costs, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < description->layer_count; i++) {
        const size_t alike = find_alike(description, i);
        struct costs_probe probe = {.description = description, .device = device, .layer = i};
        if (alike == i)
            probe.alike = count_alike(description, i);
        if (alike < i) {
            costs[i] = costs[alike];
            continue;
        }
        status = open_probe(&probe, options, error);
        if (status == WEFT_OK)
            status = run_probe(&probe, options, &costs[i], error);
        close_probe(&probe);
    }
    return status;
}

/* ---- together with others ---- */

/* A rank that computes beside the one that is measured. */
struct costs_neighbor {
    pthread_t thread;
    const struct model_description *description;
    const struct model_options *options;
    weft_type activations;
    int threads;
    atomic_bool *ends;
};

/* Failures are those of the rank that is measured, too, or leave it alone. */
static void *compute_beside(void *argument)
{
    const struct costs_neighbor *neighbor = argument;
    double *costs = calloc(neighbor->description->layer_count, sizeof *costs);
    struct device *device;
    if (costs && device_open(device_cpu_name(neighbor->activations), neighbor->threads, &device, NULL) == WEFT_OK) {
        while (!atomic_load(neighbor->ends) &&
               costs_measure(neighbor->description, device, neighbor->options, costs, NULL) == WEFT_OK)
            continue;
        device->close(device);
    }
    free(costs);
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

weft_status costs_measure_together(const struct model_description *description, weft_type activations, int threads,
                                   uint32_t ranks, const struct model_options *options, double *costs,
                                   struct error *error)
{
    const uint32_t together = ranks_with_room(ranks, threads);
    struct costs_neighbor *neighbors = calloc(together ? together : 1, sizeof *neighbors);
    atomic_bool ends = false;
    uint32_t begun = 0;
    struct device *device;
    if (!neighbors)
        return error_memory(error, together * sizeof *neighbors, "the measurement of a layer");
    weft_status status = device_open(device_cpu_name(activations), threads, &device, error);
    for (uint32_t i = 0; status == WEFT_OK && i + 1 < together; i++) {
        neighbors[i] = (struct costs_neighbor){.description = description,
                                               .options = options,
                                               .activations = activations,
                                               .threads = threads,
                                               .ends = &ends};
        if (pthread_create(&neighbors[i].thread, NULL, compute_beside, &neighbors[i]) != 0)
            break;
        begun++;
    }
    if (status == WEFT_OK) {
        status = costs_measure(description, device, options, costs, error);
        device->close(device);
    }
    atomic_store(&ends, true);
    for (uint32_t i = 0; i < begun; i++)
        pthread_join(neighbors[i].thread, NULL);
    free(neighbors);
    return status;
}
