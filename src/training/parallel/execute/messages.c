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

weft_status executor_send_output(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                 uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    if (operation->micro_batch >= task->count)
        return WEFT_OK;
    return library_error(executor->config.context,
                         weft_send_start(executor->moving_outputs + operation->buffer * executor->moving_bytes,
                                         stage_input_elements(executor, list, operation->stage + 1), WEFT_F32,
                                         pipeline_rank_of(executor, operation->stage + 1), executor->outputs,
                                         &list->executions[number].request),
                         error);
}

weft_status executor_receive_input(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    if (operation->micro_batch >= task->count)
        return WEFT_OK;
    return library_error(executor->config.context,
                         weft_receive_start(executor->inputs + operation->input * executor->input_bytes,
                                            stage_input_elements(executor, list, operation->stage), WEFT_F32,
                                            pipeline_rank_of(executor, operation->stage - 1), executor->outputs,
                                            &list->executions[number].request),
                         error);
}

weft_status executor_send_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                   uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    if (operation->micro_batch >= task->count)
        return WEFT_OK;
    return library_error(executor->config.context,
                         weft_send_start(executor->moving_gradients + operation->buffer * executor->gradient_stride,
                                         stage_input_elements(executor, list, operation->stage), WEFT_F32,
                                         pipeline_rank_of(executor, operation->stage - 1), executor->to_inputs,
                                         &list->executions[number].request),
                         error);
}

weft_status executor_receive_gradient(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    const struct step_operation *operation = message_operation(list, number);
    if (operation->micro_batch >= task->count)
        return WEFT_OK;
    return library_error(executor->config.context,
                         weft_receive_start(executor->moving_gradients + operation->buffer * executor->gradient_stride,
                                            stage_input_elements(executor, list, operation->stage + 1), WEFT_F32,
                                            pipeline_rank_of(executor, operation->stage + 1), executor->to_inputs,
                                            &list->executions[number].request),
                         error);
}

weft_status executor_message_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                      uint32_t number, struct error *error)
{
    return waiting_for(executor->config.context, &list->executions[number].request, &executor->wait_seconds, error);
}
