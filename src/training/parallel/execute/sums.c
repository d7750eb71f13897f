/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients: their sums over the data axis, the tied table's two sums, the norm. */
#include "training/parallel/execute/internal/executor_parts.h"
#include "training/tensor/tree.h"

#include <inttypes.h>
#include <math.h>

/* ---- the data axis ---- */

/* The gradient groups that a unit's backward pass writes. */
static uint32_t unit_gradients(const struct executor *executor, uint32_t unit, uint32_t groups[EXECUTOR_GROUPS_MOST])
{
    const uint32_t count = executor_unit_groups(executor, unit, groups);
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool is_tied = groups[i] == model_tied_group(executor->description);
        const uint32_t group = is_tied ? executor_tied_gradient_group(executor, unit) : groups[i];
        if (group != STEP_NONE)
            groups[written++] = group;
    }
    return written;
}

/* Whether an operation is the one after which a unit's sparse gradient is whole. */
static bool completes_table(const struct executor *executor, const struct executor_list *list,
                            const struct step_operation *operation)
{
    return executor->table && operation->unit == 0 &&
           (operation->micro_batch == STEP_NONE || operation->micro_batch + 1 == list->shape.micro_batches);
}

weft_status executor_reduce(struct executor *executor, struct executor_task *task, struct executor_list *list,
                            uint32_t number, struct error *error)
{
    const struct step_operation *operation = &list->schedule.operations[number];
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = unit_gradients(executor, operation->unit, groups);
    weft_status status = WEFT_OK;
    size_t offset = 0;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++) {
        status = gradient_groups_reduce_start(executor->gradients, groups[i], operation->micro_batch, operation->buffer,
                                              offset, error);
        offset +=
            executor->description
                ->groups[groups[i] < executor_tied_part(executor) ? groups[i] : model_tied_group(executor->description)]
                .count;
    }
    if (status == WEFT_OK && completes_table(executor, list, operation))
        status = sparse_gradient_gather_start(executor->table, error);
    return status;
}

weft_status executor_reduce_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                     uint32_t number, struct error *error)
{
    const struct step_operation *operation = &list->schedule.operations[number];
    uint32_t groups[EXECUTOR_GROUPS_MOST];
    const uint32_t count = unit_gradients(executor, operation->unit, groups);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
        status = gradient_groups_reduce_finish(executor->gradients, groups[i], operation->micro_batch, error);
    if (status == WEFT_OK && completes_table(executor, list, operation))
        status = sparse_gradient_gather_finish(executor->table, error);
    return status;
}

/* ---- tied tables ---- */

/* The first pipeline rank gives the rows of its sparse part, the last one the total of its slice. */
static weft_status start_sparse_tie(struct executor *executor, weft_request **sent, struct error *error)
{
    const bool is_first = executor->pipeline_rank == 0;
    const int other = is_first ? (int)executor->pipeline - 1 : 0;
    struct group_slice slice;
    float *total =
        gradient_groups_total(executor->gradients, (uint32_t)model_tied_group(executor->description), &slice);
    weft_request **received = &executor->tied_receive;
    weft_status status =
        is_first
            ? library_error(executor->config.context,
                            weft_receive_start(total, slice.count, WEFT_F32, other, executor->ties, received), error)
            : sparse_gradient_receive_start(executor->table, other, executor->ties, received, error);
    if (status != WEFT_OK)
        return status;
    return is_first ? sparse_gradient_send_start(executor->table, other, executor->ties, sent, error)
                    : library_error(executor->config.context,
                                    weft_send_start(total, slice.count, WEFT_F32, other, executor->ties, sent), error);
}

/* The first and the last pipeline rank exchange their slices. */
static weft_status start_tie(struct executor *executor, weft_request **sent, struct error *error)
{
    const int other = executor->pipeline_rank ? 0 : (int)executor->pipeline - 1;
    weft_context *context = executor->config.context;
    struct group_slice slice;
    const float *total =
        gradient_groups_total(executor->gradients, (uint32_t)model_tied_group(executor->description), &slice);
    const weft_status status = library_error(
        context,
        weft_receive_start(executor->tied_total, slice.count, WEFT_F32, other, executor->ties, &executor->tied_receive),
        error);
    return status == WEFT_OK
               ? library_error(context, weft_send_start(total, slice.count, WEFT_F32, other, executor->ties, sent),
                               error)
               : status;
}

/* Where both uses are on one rank, nothing moves. */
weft_status executor_tie(struct executor *executor, struct executor_task *task, struct executor_list *list,
                         uint32_t number, struct error *error)
{
    weft_request **sent = &list->executions[number].request;
    if (executor_has_both_uses(executor))
        return WEFT_OK;
    return executor->table ? start_sparse_tie(executor, sent, error) : start_tie(executor, sent, error);
}

weft_status executor_tie_complete(struct executor *executor, struct executor_task *task, struct executor_list *list,
                                  uint32_t number, struct error *error)
{
    const uint32_t group = (uint32_t)model_tied_group(executor->description);
    struct group_slice slice;
    double *waited = &executor->seconds.wait;
    weft_status status = waiting_for(executor->config.context, &executor->tied_receive, waited, error);
    if (status == WEFT_OK)
        status = waiting_for(executor->config.context, &list->executions[number].request, waited, error);
    if (status != WEFT_OK)
        return status;
    float *total = gradient_groups_total(executor->gradients, group, &slice);
    if (executor->table)
        sparse_gradient_add_to(executor->table, slice, total);
    else
        gradient_groups_add_total(executor->gradients, group,
                                  executor_has_both_uses(executor)
                                      ? gradient_groups_total(executor->gradients, executor_tied_part(executor), &slice)
                                      : executor->tied_total);
    return WEFT_OK;
}

/* ---- the norm ---- */

/* What all tensor ranks have counts once, on the first; statistics do not count. */
static bool norm_counts(const struct executor *executor, const struct model_parameter *parameter)
{
    return !parameter->statistic && (executor->tensor_rank == 0 || parameter->division.segments);
}

/* The first parameter from *parameter on that does not count and ends after `element`: the element where it begins. */
static size_t find_uncounted(const struct executor *executor, size_t element, size_t *parameter)
{
    const struct model_description *description = executor->description;
    for (; *parameter < description->parameter_count; ++*parameter) {
        const struct model_parameter *found = &description->parameters[*parameter];
        if (!found->absent && found->offset + found->count > element && !norm_counts(executor, found))
            return found->offset;
    }
    return SIZE_MAX;
}

/* Set the elements that do not count to 0, in an array of elements [first, first + count). */
static void clear_uncounted(const struct executor *executor, size_t first, size_t count, size_t parameter, float *array)
{
    const struct model_description *description = executor->description;
    struct device *device = executor->config.sums;
    for (; parameter < description->parameter_count; parameter++) {
        const struct model_parameter *found = &description->parameters[parameter];
        const size_t begin = found->offset > first ? found->offset : first,
                     end = found->absent ? 0 : found->offset + found->count,
                     stop = end < first + count ? end : first + count;
        if (found->offset >= first + count)
            break;
        if (!norm_counts(executor, found) && begin < stop)
            device->fill(device, stop - begin, 0, array + (begin - first));
    }
}

static size_t sums_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sums of squares of the blocks from element `first` of the flat array on. Blocks that have something that does not count
 * are summed from a copy. */
static void sum_squares(struct executor *executor, size_t first, size_t count, const float *total, double *sums)
{
    struct device *device = executor->config.sums;
    size_t parameter = 0;
    for (size_t done = 0, part; done < count; done += part) {
        const size_t uncounted = find_uncounted(executor, first + done, &parameter);
        const bool is_here = uncounted < first + done + DEVICE_SQUARES_BLOCK;
        part = uncounted >= first + count ? count - done
                                          : (uncounted - first - done) / DEVICE_SQUARES_BLOCK * DEVICE_SQUARES_BLOCK;
        if (is_here) {
            part = sums_smaller(count - done, DEVICE_SQUARES_BLOCK);
            device->copy(device, executor->block, total + done, part * sizeof *total);
            clear_uncounted(executor, first + done, part, parameter, executor->block);
        }
        device->sum_of_squares(device, part, is_here ? executor->block : total + done,
                               sums + done / DEVICE_SQUARES_BLOCK);
    }
}

/* Sums of squares of the blocks that this rank speaks for; the others stay 0, and adding 0 is exact. */
static void add_own_blocks(struct executor *executor)
{
    const struct model_description *description = executor->description;
    struct device *device = executor->config.sums;
    double *own = executor->sums + executor->tensor_rank * description->blocks;
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        struct group_slice slice;
        if (!executor_owns_group(executor, g) || (!executor->config.zero && executor->data_rank > 0))
            continue;
        float *total = gradient_groups_total(executor->gradients, g, &slice);
        optimizer_clear_frozen(description, device, group->offset + slice.first, slice.count, total);
        sum_squares(executor, group->offset + slice.first, slice.count, total,
                    own + group->block + slice.first / DEVICE_SQUARES_BLOCK);
    }
}

static weft_status step_check_finite(struct executor_task *task, struct error *error)
{
    const bool norm = !(task->norm < HUGE_VAL);
    if (!norm && isfinite(task->loss))
        return WEFT_OK;
    task->skipped = isfinite(task->loss) && task->loss_scale > 1;
    if (task->skipped)
        return WEFT_OK;
    task->diverged = true;
    return error_set(error, WEFT_ERROR_DATA,
                     "the %s is %g in step %" PRIu64 ": the run has diverged, and the weights were left as they are; "
                     "lower the learning rate or lengthen the warm-up",
                     norm ? "gradient's norm" : "loss", fabs(norm ? task->norm : task->loss), task->number);
}

static weft_status add_over_ranks(struct executor *executor, struct error *error)
{
    const struct executor_config *config = &executor->config;
    if (weft_comm_size(config->comm) == 1)
        return WEFT_OK;
    const uint64_t begin = clock_now();
    const weft_status status = library_error(
        config->context,
        weft_allreduce(executor->sums, executor->sums, executor->sum_count, WEFT_F64, WEFT_SUM, config->comm), error);
    waiting_add(&executor->seconds.wait, begin);
    return status;
}

weft_status executor_norm(struct executor *executor, struct executor_task *task, struct executor_list *list,
                          uint32_t number, struct error *error)
{
    const struct executor_config *config = &executor->config;
    double *requests = &executor->sums[executor->sum_count - EXECUTOR_REQUESTS];
    add_own_blocks(executor);
    requests[0] = task->input->stop && *task->input->stop;
    requests[1] = task->input->pause;
    weft_status status = config->sums->finish(config->sums, error);
    if (status == WEFT_OK && task->input->before_norm)
        status = task->input->before_norm(task->input->context, error);
    if (status != WEFT_OK)
        return status;
    executor->in_norm = *task;
    status = add_over_ranks(executor, error);
    if (status != WEFT_OK)
        return status;
    executor->in_norm.number = 0;
    task->norm =
        sqrt(tree_sum(executor->sums, executor_all_blocks(executor))) / (config->micro_batches * task->loss_scale);
    task->loss = tree_sum(task->losses, config->micro_batches) / config->micro_batches;
    task->stop = requests[0] > 0;
    task->pause = requests[1] > 0;
    status = step_check_finite(task, error);
    if (status == WEFT_OK && task->input->before_update)
        task->input->before_update(task->input->context);
    return status;
}
