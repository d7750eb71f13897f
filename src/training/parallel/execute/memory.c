/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/execute/memory.h"

#include "training/parallel/execute/internal/layout.h"

#include <stdlib.h>

/* The layout of the state's pieces: a column of a matrix is a piece in each row. */
static size_t pieces_of(const struct executor *executor)
{
    const struct model_description *description = executor->description;
    const size_t arrays = optimizer_has_second_moments(executor->config.optimizer.kind) ? 3 : 2,
                 holders = executor->config.zero ? 1 : executor->data;
    size_t all = 0, own = 0;
    if (executor->tensor == 1)
        return 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const size_t ranges = model_range_count(description, i);
        all += ranges * executor->tensor;
        own += description->parameters[i].absent ? 0 : ranges;
    }
    return all * arrays * (sizeof(struct state_cell) + holders * (sizeof(uint32_t) + STATE_RECORD_BYTES)) +
           own * sizeof(struct state_piece);
}

static weft_status count_memory(const struct executor *executor, struct executor_memory *memory, struct error *error)
{
    const struct device *device = executor->config.device;
    const struct model_options options = executor_model_options(executor);
    const struct executor_rows rows = executor_rows_of(executor);
    struct executor_groups groups;
    struct sparse_gradient_config table;
    weft_status status = executor_groups_of(executor, &groups, error);
    if (status != WEFT_OK)
        return status;
    const struct value_memory values = value_groups_memory(&groups.values, executor->data_rank, executor->data);
    const struct gradient_memory gradients =
        gradient_groups_memory(&groups.gradients, executor->data_rank, executor->data);
    executor_groups_free(&groups);
    *memory = (struct executor_memory){
        .weights = values.weights,
        .gathered = values.gathered,
        .gradients = gradients.gradients,
        .optimizer = values.moments,
        .partial_sums = gradients.partial_sums,
        .exchanges = gradients.exchanges + executor_tied_bytes(executor) + executor_norm_bytes(executor),
        .table_rows = executor_sparse_table_of(executor, &table) ? sparse_gradient_memory(&table) : 0,
        .copy = values.copy,
        .activations = model_memory(executor->description, device->type, device->activations, &options),
        .pieces = pieces_of(executor),
        .rows = (rows.inputs + rows.outputs + rows.gradients) * rows.bytes,
    };
    return WEFT_OK;
}

/* ---- networks ---- */

static weft_status find_network(const struct model_description *whole, uint32_t ranks, uint32_t rank,
                                struct executor_networks *networks, struct model_description **network,
                                struct error *error)
{
    for (size_t i = 0; i < networks->count; i++)
        if (networks->divided[i]->tensor_ranks == ranks && networks->divided[i]->tensor_rank == rank) {
            *network = networks->divided[i];
            return WEFT_OK;
        }
    weft_status status = ARRAY_RESERVE(networks->divided, networks->room, networks->count + 1, "a network", error);
    if (status == WEFT_OK)
        status = model_description_copy(whole, network, error);
    if (status != WEFT_OK)
        return status;
    status = model_divide(*network, ranks, rank, error);
    if (status == WEFT_OK)
        networks->divided[networks->count++] = *network;
    else
        model_description_free(*network);
    return status;
}

void executor_networks_free(struct executor_networks *networks)
{
    for (size_t i = 0; i < networks->count; i++)
        model_description_free(networks->divided[i]);
    free(networks->divided);
    *networks = (struct executor_networks){0};
}

/* ---- all of it ---- */

weft_status executor_memory_of(const struct executor_config *config, const uint32_t point[MESH_AXES],
                               struct executor_networks *networks, struct executor_memory *memory, struct error *error)
{
    struct executor executor = {0};
    struct executor_networks own = {0};
    weft_status status = executor_check_config(config, error);
    if (status != WEFT_OK)
        return status;
    executor_place(&executor, config, point);
    status = find_network(config->description, executor.tensor, executor.tensor_rank, networks ? networks : &own,
                          &executor.description, error);
    if (status == WEFT_OK)
        status = executor_lay_out_memory(&executor, error);
    if (status == WEFT_OK)
        status = count_memory(&executor, memory, error);
    executor_layout_free(&executor);
    executor_networks_free(&own);
    return status;
}

uint64_t executor_memory_total(const struct executor_memory *memory)
{
    return memory->weights + memory->gathered + memory->gradients + memory->optimizer + memory->partial_sums +
           memory->exchanges + memory->table_rows + memory->copy + memory->activations + memory->pieces + memory->rows;
}
