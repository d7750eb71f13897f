/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an executor: communicators, stages, schedules, memory. */
#include "training/parallel/agreement.h"
#include "training/parallel/execute/internal/executor_parts.h"
#include "training/parallel/execute/internal/stages.h"
#include "training/parallel/step/verify.h"
#include "training/tensor/tree.h"

#include <stdlib.h>

/* ---- checks ---- */

weft_status executor_check_config(const struct executor_config *config, struct error *error)
{
    const uint32_t data = config->mesh.extent[MESH_DATA];
    if (config->mesh.extent[MESH_TENSOR] > 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a tensor axis of %u ranks: layers cannot be split yet; use the data and pipeline axes",
                         config->mesh.extent[MESH_TENSOR]);
    if (config->micro_batches < data)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a global batch of %u micro-batches is too small for %u ranks of the data axis; use smaller "
                         "micro-batches, a larger batch, or fewer ranks on that axis",
                         config->micro_batches, data);
    if (config->zero && data > 1 && !config->central &&
        (config->optimizer.kind == OPTIMIZER_LAMB || config->optimizer.kind == OPTIMIZER_LARS))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "ZeRO-%u cuts tensors into shards, but %s needs the norm of whole ones; use adamw or sgd, or "
                         "no shards",
                         config->zero, optimizer_names[config->optimizer.kind]);
    return WEFT_OK;
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
    return unit > 0 && executor_has_both_uses(executor) ? executor_tied_part(executor)
                                                        : (uint32_t)model_tied_group(executor->description);
}

bool executor_has_layer(const struct executor *executor, size_t layer)
{
    return executor->has_layer[layer];
}

bool executor_owns_group(const struct executor *executor, size_t group)
{
    const struct model_description *description = executor->description;
    if (!description->groups[group].count)
        return false;
    return group != model_tied_group(description) || executor->has_layer[0];
}

/* ---- stages ---- */

static weft_status cut_stages(struct executor *executor, uint32_t stages, struct error *error)
{
    const struct model_description *description = executor->description;
    const struct model_options *options = &executor->config.model;
    const uint32_t units = (uint32_t)description->layer_count;
    double *costs = calloc(units, sizeof *costs);
    executor->first_unit = calloc((size_t)stages + 1, sizeof *executor->first_unit);
    executor->row_elements = calloc(units, sizeof *executor->row_elements);
    weft_status status = WEFT_OK;
    if (!costs || !executor->first_unit || !executor->row_elements)
        status = error_memory(error, units * sizeof *costs, "the stages of a pipeline");
    for (uint32_t u = 0; status == WEFT_OK && u < units; u++) {
        struct model_layer layer;
        model_get_layer(description, u, WEFT_F32, WEFT_F32, options, &layer);
        executor->row_elements[u] = layer.width * options->batch * options->sequence;
    }
    if (status == WEFT_OK)
        status = stages_cut(&executor->config, stages, costs, executor->first_unit, error);
    free(costs);
    return status;
}

static weft_status keep_layers(struct executor *executor, uint32_t stages, struct error *error)
{
    const uint32_t units = (uint32_t)executor->description->layer_count;
    executor->has_layer = calloc(units, sizeof *executor->has_layer);
    if (!executor->has_layer)
        return error_memory(error, units * sizeof *executor->has_layer, "the layers of a rank");
    for (uint32_t s = executor->pipeline_rank; s < stages; s += executor->pipeline)
        for (uint32_t u = executor->first_unit[s]; u < executor->first_unit[s + 1]; u++)
            executor->has_layer[u] = true;
    model_keep_layers(executor->description, executor->has_layer);
    return WEFT_OK;
}

/* ---- schedules ---- */

/* Write the lists of all pipeline ranks, prove them together, and keep this rank's. */
static weft_status open_list(struct executor *executor, const struct step_shape *shape, struct executor_list *list,
                             struct error *error)
{
    struct step_schedule *all = calloc(shape->pipeline, sizeof *all);
    if (!all)
        return error_memory(error, shape->pipeline * sizeof *all, "the schedules of a step");
    list->shape = *shape;
    weft_status status = WEFT_OK;
    for (uint32_t rank = 0; status == WEFT_OK && rank < shape->pipeline; rank++)
        status = step_write(shape, rank, &all[rank], error);
    if (status == WEFT_OK)
        status = step_verify(shape, all, error);
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        if (status == WEFT_OK && rank == executor->pipeline_rank)
            list->schedule = all[rank];
        else
            step_free(&all[rank]);
    free(all);
    if (status != WEFT_OK)
        return status;
    const size_t passes = (size_t)executor_list_units(list) * EXECUTOR_PASS_KINDS;
    list->executions = calloc(list->schedule.count, sizeof *list->executions);
    list->passes = calloc(passes, sizeof *list->passes);
    return list->executions && list->passes
               ? WEFT_OK
               : error_memory(error, list->schedule.count * sizeof *list->executions + passes * sizeof *list->passes,
                              "a step's state");
}

/* An evaluation is cut into lists of a few micro-batches, so that it can be stopped. */
#define EVALUATION_ROUNDS 4

static weft_status open_lists(struct executor *executor, uint32_t stages, struct error *error)
{
    struct step_shape shape = stages_shape(&executor->config, stages, executor->first_unit);
    weft_status status = open_list(executor, &shape, &executor->training, error);
    shape.order = STEP_EVALUATION;
    shape.micro_batches = executor->pipeline > 1 ? EVALUATION_ROUNDS * executor->pipeline : 1;
    return status == WEFT_OK ? open_list(executor, &shape, &executor->evaluation, error) : status;
}

/* ---- communicators ---- */

static weft_status open_comms(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    weft_status status = mesh_comms_open(config->comm, &config->mesh, &config->placement, &executor->comms, error);
    if (status != WEFT_OK)
        return status;
    executor->data = config->mesh.extent[MESH_DATA];
    executor->pipeline = config->mesh.extent[MESH_PIPELINE];
    executor->data_rank = executor->comms.point[MESH_DATA];
    executor->pipeline_rank = executor->comms.point[MESH_PIPELINE];
    weft_comm **const copies[] = {&executor->outputs, &executor->to_inputs, &executor->ties};
    for (size_t i = 0; status == WEFT_OK && executor->pipeline > 1 && i < ARRAY_SIZE(copies); i++)
        status =
            library_error(config->context, weft_comm_duplicate(executor->comms.axes[MESH_PIPELINE], copies[i]), error);
    return status;
}

/* ---- memory ---- */

static size_t larger_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows that enter stages, move, and their gradients. */
static weft_status open_rows(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    struct device *device = config->device;
    const bool moves = executor->pipeline > 1;
    const size_t element = weft_type_size(device->type);
    size_t most = 0, inputs = larger_of(executor->training.schedule.inputs, executor->evaluation.schedule.inputs);
    for (uint32_t u = 0; u + 1 < executor->description->layer_count; u++)
        most = larger_of(most, executor->row_elements[u]);
    executor->input_bytes = executor->moving_bytes = (most * element + 63) / 64 * 64;
    executor->gradient_stride = moves ? executor->moving_bytes : 0;
    const size_t outputs = moves ? STEP_MOVING_BUFFERS : 0, gradients = moves ? STEP_MOVING_BUFFERS : 1;
    executor->memory =
        device->allocate(device, (inputs + outputs + gradients) * executor->moving_bytes, "rows between layers", error);
    if (!executor->memory)
        return WEFT_ERROR_MEMORY;
    executor->inputs = executor->memory;
    executor->moving_outputs = executor->inputs + inputs * executor->input_bytes;
    executor->moving_gradients = executor->moving_outputs + outputs * executor->moving_bytes;
    return WEFT_OK;
}

/* A tensor and the gap after it are at most its group. */
static size_t largest_group(const struct model_description *description)
{
    size_t most = 0;
    for (size_t g = 0; g < description->group_count; g++)
        most = larger_of(most, description->groups[g].count);
    return most;
}

static weft_status open_host_memory(struct executor *executor, struct error *error)
{
    const struct model_description *description = executor->description;
    const size_t units = description->layer_count, gathered = (size_t)executor->training.schedule.gathered + 1,
                 tokens = executor->config.model.batch * executor->config.model.sequence,
                 blocks = tree_blocks(largest_group(description));
    executor->sum_count = description->blocks + executor->config.micro_batches + 1;
    executor->sums = calloc(executor->sum_count, sizeof *executor->sums);
    executor->scratch = calloc(blocks, sizeof *executor->scratch);
    executor->arrays = calloc(units, sizeof *executor->arrays);
    executor->buffer_of = calloc(units, sizeof *executor->buffer_of);
    executor->buffer_taken = calloc(gathered, sizeof *executor->buffer_taken);
    executor->tokens = calloc(2 * tokens, sizeof *executor->tokens);
    if (!executor->sums || !executor->scratch || !executor->arrays || !executor->buffer_of || !executor->buffer_taken ||
        !executor->tokens)
        return error_memory(error,
                            (executor->sum_count + blocks) * sizeof *executor->sums + 2 * tokens * sizeof(int32_t),
                            "the state of a step");
    executor->targets = executor->tokens + tokens;
    for (size_t u = 0; u < units; u++)
        executor->buffer_of[u] = STEP_NONE;
    return WEFT_OK;
}

static weft_status executor_open_model(struct executor *executor, struct error *error)
{
    struct model_options options = executor->config.model;
    options.training = true;
    options.layers = executor->has_layer;
    options.slots = executor->training.schedule.slots;
    options.split = executor->config.schedule == STEP_ZERO_BUBBLE_H1;
    return model_open(executor->description, executor->config.device, &options, &executor->model, error);
}

/* What the groups of a unit take together: the size of a buffer. */
static size_t largest_unit(const struct executor *executor)
{
    size_t most = 0;
    for (uint32_t unit = 0; unit < executor->description->layer_count; unit++) {
        uint32_t groups[EXECUTOR_GROUPS_MOST];
        const uint32_t count = executor_unit_groups(executor, unit, groups);
        size_t elements = 0;
        for (uint32_t i = 0; executor->has_layer[unit] && i < count; i++)
            elements += executor->description->groups[groups[i]].count;
        most = larger_of(most, elements);
    }
    return most;
}

static bool group_is_frozen(const struct model_description *description, const struct model_group *group)
{
    for (size_t i = 0; i < group->parameter_count; i++)
        if (!description->parameters[group->parameter + i].frozen)
            return false;
    return true;
}

/* Collective over the data axis. */
static weft_status open_groups(struct executor *executor, struct error *error)
{
    const struct model_description *description = executor->description;
    const struct executor_config *config = &executor->config;
    const uint32_t count = (uint32_t)description->group_count;
    struct group_range *ranges = calloc((size_t)count + 1, sizeof *ranges);
    if (!ranges)
        return error_memory(error, count * sizeof *ranges, "groups of parameters");
    for (uint32_t g = 0; g < count; g++)
        ranges[g] = (struct group_range){.offset = description->groups[g].offset,
                                         .count = description->groups[g].count,
                                         .turn = g,
                                         .central = config->central,
                                         .frozen = group_is_frozen(description, &description->groups[g])};
    if (executor_has_both_uses(executor)) {
        ranges[count] = ranges[model_tied_group(description)];
        ranges[count].offset = description->elements;
    }
    const bool mixed = config->device->activations != config->device->type;
    weft_status status = value_groups_open(
        &(struct value_groups_config){.context = config->context,
                                      .comm = executor->comms.axes[MESH_DATA],
                                      .device = config->sums,
                                      .ranges = ranges,
                                      .group_count = count,
                                      .elements = description->elements,
                                      .zero = config->zero,
                                      .activations = mixed,
                                      .second_moments = optimizer_has_second_moments(config->optimizer.kind),
                                      .buffers = executor->training.schedule.gathered,
                                      .buffer_elements = executor_gathers(executor) ? largest_unit(executor) : 0,
                                      .waited = &executor->wait_seconds},
        &executor->values, error);
    const struct gradient_groups_config gradients = {
        .context = config->context,
        .comm = executor->comms.axes[MESH_DATA],
        .device = config->sums,
        .ranges = ranges,
        .group_count = count + executor_has_both_uses(executor),
        .elements = description->gradient_elements,
        .micro_batches = config->micro_batches,
        .zero = config->zero,
        .type = config->gradients,
        .bucket_bytes = config->bucket_bytes,
        .buffers = STEP_MOVING_BUFFERS,
        .buffer_elements = executor_reduces_each(executor) ? largest_unit(executor) : 0,
        .waited = &executor->wait_seconds,
    };
    executor->share = gradient_groups_share(&gradients, executor->data_rank, executor->data);
    if (status == WEFT_OK)
        status = gradient_groups_open(&gradients, &executor->gradients, error);
    free(ranges);
    return status;
}

/* The slice of a tied table that comes from another pipeline rank. */
static weft_status open_tied_total(struct executor *executor, struct error *error)
{
    const size_t group = model_tied_group(executor->description);
    if (group == NO_PARAMETER || !executor->description->groups[group].count || executor_has_both_uses(executor))
        return WEFT_OK;
    executor->tied_total = weft_alloc(executor->config.context,
                                      value_groups_slice(executor->values, (uint32_t)group).count * sizeof(float) + 64);
    return executor->tied_total ? WEFT_OK : library_error(executor->config.context, WEFT_ERROR_MEMORY, error);
}

/* This rank's own part: nothing of it is collective. */
static weft_status executor_prepare(struct executor *executor, uint32_t stages, struct error *error)
{
    weft_status status = cut_stages(executor, stages, error);
    if (status == WEFT_OK)
        status = keep_layers(executor, stages, error);
    if (status == WEFT_OK)
        status = open_lists(executor, stages, error);
    if (status == WEFT_OK)
        status = open_host_memory(executor, error);
    if (status == WEFT_OK)
        status = executor_open_model(executor, error);
    return status == WEFT_OK ? open_rows(executor, error) : status;
}

weft_status executor_open(const struct executor_config *config, struct executor **result, bool *speaks,
                          struct error *error)
{
    *speaks = true;
    struct executor *executor = calloc(1, sizeof *executor);
    if (!executor)
        return error_memory(error, sizeof *executor, "an executor");
    executor->config = *config;
    executor->description = config->description;
    weft_status status =
        agreement_reach(config->context, config->comm, executor_check_config(config, error), error, speaks);
    if (status == WEFT_OK)
        status = open_comms(executor, error);
    if (status == WEFT_OK) {
        if (executor->data == 1)
            executor->config.zero = 0;
        const uint32_t stages = config->stages ? config->stages : executor->pipeline;
        status =
            agreement_reach(config->context, config->comm, executor_prepare(executor, stages, error), error, speaks);
    }
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, open_groups(executor, error), error, speaks);
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, open_tied_total(executor, error), error, speaks);
    if (status == WEFT_OK)
        *result = executor;
    else
        executor_close(executor);
    return status;
}

/* After a failure messages may be under way, into memory that is about to be freed. The job has been aborted, so they end
 * at once. */
static void close_list(struct executor_list *list)
{
    for (size_t i = 0; list->executions && i < list->schedule.count; i++)
        weft_wait(&list->executions[i].request);
    step_free(&list->schedule);
    free(list->executions);
    free(list->passes);
}

void executor_close(struct executor *executor)
{
    if (!executor)
        return;
    weft_comm *const comms[] = {executor->outputs, executor->to_inputs, executor->ties};
    close_list(&executor->training);
    close_list(&executor->evaluation);
    weft_wait(&executor->tied_receive);
    model_close(executor->model);
    value_groups_close(executor->values);
    gradient_groups_close(executor->gradients);
    if (executor->tied_total)
        weft_free(executor->config.context, executor->tied_total);
    for (size_t i = 0; i < ARRAY_SIZE(comms); i++)
        if (comms[i])
            weft_comm_free(comms[i]);
    mesh_comms_close(&executor->comms);
    executor->config.device->release(executor->config.device, executor->memory);
    free(executor->first_unit);
    free(executor->row_elements);
    free(executor->has_layer);
    free(executor->sums);
    free(executor->scratch);
    free(executor->arrays);
    free(executor->buffer_of);
    free(executor->buffer_taken);
    free(executor->tokens);
    free(executor);
}

/* ---- accessors ---- */

void executor_watch(struct executor *executor, model_watcher watcher, void *context)
{
    model_watch(executor->model, watcher, context);
}

const struct layer_arrays *executor_arrays(const struct executor *executor, size_t layer)
{
    return &executor->arrays[layer];
}

uint64_t executor_micro_batch(const struct executor *executor)
{
    return executor->micro_batch;
}

struct value_groups *executor_values(struct executor *executor)
{
    return executor->values;
}

const struct step_shape *executor_shape(const struct executor *executor)
{
    return &executor->training.shape;
}

struct executor_passes executor_passes_of(const struct executor *executor, enum step_operation_kind kind, uint32_t unit)
{
    return *executor_list_passes(&executor->training, kind, unit);
}
