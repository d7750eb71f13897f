/* SPDX-License-Identifier: Apache-2.0 */
/* Weights: gathered and released (ZeRO-3), updated, shared (ZeRO-1 and 2). */
#include "training/parallel/execute/internal/executor_parts.h"
#include "training/parallel/sharded_update.h"

/* The groups that a unit updates: a tied table is updated with the first unit of this rank that uses it. */
static uint32_t updated_groups(const struct executor *executor, uint32_t unit, uint32_t groups[EXECUTOR_GROUPS_MOST])
{
    const uint32_t count = executor_unit_groups(executor, unit, groups);
    const bool is_second = unit > 0 && executor_has_both_uses(executor);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (groups[i] != model_tied_group(executor->description) || !is_second)
            groups[kept++] = groups[i];
    return kept;
}

/* ---- ZeRO-3 ---- */

static uint32_t take_buffer(struct executor *executor)
{
    uint32_t buffer = 0;
    while (executor->buffer_taken[buffer])
        buffer++;
    executor->buffer_taken[buffer] = true;
    return buffer;
}

typedef weft_status (*gather_part)(struct value_groups *groups, uint32_t group, uint32_t buffer, size_t offset,
                                   bool as_activations, struct error *error);

/* Start or finish the gathers of all groups that a unit uses, which lie in one buffer, one after the other. */
static weft_status gather_unit(struct executor *executor, uint32_t unit, gather_part part, struct error *error)
{
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = executor_unit_groups(executor, unit, groups);
    size_t offset = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++) {
        status = part(executor->values, groups[i], executor->buffer_of[unit], offset,
                      !model_layer_reads_values(executor->description, unit), error);
        offset += executor->description->groups[groups[i]].count;
    }
    return status;
}

weft_status executor_gather(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error)
{
    const uint32_t unit = list->schedule.operations[number].unit;
    executor->buffer_of[unit] = take_buffer(executor);
    return gather_unit(executor, unit, value_groups_gather_start, error);
}

weft_status executor_gather_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                     uint32_t number, struct error *error)
{
    return gather_unit(executor, list->schedule.operations[number].unit, value_groups_gather_finish, error);
}

weft_status executor_release(struct executor *executor, struct executor_task *task, struct executor_list *list,
                             uint32_t number, struct error *error)
{
    uint32_t *buffer = &executor->buffer_of[list->schedule.operations[number].unit];
    executor->buffer_taken[*buffer] = false;
    *buffer = STEP_NONE;
    return WEFT_OK;
}

/* ---- new weights ---- */

static weft_status update_group(struct executor *executor, const struct executor_task *task, uint32_t group,
                                struct error *error)
{
    const struct executor_config *config = &executor->config;
    const struct model_group *all = &executor->description->groups[group];
    const struct sharded_ranks ranks = {.context = config->context,
                                        .slices = config->zero ? executor->comms.axes[MESH_DATA] : NULL,
                                        .tensor = executor->layers,
                                        .waited = &executor->seconds.wait};
    const double mean = 1.0 / (config->micro_batches * task->loss_scale),
                 clip = config->clip > 0 && task->norm > config->clip ? config->clip / task->norm : 1;
    const struct optimizer_step step = {
        .number = task->number, .rate = task->rate, .gradient_scale = mean * clip, .mean = 1.0 / config->micro_batches};
    const struct value_slice slice = value_groups_slice(executor->values, group);
    struct group_slice range;
    const struct optimizer_arrays arrays = {
        .parameters = slice.values,
        .gradients = gradient_groups_total(executor->gradients, group, &range),
        .first_moments = slice.first_moments,
        .second_moments = slice.second_moments,
        .as_activations = slice.activations,
        .sums = executor->scratch,
    };
    return sharded_update(&ranks, executor->description, config->device, &config->optimizer, &step,
                          (struct optimizer_range){.first = all->offset, .count = all->count},
                          (struct optimizer_range){.first = all->offset + range.first, .count = range.count}, &arrays,
                          error);
}

weft_status executor_update(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error)
{
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = updated_groups(executor, list->schedule.operations[number].unit, groups);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && !task->skipped && i < count; i++)
        status = update_group(executor, task, groups[i], error);
    return status == WEFT_OK ? executor->config.device->finish(executor->config.device, error) : status;
}

typedef weft_status (*share_part)(struct value_groups *groups, uint32_t group, struct error *error);

/* Start or finish sharing the groups that a unit has updated. */
static weft_status share_unit(struct executor *executor, uint32_t unit, share_part part, struct error *error)
{
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = updated_groups(executor, unit, groups);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
        status = part(executor->values, groups[i], error);
    return status;
}

weft_status executor_share(struct executor *executor, struct executor_task *task, struct executor_list *list,
                           uint32_t number, struct error *error)
{
    return share_unit(executor, list->schedule.operations[number].unit, value_groups_share_start, error);
}

weft_status executor_share_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                    uint32_t number, struct error *error)
{
    return share_unit(executor, list->schedule.operations[number].unit, value_groups_share_finish, error);
}
