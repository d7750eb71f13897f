/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between neighbors of the pipeline. A rank without a micro-batch of the round has none: nor have its neighbors,
 * which have the same place on the data axis. */
#include "training/parallel/execute/internal/executor_parts.h"

static const struct step_operation *message_operation(const struct executor_list *list, uint32_t number)
{
    return &list->schedule.operations[number];
}

/* Elements of the rows that enter a stage. */
static size_t stage_input_elements(const struct executor *executor, const struct executor_list *list, uint32_t stage)
{
    return executor->row_elements[list->shape.first_unit[stage] - 1];
}

static int pipeline_rank_of(const struct executor *executor, uint32_t stage)
{
    return (int)(stage % executor->pipeline);
}

/* A message of one neighbor to the other: rows that enter stage `entered`, or their gradient. */
struct neighbor_message {
    bool is_sent;
    char *rows;
    uint32_t entered, peer; /* stages */
    weft_comm *comm;
};

static weft_status start_message(const struct executor *executor, const struct executor_task *task,
                                 struct executor_list *list, uint32_t number, const struct neighbor_message *message,
                                 struct error *error)
{
    const size_t elements = stage_input_elements(executor, list, message->entered);
    const int peer = pipeline_rank_of(executor, message->peer);
    weft_request **request = &list->executions[number].request;
    if (message_operation(list, number)->micro_batch >= task->count)
        return WEFT_OK;
    return library_error(executor->config.context,
                         message->is_sent
                             ? weft_send_start(message->rows, elements, WEFT_F32, peer, message->comm, request)
                             : weft_receive_start(message->rows, elements, WEFT_F32, peer, message->comm, request),
                         error);
}

weft_status executor_send_output(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                 uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    const struct neighbor_message message = {
        .is_sent = true,
        .rows = executor->moving_outputs + operation->buffer * executor->moving_bytes,
        .entered = operation->stage + 1,
        .peer = operation->stage + 1,
        .comm = executor->outputs,
    };
    return start_message(executor, task, list, number, &message, error);
}

weft_status executor_receive_input(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    const struct neighbor_message message = {
        .rows = executor->inputs + operation->input * executor->input_bytes,
        .entered = operation->stage,
        .peer = operation->stage - 1,
        .comm = executor->outputs,
    };
    return start_message(executor, task, list, number, &message, error);
}

static char *gradient_of(const struct executor *executor, const struct step_operation *operation)
{
    return executor->moving_gradients + operation->buffer * executor->gradient_stride;
}

weft_status executor_send_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    const struct neighbor_message message = {
        .is_sent = true,
        .rows = gradient_of(executor, operation),
        .entered = operation->stage,
        .peer = operation->stage - 1,
        .comm = executor->to_inputs,
    };
    return start_message(executor, task, list, number, &message, error);
}

weft_status executor_receive_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    const struct neighbor_message message = {
        .rows = gradient_of(executor, operation),
        .entered = operation->stage + 1,
        .peer = operation->stage + 1,
        .comm = executor->to_inputs,
    };
    return start_message(executor, task, list, number, &message, error);
}

weft_status executor_message_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    return waiting_for(executor->config.context, &list->executions[number].request, &executor->seconds.wait, error);
}
