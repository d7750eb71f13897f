/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of layers: where their rows, weights and gradients are. */
#include "base/clock.h"
#include "training/parallel/execute/internal/executor_parts.h"

static const struct step_operation *compute_operation(const struct executor_list *list, uint32_t number)
{
    return &list->schedule.operations[number];
}

static bool is_first_unit(const struct executor_list *list, const struct step_operation *operation)
{
    return operation->unit == list->shape.first_unit[operation->stage];
}

static bool is_last_unit(const struct executor_list *list, const struct step_operation *operation)
{
    return operation->unit + 1 == executor_list_units(list);
}

/* The sparse part of the tied table's gradient, of the embedding's weights pass. */
static void place_sparse_gradient(struct executor *executor, const struct step_operation *operation,
                                  struct layer_arrays *arrays)
{
    const int32_t *tokens;
    arrays->is_sparse = true;
    if (operation->kind != OPERATION_BACKWARD_WEIGHTS)
        return;
    arrays->tied_gradients = sparse_gradient_place(executor->table, operation->micro_batch);
    arrays->sparse_rows = model_slot_table_rows(executor->model, operation->slot, &tokens);
}

/* Weights and gradients of a unit, as far as they are in buffers that change from pass to pass. */
static const struct layer_arrays *place_arrays(struct executor *executor, const struct step_operation *operation,
                                               uint32_t gradient_buffer)
{
    const uint32_t unit = operation->unit;
    struct layer_arrays *arrays = &executor->arrays[unit];
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = executor_unit_groups(executor, unit, groups);
    const size_t own = model_layer_group(executor->description, unit);
    size_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_own = groups[i] == own;
        const float *values = value_groups_values(executor->values, groups[i], executor->buffer_of[unit], offset);
        const void *activations =
            value_groups_activations(executor->values, groups[i], executor->buffer_of[unit], offset);
        *(is_own ? &arrays->own : &arrays->tied) = values;
        *(is_own ? &arrays->own_activations : &arrays->tied_activations) = activations ? activations : values;
        const uint32_t gradient_group = is_own ? groups[i] : executor_tied_gradient_group(executor, unit);
        if (gradient_group == STEP_NONE)
            place_sparse_gradient(executor, operation, arrays);
        else
            *(is_own ? &arrays->gradients : &arrays->tied_gradients) =
                gradient_groups_place(executor->gradients, gradient_group, gradient_buffer, offset);
        offset += executor->description->groups[groups[i]].count;
    }
    return arrays;
}

static struct layer_call call_of(struct executor *executor, const struct executor_list *list,
                                 const struct step_operation *operation, uint32_t gradient_buffer)
{
    struct layer_call call = {
        .layer = operation->unit,
        .slot = operation->slot,
        .arrays = place_arrays(executor, operation, gradient_buffer),
    };
    if (is_first_unit(list, operation) && operation->input != STEP_NONE)
        call.x = executor->inputs + operation->input * executor->input_bytes;
    return call;
}

/* Whether this rank has the micro-batch. */
static bool begin_pass(struct executor *executor, const struct executor_task *task,
                       const struct step_operation *operation)
{
    executor->micro_batch = task->first + operation->micro_batch * task->stride;
    return operation->micro_batch < task->count;
}

/* Whether something stands in for the pass. */
static bool stand_in(struct executor *executor, const struct step_operation *operation)
{
    const struct executor_pace *pace = executor->config.pace;
    if (!pace || !executor_knows_moves(executor, operation->kind, operation->unit))
        return false;
    pace->pass(pace->context, operation->kind, operation->unit);
    executor_repeat_moves(executor, operation->kind, operation->unit);
    return true;
}

/* Begin a micro-batch on a stage. Not all stages read its arrays; all need its number, for dropout. */
static weft_status load(struct executor *executor, const struct executor_task *task,
                        const struct step_operation *operation, struct error *error)
{
    const uint64_t number = executor->micro_batch;
    struct model_batch batch = {
        .seed = task->input->seed, .sample = number * executor->config.model.batch, .loss_scale = task->loss_scale};
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        batch.inputs[input] = executor->loaded_arrays.of[input];
    const uint64_t begin = clock_now();
    weft_status status = WEFT_OK;
    if (executor->reads)
        status = task->input->read(task->input->context, number, &executor->loaded_arrays, error);
    executor->loaded += (double)(clock_now() - begin) * 1e-9;
    return status == WEFT_OK ? model_slot_load(executor->model, operation->slot, &batch, error) : status;
}

/* The loss of a micro-batch whose forward pass is complete, and in an evaluation its accuracy. */
static weft_status note_scores(struct executor *executor, const struct executor_task *task,
                               const struct step_operation *operation, struct error *error)
{
    const uint64_t place = executor->micro_batch - task->loss_first;
    double loss, accuracy = 0;
    weft_status status = model_slot_loss(executor->model, operation->slot, &loss, error);
    if (status == WEFT_OK && task->accuracies)
        status = model_slot_accuracy(executor->model, operation->slot, &accuracy, error);
    if (status != WEFT_OK || executor->tensor_rank > 0) /* the others have the same */
        return status;
    task->losses[place] = loss;
    if (task->accuracies)
        task->accuracies[place] = accuracy;
    return WEFT_OK;
}

weft_status executor_forward(struct executor *executor, struct executor_task *task, struct executor_list *list,
                             uint32_t number, struct error *error)
{
    const struct step_operation *operation = compute_operation(list, number);
    if (!begin_pass(executor, task, operation))
        return WEFT_OK;
    weft_status status = is_first_unit(list, operation) ? load(executor, task, operation, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (stand_in(executor, operation))
        return executor_finish_pass(executor, error);
    struct layer_call call = call_of(executor, list, operation, STEP_NONE);
    if (operation->buffer != STEP_NONE)
        call.y = executor->moving_outputs + operation->buffer * executor->moving_bytes;
    model_layer_forward(executor->model, &call, task->prepare);
    if (!is_last_unit(list, operation))
        return executor_finish_pass(executor, error);
    status = executor_finish_pass(executor, error);
    return status == WEFT_OK ? note_scores(executor, task, operation, error) : status;
}

weft_status executor_backward_input(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                    uint32_t number, struct error *error)
{
    const struct step_operation *operation = compute_operation(list, number);
    if (!begin_pass(executor, task, operation))
        return WEFT_OK;
    if (stand_in(executor, operation))
        return executor_finish_pass(executor, error);
    const struct layer_call call = call_of(executor, list, operation, STEP_NONE);
    model_layer_backward_input(executor->model, &call,
                               executor->moving_gradients + operation->buffer * executor->gradient_stride);
    return executor_finish_pass(executor, error);
}

static void put_sparse_gradient(struct executor *executor, const struct step_operation *operation)
{
    const int32_t *tokens;
    const size_t count = model_slot_table_rows(executor->model, operation->slot, &tokens);
    sparse_gradient_put(executor->table, operation->micro_batch, tokens, count);
}

weft_status executor_backward_weights(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    const struct step_operation *operation = compute_operation(list, number);
    if (!begin_pass(executor, task, operation))
        return WEFT_OK;
    const struct layer_call call = call_of(executor, list, operation, operation->buffer);
    const uint32_t unit = operation->unit;
    if (!stand_in(executor, operation))
        model_layer_backward_weights(executor->model, &call);
    weft_status status = executor_finish_pass(executor, error);
    if (status != WEFT_OK)
        return status;
    if (call.arrays->is_sparse)
        put_sparse_gradient(executor, operation);
    if (executor_reduces_each(executor))
        return WEFT_OK;
    const size_t own = model_layer_group(executor->description, unit);
    if (own != NO_PARAMETER)
        gradient_groups_add(executor->gradients, (uint32_t)own);
    if (model_layer_uses_tied(executor->description, unit) && !call.arrays->is_sparse)
        gradient_groups_add(executor->gradients, executor_tied_gradient_group(executor, unit));
    return WEFT_OK;
}
