/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/machine_costs.h"

#include "training/parallel/execute/costs.h"

#include <stdio.h>
#include <stdlib.h>

void machine_costs_free(struct machine_costs *costs)
{
    for (size_t i = 0; i < costs->count; i++)
        free(costs->items[i].costs);
    free(costs->items);
    costs->items = NULL;
    costs->count = costs->room = 0;
}

static weft_status measure_item(struct machine_costs *costs, struct machine_measurement *item, struct error *error)
{
    const struct model_options options = {.batch = item->micro_batch, .sequence = costs->sequence, .training = true};
    item->costs = calloc(costs->description->layer_count, sizeof *item->costs);
    if (!item->costs)
        return error_memory(error, costs->description->layer_count * sizeof *item->costs, "the costs of layers");
    return costs_measure_together(costs->description, item->precision, costs->threads, item->together, &options,
                                  item->costs, error);
}

static weft_status find_item(struct machine_costs *costs, const struct machine_measurement *key,
                             const struct machine_measurement **found, struct error *error)
{
    for (size_t i = 0; i < costs->count; i++) {
        const struct machine_measurement *item = &costs->items[i];
        *found = item;
        if (item->micro_batch == key->micro_batch && item->precision == key->precision &&
            item->together == key->together)
            return WEFT_OK;
    }
    weft_status status = ARRAY_RESERVE(costs->items, costs->room, costs->count + 1, "the costs of layers", error);
    if (status != WEFT_OK)
        return status;
    struct machine_measurement *item = &costs->items[costs->count];
    *item = *key;
    status = measure_item(costs, item, error);
    if (status != WEFT_OK) {
        free(item->costs);
        return status;
    }
    costs->count++;
    *found = item;
    return WEFT_OK;
}

weft_status machine_costs_measure(void *context, const struct strategy *strategy, double *seconds, struct error *error)
{
    struct machine_costs *costs = context;
    const size_t most = MACHINE_COSTS_TOKENS / costs->sequence;
    const uint32_t ranks = mesh_ranks(&strategy->mesh);
    const struct machine_measurement key = {
        .micro_batch = strategy->micro_batch <= most ? strategy->micro_batch
                       : most > 1                    ? (uint32_t)most
                                                     : 1,
        .precision = strategy->precision,
        .together = ranks < costs->together ? ranks : costs->together,
    };
    const struct machine_measurement *item;
    const weft_status status = find_item(costs, &key, &item, error);
    for (size_t layer = 0; status == WEFT_OK && layer < costs->description->layer_count; layer++)
        seconds[layer] = item->costs[layer] * strategy->micro_batch / key.micro_batch;
    return status;
}

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
