/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/machine_costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void machine_costs_free(struct machine_costs *costs)
{
    for (size_t i = 0; i < costs->count; i++)
        free(costs->items[i].seconds);
    free(costs->items);
    costs->items = NULL;
    costs->count = costs->room = 0;
}

weft_status machine_costs_add(struct machine_costs *costs, const struct machine_measurement *key,
                              const double (**seconds)[COSTS_PASSES], struct error *error)
{
    const size_t layers = costs->description->layer_count;
    const struct costs_setting setting = {
        .description = costs->description,
        .options = {.batch = key->micro_batch, .sequence = costs->sequence, .training = true},
        .activations = key->precision,
        .threads = costs->threads,
        .tensor = key->tensor,
        .divides_rows = key->divides_rows,
        .together = key->together,
    };
    weft_status status = ARRAY_RESERVE(costs->items, costs->room, costs->count + 1, "the times of layers", error);
    if (status != WEFT_OK)
        return status;
    struct machine_measurement item = *key;
    item.seconds = calloc(layers, sizeof *item.seconds);
    if (!item.seconds)
        return error_memory(error, layers * sizeof *item.seconds, "the times of layers");
    status = costs_measure_passes(&setting, item.seconds, error);
    if (status != WEFT_OK) {
        free(item.seconds);
        return status;
    }
    costs->items[costs->count++] = item;
    *seconds = (const double(*)[COSTS_PASSES])item.seconds;
    return WEFT_OK;
}

/* ---- measured when asked for ---- */

static weft_status find_or_measure(struct machine_costs *costs, const struct machine_measurement *key,
                                   const double (**seconds)[COSTS_PASSES], struct error *error)
{
    for (size_t i = 0; i < costs->count; i++) {
        const struct machine_measurement *item = &costs->items[i];
        *seconds = (const double(*)[COSTS_PASSES])item->seconds;
        if (item->micro_batch == key->micro_batch && item->tensor == key->tensor &&
            item->divides_rows == key->divides_rows && item->precision == key->precision &&
            item->together == key->together)
            return WEFT_OK;
    }
    return machine_costs_add(costs, key, seconds, error);
}

/* ---- read from a file ---- */

/* How much an item lacks of what is asked for; measured beside other numbers of ranks, all serve alike. */
static double distance_of(const struct machine_measurement *item, const struct machine_measurement *key)
{
    double distance = 0;
    if (item->precision != key->precision || (item->tensor != key->tensor && item->tensor != 1))
        return INFINITY;
    distance += item->tensor == key->tensor ? 0 : 1e12;
    distance += item->divides_rows == key->divides_rows ? 0 : 1e9;
    if (item->micro_batch > key->micro_batch)
        return distance + 1e6 + item->micro_batch;
    return distance + key->micro_batch - item->micro_batch;
}

static const struct machine_measurement *find_nearest(const struct machine_costs *costs,
                                                      const struct machine_measurement *key)
{
    const struct machine_measurement *nearest = NULL;
    double least = INFINITY;
    for (size_t i = 0; i < costs->count; i++) {
        const double distance = distance_of(&costs->items[i], key);
        if (distance < least) {
            least = distance;
            nearest = &costs->items[i];
        }
    }
    return nearest;
}

uint32_t machine_costs_largest(const struct machine_costs *costs)
{
    const size_t tokens = MACHINE_COSTS_TOKENS / costs->sequence,
                 numbers = MACHINE_COSTS_NUMBERS / (costs->sequence * costs->description->widest),
                 most = tokens < numbers ? tokens : numbers;
    return most > 1 ? (uint32_t)most : 1;
}

weft_status machine_costs_measure(void *context, const struct strategy *strategy, double (*seconds)[COSTS_PASSES],
                                  struct error *error)
{
    struct machine_costs *costs = context;
    const uint32_t most = machine_costs_largest(costs);
    const uint32_t ranks = mesh_ranks(&strategy->mesh);
    struct machine_measurement key = {
        .micro_batch = strategy->micro_batch <= most || costs->is_read ? strategy->micro_batch : most,
        .tensor = strategy->mesh.extent[MESH_TENSOR],
        .divides_rows = strategy->sequence_parallel,
        .precision = strategy->precision,
        .together = ranks < costs->together ? ranks : costs->together,
    };
    const double(*known)[COSTS_PASSES];
    double factor = 1;
    if (costs->is_read) {
        const struct machine_measurement *nearest = find_nearest(costs, &key);
        if (!nearest)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "the file of layer times has none in %s: measure them with weft profile layers "
                             "--precision %s",
                             weft_type_name(key.precision), weft_type_name(key.precision));
        factor = (double)nearest->tensor / key.tensor;
        key.micro_batch = nearest->micro_batch;
        known = (const double(*)[COSTS_PASSES])nearest->seconds;
    } else {
        const weft_status status = find_or_measure(costs, &key, &known, error);
        if (status != WEFT_OK)
            return status;
    }
    factor *= (double)strategy->micro_batch / key.micro_batch;
    for (size_t layer = 0; layer < costs->description->layer_count; layer++)
        for (int pass = 0; pass < COSTS_PASSES; pass++)
            seconds[layer][pass] = known[layer][pass] * factor;
    return WEFT_OK;
}

/* ---- the peak ---- */

weft_status machine_costs_device(const weft_type *precisions, uint32_t count, int threads,
                                 const struct simulated_cluster *links, struct cluster_device *described,
                                 struct error *error)
{
    *described =
        (struct cluster_device){.memory_bandwidth = links->memory_bandwidth, .product_share = 1, .memory_share = 1};
    snprintf(described->kind, sizeof described->kind, "core of this machine");
    snprintf(described->source, sizeof described->source, "measured");
    for (uint32_t i = 0; i < count; i++) {
        struct device *device;
        weft_status status = device_open(device_cpu_name(precisions[i]), threads, &device, error);
        if (status != WEFT_OK)
            return status;
        described->flops[step_precision_of(precisions[i])] = device->peak(device);
        device->close(device);
    }
    return WEFT_OK;
}
