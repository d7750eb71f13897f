/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank of a mesh does and keeps: stages, layers, schedules, rows, groups. */
#include "training/parallel/execute/internal/layout.h"

#include "training/parallel/execute/stages.h"

#include <inttypes.h>
#include <stdlib.h>

/* An evaluation is cut into lists of a few micro-batches, so that it can be stopped. */
#define EVALUATION_ROUNDS 4

/* ---- the rank ---- */

static weft_status check_shares(const struct executor_config *config, struct error *error)
{
    const uint32_t data = config->mesh.extent[MESH_DATA];
    uint64_t sum = 0;
    if (config->zero > 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "ranks take turns under ZeRO-%u, so their shares of a global batch are alike; use ZeRO-0 or 1",
                         config->zero);
    for (uint32_t d = 0; d < data; d++) {
        if (!config->shares[d])
            return error_set(error, WEFT_ERROR_ARGUMENT, "rank %u of the data axis has no micro-batch", d);
        sum += config->shares[d];
    }
    if (sum != config->micro_batches)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the shares of %u ranks are %" PRIu64 " micro-batches, not %u",
                         data, sum, config->micro_batches);
    return WEFT_OK;
}

/* Each round of passes needs a micro-batch on every rank. */
static weft_status check_norms(const struct executor_config *config, struct error *error)
{
    const uint32_t data = config->mesh.extent[MESH_DATA];
    bool even = config->micro_batches % data == 0;
    for (uint32_t d = 1; even && config->shares && d < data; d++)
        even = config->shares[d] == config->shares[0];
    if (even)
        return WEFT_OK;
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "--sync-batch-norm needs as many micro-batches on each rank of the data axis, and a global batch of %u "
        "is not divided evenly over its %u ranks; use another --batch or --micro-batch, or other ranks",
        config->micro_batches, data);
}

weft_status executor_check_config(const struct executor_config *config, struct error *error)
{
    const uint32_t data = config->mesh.extent[MESH_DATA];
    if (config->micro_batches < data)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a global batch of %u micro-batches is too small for %u ranks of the data axis; use smaller "
                         "micro-batches, a larger batch, or fewer ranks on that axis",
                         config->micro_batches, data);
    weft_status status = config->shares ? check_shares(config, error) : WEFT_OK;
    return status == WEFT_OK && config->sync_batch_norm ? check_norms(config, error) : status;
}

bool executor_wants_sparse_table(const struct executor_config *config)
{
    const struct model_description *description = config->description;
    const size_t tokens = config->micro_batches * config->model.batch * config->model.sequence;
    return description->tied != NO_PARAMETER && !description->parameters[description->tied].frozen &&
           tokens <= description->shape.vocabulary;
}

void executor_place(struct executor *executor, const struct executor_config *config, const uint32_t point[MESH_AXES])
{
    executor->config = *config;
    executor->description = config->description;
    executor->data = config->mesh.extent[MESH_DATA];
    executor->pipeline = config->mesh.extent[MESH_PIPELINE];
    executor->data_rank = point[MESH_DATA];
    executor->pipeline_rank = point[MESH_PIPELINE];
    executor->tensor = config->mesh.extent[MESH_TENSOR];
    executor->tensor_rank = point[MESH_TENSOR];
    executor->tensor_group.divides_rows = config->sequence_parallel && executor->tensor > 1;
    executor->norm_group.ranks = config->sync_batch_norm && executor->data > 1 ? executor->data : 0;
    if (executor->data == 1)
        executor->config.zero = 0; /* there is nobody to divide with */
    if (!config->stages)
        executor->config.stages = executor->pipeline;
    executor->config.model.sparse_table = executor_wants_sparse_table(config);
}

bool executor_has_layer(const struct executor *executor, size_t layer)
{
    return executor->has_layer[layer];
}

/* ---- stages ---- */

static weft_status cut_stages(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    const uint32_t units = (uint32_t)executor->description->layer_count;
    const size_t rows =
        config->model.batch * config->model.sequence / (executor->tensor_group.divides_rows ? executor->tensor : 1);
    double *costs = config->first_unit ? NULL : calloc(units, sizeof *costs);
    executor->first_unit = calloc((size_t)config->stages + 1, sizeof *executor->first_unit);
    executor->row_elements = calloc(units, sizeof *executor->row_elements);
    weft_status status = WEFT_OK;
    if ((!costs && !config->first_unit) || !executor->first_unit || !executor->row_elements)
        status = error_memory(error, units * sizeof *costs, "the stages of a pipeline");
    for (uint32_t u = 0; status == WEFT_OK && u < units; u++)
        executor->row_elements[u] = model_layer_width(executor->description, u) * rows;
    if (status == WEFT_OK)
        status = stages_cut(config, config->stages, costs, executor->first_unit, error);
    free(costs);
    return status;
}

static weft_status keep_layers(struct executor *executor, struct error *error)
{
    const uint32_t units = (uint32_t)executor->description->layer_count;
    executor->has_layer = calloc(units, sizeof *executor->has_layer);
    if (!executor->has_layer)
        return error_memory(error, units * sizeof *executor->has_layer, "the layers of a rank");
    for (uint32_t s = executor->pipeline_rank; s < executor->config.stages; s += executor->pipeline)
        for (uint32_t u = executor->first_unit[s]; u < executor->first_unit[s + 1]; u++)
            executor->has_layer[u] = true;
    model_keep_layers(executor->description, executor->has_layer);
    return WEFT_OK;
}

/* ---- schedules ---- */

typedef weft_status (*list_writer)(const struct step_shape *shape, uint32_t pipeline_rank,
                                   struct step_schedule *schedule, struct error *error);

static weft_status make_lists(struct executor *executor, list_writer write, struct error *error)
{
    struct step_shape shape = stages_shape(&executor->config, executor->config.stages, executor->first_unit);
    executor->training.shape = shape;
    shape.order = STEP_EVALUATION;
    shape.micro_batches = executor->pipeline > 1 ? EVALUATION_ROUNDS * executor->pipeline : 1;
    executor->evaluation.shape = shape;
    weft_status status = write(&executor->training.shape, executor->pipeline_rank, &executor->training.schedule, error);
    return status == WEFT_OK
               ? write(&executor->evaluation.shape, executor->pipeline_rank, &executor->evaluation.schedule, error)
               : status;
}

weft_status executor_lay_out(struct executor *executor, struct error *error)
{
    weft_status status = cut_stages(executor, error); /* by whole layers, alike on all tensor ranks */
    if (status == WEFT_OK)
        status = model_divide(executor->description, executor->tensor, executor->tensor_rank, error);
    if (status == WEFT_OK)
        status = keep_layers(executor, error);
    return status == WEFT_OK ? make_lists(executor, step_write, error) : status;
}

weft_status executor_lay_out_memory(struct executor *executor, struct error *error)
{
    weft_status status = cut_stages(executor, error);
    if (status == WEFT_OK)
        status = keep_layers(executor, error);
    return status == WEFT_OK ? make_lists(executor, step_count, error) : status;
}

void executor_layout_free(struct executor *executor)
{
    step_free(&executor->training.schedule);
    step_free(&executor->evaluation.schedule);
    free(executor->first_unit);
    free(executor->row_elements);
    free(executor->has_layer);
}

/* ---- activations ---- */

struct model_options executor_model_options(const struct executor *executor)
{
    struct model_options options = executor->config.model;
    options.training = true;
    options.layers = executor->has_layer;
    options.tensor = executor->tensor > 1 ? &executor->tensor_group : NULL;
    options.norms = executor->norm_group.ranks ? &executor->norm_group : NULL;
    options.slots = executor->training.schedule.slots;
    options.split = executor->config.schedule == STEP_ZERO_BUBBLE_H1;
    return options;
}

static size_t larger_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct executor_rows executor_rows_of(const struct executor *executor)
{
    const bool moves = executor->pipeline > 1;
    size_t most = 0;
    for (uint32_t u = 0; u + 1 < executor->description->layer_count; u++)
        most = larger_of(most, executor->row_elements[u]);
    return (struct executor_rows){
        .bytes = (most * weft_type_size(executor->config.device->type) + 63) / 64 * 64,
        .inputs = larger_of(executor->training.schedule.inputs, executor->evaluation.schedule.inputs),
        .outputs = moves ? STEP_OUTPUT_BUFFERS : 0,
        .gradients = moves ? STEP_GRADIENT_BUFFERS : 1,
    };
}

/* ---- groups of a unit ---- */

uint32_t executor_unit_groups(const struct executor *executor, uint32_t unit, uint32_t groups[EXECUTOR_GROUPS_MOST])
{
    const struct model_description *description = executor->description;
    const size_t own = model_layer_group(description, unit);
    uint32_t count = 0;
    if (own != NO_PARAMETER)
        groups[count++] = (uint32_t)own;
    if (model_layer_uses_tied(description, unit))
        groups[count++] = (uint32_t)model_tied_group(description);
    return count;
}

uint32_t executor_tied_gradient_group(const struct executor *executor, uint32_t unit)
{
    if (unit == 0 && executor_table_is_sparse(executor))
        return STEP_NONE;
    return unit > 0 && executor_has_tied_part(executor) ? executor_tied_part(executor)
                                                        : (uint32_t)model_tied_group(executor->description);
}

bool executor_owns_group(const struct executor *executor, size_t group)
{
    const struct model_description *description = executor->description;
    if (!description->groups[group].count)
        return false;
    return group != model_tied_group(description) || executor->has_layer[0];
}

/* What the groups of a unit take together, values or gradients: the size of a buffer. */
static size_t largest_unit(const struct executor *executor, bool gradients)
{
    size_t most = 0;
    for (uint32_t unit = 0; unit < executor->description->layer_count; unit++) {
        uint32_t groups[EXECUTOR_GROUPS_MOST];
        const uint32_t count = executor_unit_groups(executor, unit, groups);
        size_t elements = 0;
        for (uint32_t i = 0; executor->has_layer[unit] && i < count; i++)
            if (!gradients || groups[i] != model_tied_group(executor->description) ||
                executor_tied_gradient_group(executor, unit) != STEP_NONE)
                elements += executor->description->groups[groups[i]].count;
        most = larger_of(most, elements);
    }
    return most;
}

size_t executor_gradient_elements(const struct executor *executor)
{
    const struct model_description *description = executor->description;
    return executor_has_tied_part(executor) ? description->gradient_elements : description->elements;
}

static bool group_is_frozen(const struct model_description *description, const struct model_group *group)
{
    for (size_t i = 0; i < group->parameter_count; i++)
        if (!description->parameters[group->parameter + i].frozen)
            return false;
    return true;
}

void executor_groups_free(struct executor_groups *groups)
{
    free(groups->ranges);
    free(groups->parts);
}

/* The tensors of one dimension, which layers read as they are. */
static uint32_t list_vectors(const struct model_description *description, struct value_part *parts)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        for (size_t i = 0; i < group->parameter_count; i++) {
            const struct model_parameter *parameter = &description->parameters[group->parameter + i];
            if (parameter->dimensions == 1 && !parameter->absent)
                parts[count++] = (struct value_part){
                    .group = g, .first = parameter->offset - group->offset, .count = parameter->count};
        }
    }
    return count;
}

weft_status executor_groups_of(const struct executor *executor, struct executor_groups *groups, struct error *error)
{
    const struct model_description *description = executor->description;
    const struct executor_config *config = &executor->config;
    const uint32_t count = (uint32_t)description->group_count;
    struct group_range *ranges = calloc((size_t)count + 1, sizeof *ranges);
    struct value_part *parts = calloc(description->parameter_count + 1, sizeof *parts);
    if (!ranges || !parts) {
        free(ranges);
        free(parts);
        return error_memory(error, count * sizeof *ranges, "groups of parameters");
    }
    for (uint32_t g = 0; g < count; g++)
        ranges[g] = (struct group_range){.offset = description->groups[g].offset,
                                         .count = description->groups[g].count,
                                         .turn = g,
                                         .central = config->central,
                                         .frozen = group_is_frozen(description, &description->groups[g])};
    if (executor_table_is_sparse(executor) && executor->has_layer[0] && description->tied_users == 1)
        ranges[model_tied_group(description)].total_only = true;
    if (executor_has_tied_part(executor)) {
        ranges[count] = ranges[model_tied_group(description)];
        ranges[count].offset = description->elements;
    }
    groups->ranges = ranges;
    groups->parts = parts;
    groups->values = (struct value_groups_config){
        .context = config->context,
        .comm = executor->comms.axes[MESH_DATA],
        .device = config->device,
        .ranges = ranges,
        .group_count = count,
        .elements = description->elements,
        .zero = config->zero,
        .activations = config->device->activations != config->device->type,
        .parts = groups->parts,
        .part_count = list_vectors(description, groups->parts),
        .second_moments = optimizer_has_second_moments(config->optimizer.kind),
        .buffers = executor->training.schedule.gathered,
        .buffer_elements = executor_gathers(executor) ? largest_unit(executor, false) : 0,
    };
    groups->gradients = (struct gradient_groups_config){
        .context = config->context,
        .comm = executor->comms.axes[MESH_DATA],
        .device = config->sums,
        .ranges = ranges,
        .group_count = count + executor_has_tied_part(executor),
        .elements = executor_gradient_elements(executor),
        .micro_batches = config->micro_batches,
        .shares = config->shares,
        .zero = config->zero,
        .type = config->gradients,
        .bucket_bytes = config->bucket_bytes,
        .buffers = STEP_REDUCTION_BUFFERS,
        .buffer_elements = executor_reduces_each(executor) ? largest_unit(executor, true) : 0,
    };
    return WEFT_OK;
}

bool executor_sparse_table_of(const struct executor *executor, struct sparse_gradient_config *table)
{
    const struct model_description *description = executor->description;
    const struct executor_config *config = &executor->config;
    if (!executor_table_is_sparse(executor) || !description->tied_users)
        return false;
    *table = (struct sparse_gradient_config){
        .context = config->context,
        .comm = executor->comms.axes[MESH_DATA],
        .device = config->sums,
        .width = description->parameters[description->tied].shape[1],
        .rows = config->model.batch * config->model.sequence,
        .micro_batches = config->micro_batches,
        .shares = config->shares,
        .zero = config->zero,
        .type = config->gradients,
    };
    return true;
}

size_t executor_tied_bytes(const struct executor *executor)
{
    const struct model_description *description = executor->description;
    const size_t group = model_tied_group(description);
    if (group == NO_PARAMETER || !description->groups[group].count || executor_has_both_uses(executor) ||
        executor_table_is_sparse(executor))
        return 0;
    const struct group_range range = {
        .count = description->groups[group].count, .turn = (uint32_t)group, .central = executor->config.central};
    const size_t slice =
        executor->config.zero ? group_slice_of(&range, executor->data_rank, executor->data).count : range.count;
    return slice * sizeof(float) + 64; /* a slice may be empty */
}

size_t executor_norm_bytes(const struct executor *executor)
{
    const struct model_description *description = executor->description;
    size_t widest = 0;
    for (size_t i = 0; i < description->parameter_count; i++)
        if (description->parameters[i].statistic && !description->parameters[i].absent)
            widest = larger_of(widest, description->parameters[i].count);
    const size_t vector =
        (widest * weft_type_size(executor->config.device->type) + 63) / 64 * 64; /* as arenas have it */
    return executor->norm_group.ranks * 2 * vector;
}
