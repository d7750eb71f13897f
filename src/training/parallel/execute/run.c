/* SPDX-License-Identifier: Apache-2.0 */
/* The walk through a list: a step, an evaluation. */
#include "base/clock.h"
#include "training/parallel/execute/internal/executor_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static weft_status finish_step(struct executor *executor, struct executor_task *task, struct executor_list *list,
                               uint32_t number, struct error *error)
{
    return WEFT_OK;
}

/* How a kind of operation begins, and for asynchronous ones what completes it; and what weft_progress() calls it, before
 * the number of a layer. */
static const struct operation_functions {
    executor_operation begin, complete;
    const char *doing;
} operation_functions[OPERATION_KINDS] = {
    [OPERATION_FORWARD] = {executor_forward, NULL, "the forward pass of layer"},
    [OPERATION_BACKWARD_INPUT] = {executor_backward_input, NULL, "the backward pass of layer"},
    [OPERATION_BACKWARD_WEIGHTS] = {executor_backward_weights, NULL, "the weights' backward pass of layer"},
    [OPERATION_SEND_OUTPUT] = {executor_send_output, executor_message_complete, "sending rows"},
    [OPERATION_RECEIVE_INPUT] = {executor_receive_input, executor_message_complete, "receiving rows"},
    [OPERATION_SEND_GRADIENT] = {executor_send_gradient, executor_message_complete, "sending a gradient"},
    [OPERATION_RECEIVE_GRADIENT] = {executor_receive_gradient, executor_message_complete, "receiving a gradient"},
    [OPERATION_GATHER] = {executor_gather, executor_gather_complete, "gathering the weights of layer"},
    [OPERATION_RELEASE] = {executor_release, NULL, "releasing the weights of layer"},
    [OPERATION_REDUCE] = {executor_reduce, executor_reduce_complete, "reducing the gradient of layer"},
    [OPERATION_TIE] = {executor_tie, executor_tie_complete, "adding the tied gradients"},
    [OPERATION_NORM] = {executor_norm, NULL, "the norm of the gradient"},
    [OPERATION_UPDATE] = {executor_update, NULL, "the update of layer"},
    [OPERATION_SHARE] = {executor_share, executor_share_complete, "sharing the weights of layer"},
    [OPERATION_FINISH] = {finish_step, NULL, "the end of a step"},
};

/* An operation has taken the time since `begin`, and waited since the sum of waits was `waited`. */
static void note_seconds(struct executor *executor, const struct step_operation *operation, uint64_t begin,
                         double waited)
{
    struct executor_seconds *seconds = &executor->seconds;
    const double wait = seconds->wait - waited;
    switch (operation->kind) {
    case OPERATION_FORWARD:
    case OPERATION_BACKWARD_INPUT:
    case OPERATION_BACKWARD_WEIGHTS:
        seconds->tensor_wait += wait;
        break;
    case OPERATION_GATHER:
    case OPERATION_REDUCE:
    case OPERATION_SHARE:
        seconds->data_wait += wait;
        break;
    case OPERATION_NORM:
    case OPERATION_UPDATE:
        seconds->optimizer += (double)(clock_now() - begin) * 1e-9 - wait;
        break;
    default:
        break;
    }
}

/* Wait for an asynchronous operation, unless it is complete. */
static weft_status complete_operation(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    const struct step_operation *operation = &list->schedule.operations[number];
    const double waited = executor->seconds.wait;
    if (!list->executions[number].under_way)
        return WEFT_OK;
    const weft_status status = operation_functions[operation->kind].complete(executor, task, list, number, error);
    note_seconds(executor, operation, 0, waited);
    list->executions[number].under_way = status != WEFT_OK;
    return status;
}

/* Wait for what an operation depends on. */
static weft_status complete_dependencies(struct executor *executor, struct executor_task *task,
                                         struct executor_list *list, uint32_t number, struct error *error)
{
    const struct step_schedule *schedule = &list->schedule;
    const struct step_operation *operation = &schedule->operations[number];
    for (uint32_t i = 0; i < operation->dependency_count; i++) {
        const uint32_t before = schedule->dependencies[operation->dependency + i];
        const weft_status status = complete_operation(executor, task, list, before, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* A pass of a micro-batch that this rank has. */
static bool is_own_pass(const struct executor_task *task, const struct step_operation *operation)
{
    return step_operation_computes(operation->kind) && operation->micro_batch < task->count;
}

static weft_status begin_operation(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error)
{
    const struct step_operation *operation = &list->schedule.operations[number];
    const uint64_t begin = clock_now();
    const double waited = executor->seconds.wait, loaded = executor->loaded;
    weft_progress(executor->config.context, operation_functions[operation->kind].doing,
                  operation->unit == STEP_NONE ? -1 : (int64_t)operation->unit);
    if (operation->kind == OPERATION_NORM)
        executor->seconds.norm = (double)(begin - executor->began) * 1e-9;
    list->executions[number].under_way = step_operation_is_asynchronous(operation->kind);
    const weft_status status = operation_functions[operation->kind].begin(executor, task, list, number, error);
    note_seconds(executor, operation, begin, waited);
    if (is_own_pass(task, operation)) {
        struct executor_passes *passes = executor_list_passes(list, operation->kind, operation->unit);
        passes->seconds += (double)(clock_now() - begin) * 1e-9 - (executor->loaded - loaded);
        passes->count++;
    }
    return status;
}

static weft_status execute(struct executor *executor, struct executor_task *task, struct executor_list *list,
                           struct error *error)
{
    memset(list->passes, 0, executor_list_units(list) * EXECUTOR_PASS_KINDS * sizeof *list->passes);
    for (uint32_t i = 0; i < list->schedule.count; i++) {
        weft_status status = complete_dependencies(executor, task, list, i, error);
        if (status == WEFT_OK)
            status = begin_operation(executor, task, list, i, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static double seconds_of_passes(const struct executor_list *list)
{
    const size_t count = (size_t)executor_list_units(list) * EXECUTOR_PASS_KINDS;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += list->passes[i].seconds;
    return sum;
}

/* ---- a step ---- */

weft_status executor_step(struct executor *executor, const struct executor_input *input, uint64_t number, double rate,
                          struct executor_result *result, struct error *error)
{
    const uint32_t micro_batches = executor->config.micro_batches;
    struct executor_task task = {
        .input = input,
        .first = (number - 1) * micro_batches + executor->share.first,
        .stride = executor->share.stride,
        .count = executor->share.count,
        .prepare = true,
        .losses = executor->sums + executor_all_blocks(executor),
        .loss_first = (number - 1) * micro_batches,
        .number = number,
        .rate = rate,
        .loss_scale = input->loss_scale ? input->loss_scale : 1,
    };
    memset(executor->sums, 0, executor->sum_count * sizeof *executor->sums);
    executor->seconds = (struct executor_seconds){0};
    executor->began = clock_now();
    const weft_status status = execute(executor, &task, &executor->training, error);
    executor->seconds.pass = seconds_of_passes(&executor->training);
    *result = (struct executor_result){.loss = task.loss,
                                       .gradient_norm = task.norm,
                                       .stop = task.stop,
                                       .pause = task.pause,
                                       .diverged = task.diverged,
                                       .skipped = task.skipped,
                                       .seconds = executor->seconds};
    return status;
}

weft_status executor_settle(struct executor *executor, struct error *error)
{
    struct executor_list *list = &executor->training;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < list->schedule.count; i++)
        status = complete_operation(executor, NULL, list, i, error);
    return status;
}

/* ---- an evaluation ---- */

/* Whether some rank was asked to stop; the same on all ranks. */
static weft_status evaluation_agree_to_stop(const struct executor *executor, const struct executor_input *input,
                                            bool *stopped, struct error *error)
{
    int32_t asked = input->stop && *input->stop;
    weft_status status = WEFT_OK;
    if (input->stop && weft_comm_size(executor->config.comm) > 1)
        status = library_error(executor->config.context,
                               weft_allreduce(&asked, &asked, 1, WEFT_I32, WEFT_MAX, executor->config.comm), error);
    *stopped = asked;
    return status;
}

/* Micro-batch i is that of round i / data on data rank i % data, so ranks differ by at most one. */
static weft_status evaluate_rounds(struct executor *executor, const struct executor_input *input, uint64_t first,
                                   uint32_t count, double *losses, double *accuracies, bool *stopped,
                                   struct error *error)
{
    const uint32_t rounds = executor->evaluation.shape.micro_batches, each = rounds * executor->data;
    weft_status status = WEFT_OK;
    for (uint32_t done = 0; status == WEFT_OK && done < count; done += each) {
        const uint32_t left = count - done, rank = executor->data_rank;
        struct executor_task task = {
            .input = input,
            .first = first + done + rank,
            .stride = executor->data,
            .count = left > rank ? (left - rank + executor->data - 1) / executor->data : 0,
            .losses = losses,
            .accuracies = accuracies,
            .loss_first = first,
        };
        status = evaluation_agree_to_stop(executor, input, stopped, error);
        if (status != WEFT_OK || *stopped)
            return status;
        status = execute(executor, &task, &executor->evaluation, error);
    }
    return status;
}

weft_status executor_evaluate(struct executor *executor, const struct executor_input *input, uint64_t first,
                              uint32_t count, struct executor_scores *scores, bool *stopped, struct error *error)
{
    double *losses = calloc(count, 2 * sizeof *losses), *accuracies = losses + count;
    struct executor_scores sums = {0};
    if (!losses)
        return error_memory(error, count * 2 * sizeof *losses, "the losses of an evaluation");
    *stopped = false;
    weft_status status = executor_settle(executor, error);
    if (status == WEFT_OK)
        status = evaluate_rounds(executor, input, first, count, losses, accuracies, stopped, error);
    /* Every loss is one rank's; the others add 0. */
    if (status == WEFT_OK && !*stopped && weft_comm_size(executor->config.comm) > 1)
        status = library_error(
            executor->config.context,
            weft_allreduce(losses, losses, 2 * (size_t)count, WEFT_F64, WEFT_SUM, executor->config.comm), error);
    for (uint32_t i = 0; i < count; i++) {
        sums.loss += losses[i];
        sums.accuracy += accuracies[i];
    }
    if (status == WEFT_OK && !*stopped)
        *scores = (struct executor_scores){.loss = sums.loss / count, .accuracy = sums.accuracy / count};
    free(losses);
    return status;
}
