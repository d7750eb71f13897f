/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an executor: communicators, proofs of the schedules, memory. */
#include "training/parallel/agreement.h"
#include "training/parallel/execute/internal/layout.h"
#include "training/parallel/step/verify.h"
#include "training/tensor/tree.h"

#include <stdlib.h>

/* ---- schedules ---- */

/* Write the lists of the other pipeline ranks, and prove all of them together. */
static weft_status prove_list(const struct executor *executor, struct executor_list *list, struct error *error)
{
    const struct step_shape *shape = &list->shape;
    struct step_schedule *all = calloc(shape->pipeline, sizeof *all);
    if (!all)
        return error_memory(error, shape->pipeline * sizeof *all, "the schedules of a step");
    weft_status status = WEFT_OK;
    for (uint32_t rank = 0; status == WEFT_OK && rank < shape->pipeline; rank++)
        if (rank == executor->pipeline_rank)
            all[rank] = list->schedule;
        else
            status = step_write(shape, rank, &all[rank], error);
    if (status == WEFT_OK)
        status = step_verify(shape, all, error);
    for (uint32_t rank = 0; rank < shape->pipeline; rank++)
        if (rank != executor->pipeline_rank)
            step_free(&all[rank]);
    free(all);
    return status;
}

static weft_status open_list(const struct executor *executor, struct executor_list *list, struct error *error)
{
    weft_status status = prove_list(executor, list, error);
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

/* ---- communicators ---- */

static weft_status open_comms(struct executor *executor, const struct executor_config *config, struct error *error)
{
    weft_status status = mesh_comms_open(config->comm, &config->mesh, &config->placement, &executor->comms, error);
    if (status != WEFT_OK)
        return status;
    executor_place(executor, config, executor->comms.point);
    weft_comm **const copies[] = {&executor->outputs, &executor->to_inputs, &executor->ties};
    for (size_t i = 0; status == WEFT_OK && executor->pipeline > 1 && i < ARRAY_SIZE(copies); i++)
        status =
            library_error(config->context, weft_comm_duplicate(executor->comms.axes[MESH_PIPELINE], copies[i]), error);
    if (status == WEFT_OK)
        status = executor_open_tensor(executor, error);
    return status == WEFT_OK ? executor_open_norms(executor, error) : status;
}

/* ---- memory ---- */

/* Rows that enter stages, move, and their gradients. */
static weft_status open_rows(struct executor *executor, struct error *error)
{
    struct device *device = executor->config.device;
    const struct executor_rows rows = executor_rows_of(executor);
    executor->input_bytes = executor->moving_bytes = rows.bytes;
    executor->gradient_stride = rows.gradients > 1 ? rows.bytes : 0;
    executor->memory = device->allocate(device, (rows.inputs + rows.outputs + rows.gradients) * rows.bytes,
                                        "rows between layers", error);
    if (!executor->memory)
        return WEFT_ERROR_MEMORY;
    executor->inputs = executor->memory;
    executor->moving_outputs = executor->inputs + rows.inputs * rows.bytes;
    executor->moving_gradients = executor->moving_outputs + rows.outputs * rows.bytes;
    return WEFT_OK;
}

/* A tensor and the gap after it are at most its group. */
static size_t largest_group(const struct model_description *description)
{
    size_t most = 0;
    for (size_t g = 0; g < description->group_count; g++)
        if (description->groups[g].count > most)
            most = description->groups[g].count;
    return most;
}

static weft_status open_host_memory(struct executor *executor, struct error *error)
{
    const struct model_description *description = executor->description;
    const size_t units = description->layer_count, gathered = (size_t)executor->training.schedule.gathered + 1,
                 blocks = tree_blocks(largest_group(description));
    executor->sum_count = executor_all_blocks(executor) + executor->config.micro_batches + EXECUTOR_REQUESTS;
    executor->sums = calloc(executor->sum_count, sizeof *executor->sums);
    executor->block = calloc(DEVICE_SQUARES_BLOCK, sizeof *executor->block);
    executor->scratch = calloc(blocks, sizeof *executor->scratch);
    executor->arrays = calloc(units, sizeof *executor->arrays);
    executor->buffer_of = calloc(units, sizeof *executor->buffer_of);
    executor->buffer_taken = calloc(gathered, sizeof *executor->buffer_taken);
    if (!executor->sums || !executor->block || !executor->scratch || !executor->arrays || !executor->buffer_of ||
        !executor->buffer_taken)
        return error_memory(error, (executor->sum_count + blocks) * sizeof *executor->sums, "the state of a step");
    for (size_t u = 0; u < units; u++)
        executor->buffer_of[u] = STEP_NONE;
    const weft_status status = model_arrays_allocate(description, executor->has_layer, executor->config.model.sequence,
                                                     executor->config.model.batch, &executor->loaded_arrays, error);
    for (enum model_input input = 0; status == WEFT_OK && input < MODEL_INPUTS; input++)
        executor->reads |= executor->loaded_arrays.of[input] != NULL;
    return status;
}

static weft_status executor_open_model(struct executor *executor, struct error *error)
{
    const struct model_options options = executor_model_options(executor);
    return model_open(executor->description, executor->config.device, &options, &executor->model, error);
}

/* Those of the same part of the network: groups of different tensor ranks look alike. */
static struct value_groups *executor_former_values(const struct executor *executor)
{
    const struct executor *former = executor->config.former;
    return former && former->tensor == executor->tensor && former->tensor_rank == executor->tensor_rank ? former->values
                                                                                                        : NULL;
}

/* Collective over the data axis. */
static weft_status open_groups(struct executor *executor, struct error *error)
{
    struct executor_groups groups;
    weft_status status = executor_groups_of(executor, &groups, error);
    if (status != WEFT_OK)
        return status;
    groups.values.waited = groups.gradients.waited = &executor->seconds.wait;
    groups.values.former = executor_former_values(executor);
    executor->config.former = NULL;
    executor->share = gradient_groups_share(&groups.gradients, executor->data_rank, executor->data);
    status = value_groups_open(&groups.values, &executor->values, error);
    if (status == WEFT_OK)
        status = gradient_groups_open(&groups.gradients, &executor->gradients, error);
    executor_groups_free(&groups);
    struct sparse_gradient_config table;
    if (status != WEFT_OK || !executor_sparse_table_of(executor, &table))
        return status;
    table.waited = &executor->seconds.wait;
    return sparse_gradient_open(&table, &executor->table, error);
}

/* The slice of a tied table that comes from another pipeline rank. */
static weft_status open_tied_total(struct executor *executor, struct error *error)
{
    const size_t bytes = executor_tied_bytes(executor);
    if (!bytes)
        return WEFT_OK;
    executor->tied_total = weft_alloc(executor->config.context, bytes);
    return executor->tied_total ? WEFT_OK : library_error(executor->config.context, WEFT_ERROR_MEMORY, error);
}

/* Activations come last: on a tensor axis they take what is left of the heap, and otherwise other memory. */
static weft_status open_rest(struct executor *executor, struct error *error)
{
    weft_status status = open_tied_total(executor, error);
    if (status == WEFT_OK)
        status = executor_open_norm_memory(executor, error);
    return status == WEFT_OK ? executor_open_model(executor, error) : status;
}

/* This rank's own part: nothing of it is collective. */
static weft_status executor_prepare(struct executor *executor, struct error *error)
{
    weft_status status = executor_lay_out(executor, error);
    if (status == WEFT_OK)
        status = open_list(executor, &executor->training, error);
    if (status == WEFT_OK)
        status = open_list(executor, &executor->evaluation, error);
    if (status == WEFT_OK)
        status = open_host_memory(executor, error);
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
        status = open_comms(executor, config, error);
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, executor_prepare(executor, error), error, speaks);
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, open_groups(executor, error), error, speaks);
    if (status == WEFT_OK)
        status = agreement_reach(config->context, config->comm, open_rest(executor, error), error, speaks);
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
    free(list->executions);
    free(list->passes);
}

void executor_keep_state(struct executor *executor)
{
    weft_comm *const comms[] = {executor->outputs, executor->to_inputs, executor->ties, executor->layers,
                                executor->norms};
    const struct executor kept = {.config = executor->config,
                                  .description = executor->description,
                                  .values = executor->values,
                                  .data = executor->data,
                                  .pipeline = executor->pipeline,
                                  .tensor = executor->tensor,
                                  .tensor_rank = executor->tensor_rank};
    close_list(&executor->training);
    close_list(&executor->evaluation);
    weft_wait(&executor->tied_receive);
    model_close(executor->model);
    gradient_groups_close(executor->gradients);
    sparse_gradient_close(executor->table);
    if (executor->tied_total)
        weft_free(executor->config.context, executor->tied_total);
    if (executor->norm_statistics)
        weft_free(executor->config.context, executor->norm_statistics);
    for (size_t i = 0; i < ARRAY_SIZE(comms); i++)
        if (comms[i])
            weft_comm_free(comms[i]);
    mesh_comms_close(&executor->comms);
    executor->config.device->release(executor->config.device, executor->memory);
    executor_free_moves(executor);
    executor_layout_free(executor);
    free(executor->sums);
    free(executor->block);
    free(executor->scratch);
    free(executor->arrays);
    free(executor->buffer_of);
    free(executor->buffer_taken);
    model_arrays_free(&executor->loaded_arrays);
    *executor = kept;
}

void executor_close(struct executor *executor)
{
    if (!executor)
        return;
    executor_keep_state(executor);
    value_groups_close(executor->values);
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

struct micro_batch_share executor_share_of_batch(const struct executor *executor)
{
    return executor->share;
}

const struct step_shape *executor_shape(const struct executor *executor)
{
    return &executor->training.shape;
}

struct executor_passes executor_passes_of(const struct executor *executor, enum step_operation_kind kind, uint32_t unit)
{
    return *executor_list_passes(&executor->training, kind, unit);
}
