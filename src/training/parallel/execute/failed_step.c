/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step that failed with other ranks. Every rank sends its part of the norm once its gradient is whole, and no rank
 * updates weights before it has the parts of all. So when some rank has updated its weights, all have what they need to
 * do so, except for the norm.
 */
#include "training/parallel/execute/internal/executor_parts.h"

bool executor_updates_alone(const struct executor_config *config)
{
    const bool adds_norms = optimizer_needs_norms(config->optimizer.kind) && config->mesh.extent[MESH_TENSOR] > 1;
    return !config->zero && !adds_norms;
}

bool executor_has_gradient(const struct executor *executor, uint64_t number)
{
    return number && executor->in_norm.number == number;
}

weft_status executor_complete_step(struct executor *executor, const struct executor_result *result, struct error *error)
{
    struct executor_list *list = &executor->training;
    struct executor_task task = executor->in_norm;
    weft_status status = WEFT_OK;
    task.loss = result->loss;
    task.norm = result->gradient_norm;
    task.skipped = result->skipped;
    for (uint32_t i = 0; status == WEFT_OK && i < list->schedule.count; i++)
        if (list->schedule.operations[i].kind == OPERATION_UPDATE)
            status = executor_update(executor, &task, list, i, error);
    executor->in_norm.number = 0;
    return status;
}
