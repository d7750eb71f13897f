/* SPDX-License-Identifier: Apache-2.0 */
/* The gradients of a training: which are ready, in which order groups are summed, and the sums. */
#include "training/parallel/training.h"

#include "base/clock.h"
#include "base/library_error.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static weft_status open_sums(weft_training *training, struct error *error)
{
    const size_t notes = (size_t)WEFT_TRAINING_NOTES * (size_t)training->config.micro_batches;
    training->sum_elements = training->blocks + notes + TRAINING_FLAGS;
    training->sums = calloc(training->sum_elements, sizeof *training->sums);
    if (!training->sums)
        return error_memory(error, training->sum_elements * sizeof *training->sums, "the sums of a step");
    training->notes = training->sums + training->blocks;
    training->flags = training->notes + notes;
    return WEFT_OK;
}

weft_status training_open_gradients(weft_training *training, struct error *error)
{
    struct group_range *ranges = calloc(training->group_count, sizeof *ranges);
    for (uint32_t g = 0; ranges && g < training->group_count; g++)
        ranges[g] = training->groups[g].range;
    const struct gradient_groups_config config = {
        .context = training->context,
        .comm = training->comm,
        .device = training->device,
        .ranges = ranges,
        .group_count = ranges ? training->group_count : 0,
        .elements = training->description.elements,
        .micro_batches = (uint32_t)training->config.micro_batches,
        .zero = training_sums_slices(training) ? training->zero : 0,
        .type = training->config.gradient_type,
    };
    weft_status status = gradient_groups_open(&config, &training->gradients, error);
    if (!ranges)
        status = error_memory(error, training->group_count * sizeof *ranges, "groups of gradients");
    free(ranges);
    if (status != WEFT_OK)
        return status;
    training->share = gradient_groups_share(&config, training->rank, training->ranks);
    return open_sums(training, error);
}

void training_close_gradients(weft_training *training)
{
    gradient_groups_close(training->gradients); /* ends reductions, which use the arrays below */
    training->gradients = NULL;
    for (uint32_t g = 0; g < training->group_count; g++) {
        weft_free(training->context, training->groups[g].gradient);
        training->groups[g].gradient = NULL;
    }
    for (uint32_t i = 0; i < training->reduction_count; i++)
        weft_free(training->context, training->reductions[i].gradient);
    training->reduction_count = 0;
    free(training->sums);
    training->sums = NULL;
}

/* ---- where gradients are ---- */

float *training_flat_gradients(weft_training *training)
{
    const uint32_t first = training->group_count - 1; /* in memory */
    return training_sums_slices(training) ? NULL : gradient_groups_place(training->gradients, first, 0, 0);
}

float *training_total(weft_training *training, uint32_t group, struct group_slice *slice)
{
    return gradient_groups_total(training->gradients, group, slice);
}

/* ZeRO-2 and 3: memory for a gradient of a group, all 0, so that gaps are; NULL on failure. */
static float *take_gradient(weft_training *training, struct training_group *group)
{
    if (!group->gradient)
        group->gradient = weft_alloc(training->context, group->range.count * sizeof *group->gradient);
    return group->gradient;
}

float *weft_training_gradient(weft_training *training, int parameter)
{
    if (!training->started || parameter < 0 || (size_t)parameter >= training->description.parameter_count)
        return NULL;
    const uint32_t index = training->index_of[parameter];
    const size_t offset = training->description.parameters[index].offset;
    struct training_group *group = &training->groups[training->group_of[index]];
    if (!training_sums_slices(training))
        return training_flat_gradients(training) + offset;
    float *gradient = training->ready[index] ? NULL : take_gradient(training, group);
    return gradient ? gradient + (offset - group->range.offset) : NULL;
}

/* ---- reductions ---- */

/* Whether groups are reduced in the current micro-batch. */
static bool reduces(const weft_training *training)
{
    return training->ranks > 1 && (training_sums_slices(training) || training_is_last(training));
}

static weft_status finish_oldest(weft_training *training, struct error *error)
{
    const struct training_reduction oldest = training->reductions[0];
    training->reduction_count--;
    memmove(training->reductions, training->reductions + 1, training->reduction_count * sizeof oldest);
    weft_status status = gradient_groups_reduce_finish(training->gradients, oldest.group, oldest.round, error);
    weft_free(training->context, oldest.gradient);
    return status;
}

/* ZeRO-2 and 3: reduce the gradient of a round, which becomes the reduction's; NULL where this rank has none. */
static weft_status start_round(weft_training *training, uint32_t group, uint32_t round, float *gradient,
                               struct error *error)
{
    weft_status status = WEFT_OK;
    if (training->reduction_count == GRADIENT_EXCHANGES)
        status = finish_oldest(training, error);
    training->reductions[training->reduction_count++] =
        (struct training_reduction){.group = group, .round = round, .gradient = gradient};
    return status == WEFT_OK ? gradient_groups_reduce_place(training->gradients, group, round, gradient, error)
                             : status;
}

/* Start to reduce a group that is complete. */
static weft_status start_group(weft_training *training, struct training_group *group, struct error *error)
{
    const uint32_t number = (uint32_t)(group - training->groups);
    if (!training_sums_slices(training))
        return gradient_groups_reduce_start(training->gradients, number, TRAINING_NO_ROUND, 0, 0, error);
    float *gradient = take_gradient(training, group); /* NULL so far if the program has not asked for it */
    group->gradient = NULL;
    return gradient ? start_round(training, number, training->index, gradient, error)
                    : library_error(training->context, WEFT_ERROR_MEMORY, error);
}

/* Start with every complete group that is next in the order. Before the end of the micro-batch nothing waits: other
 * ranks may need this one, for a gather or for the program's own messages. The first failure is reported at the end. */
static void start_complete_groups(weft_training *training, bool waits)
{
    const uint64_t begin = clock_now();
    while (training->next < training->group_count && training->order[training->next]->waiting == 0 &&
           (waits || gradient_groups_can_start(training->gradients))) {
        struct training_group *group = training->order[training->next++];
        if (training->failure.status == WEFT_OK)
            start_group(training, group, &training->failure);
    }
    training->wait_seconds += (double)(clock_now() - begin) * 1e-9;
}

static void complete_group(weft_training *training, struct training_group *group)
{
    const uint32_t number = (uint32_t)(group - training->groups);
    group->position = training->complete_count++;
    if (!training_sums_slices(training) && !group->range.frozen)
        gradient_groups_add(training->gradients, number);
    if (!reduces(training))
        return;
    training->disordered |= group != training->order[group->position];
    start_complete_groups(training, false);
}

void training_start_before_gather(weft_training *training)
{
    if (training->ready_count == training->description.parameter_count)
        start_complete_groups(training, true);
}

weft_status training_finish_gradients(weft_training *training, struct error *error)
{
    const uint64_t begin = clock_now();
    weft_status status = WEFT_OK;
    while (training->reduction_count) {
        const weft_status finished = finish_oldest(training, error);
        status = status == WEFT_OK ? finished : status;
    }
    for (uint32_t i = 0; training->ranks > 1 && !training_sums_slices(training) && i < training->group_count; i++) {
        const uint32_t number = (uint32_t)(training->order[i] - training->groups);
        const weft_status finished =
            gradient_groups_reduce_finish(training->gradients, number, TRAINING_NO_ROUND, error);
        status = status == WEFT_OK ? finished : status;
    }
    training->wait_seconds += (double)(clock_now() - begin) * 1e-9;
    return status;
}

/* ---- the order ---- */

/* Of groups at the same position, the one at the end of memory comes first, as a backward pass goes. */
static int compare_positions(const void *first, const void *second)
{
    const struct training_group *const *a = first, *const *b = second;
    if ((*a)->position != (*b)->position)
        return (*a)->position < (*b)->position ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

weft_status training_agree_on_order(weft_training *training, struct error *error)
{
    const uint32_t count = training->group_count;
    uint32_t *positions = training->positions;
    for (uint32_t g = 0; g < count; g++)
        positions[g] = training->groups[g].position;
    weft_status status = library_error(
        training->context, weft_allreduce(positions, positions, count, WEFT_U32, WEFT_MAX, training->comm), error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t g = 0; g < count; g++)
        training->groups[g].position = positions[g];
    qsort((void *)training->order, count, sizeof(struct training_group *), compare_positions);
    return WEFT_OK;
}

/* ---- micro-batches ---- */

static void gradient_is_ready(weft_training *training, uint32_t index)
{
    struct training_group *group = &training->groups[training->group_of[index]];
    training->ready[index] = true;
    training->ready_count++;
    if (--group->waiting == 0)
        complete_group(training, group);
}

weft_status weft_training_ready(weft_training *training, int parameter)
{
    struct error error = {0};
    weft_status status =
        training_check_number(training, parameter, training->description.parameter_count, "parameter", &error);
    const uint32_t index = status == WEFT_OK ? training->index_of[parameter] : 0;
    if (status == WEFT_OK && training->ready[index])
        status = error_set(&error, WEFT_ERROR_STATE,
                           "the gradient of '%s' was made ready twice in one micro-batch; call "
                           "weft_training_accumulate() between two micro-batches of a step",
                           training->description.parameters[index].name);
    if (status == WEFT_OK)
        gradient_is_ready(training, index);
    return training_note_error(training, status, &error);
}

weft_status weft_training_note(weft_training *training, int which, double value)
{
    struct error error = {0};
    weft_status status = training_check_number(training, which, WEFT_TRAINING_NOTES, "note", &error);
    const size_t micro_batch = training->share.first + (size_t)training->index * training->share.stride;
    if (status == WEFT_OK)
        training->notes[(size_t)which * (size_t)training->config.micro_batches + micro_batch] = (float)value;
    return training_note_error(training, status, &error);
}

static void send_missing(weft_training *training)
{
    for (uint32_t i = 0; training->ready_count < training->description.parameter_count; i++) {
        if (training->ready[i])
            continue;
        training->flags[TRAINING_FLAG_MISSING] = 1;
        training->missing[i] = true;
        gradient_is_ready(training, i);
    }
}

/* ZeRO-2 and 3: take part in the last round of a step that other ranks have and this one does not. */
static weft_status take_part_in_last_round(weft_training *training, struct error *error)
{
    const uint32_t rounds = (uint32_t)(training->config.micro_batches + (int)training->ranks - 1) / training->ranks;
    weft_status status = WEFT_OK;
    if (!training_sums_slices(training) || training->share.count == rounds)
        return WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < training->group_count; i++)
        status = start_round(training, (uint32_t)(training->order[i] - training->groups), training->share.count, NULL,
                             error);
    return status;
}

weft_status training_end_micro_batch(weft_training *training, struct error *error)
{
    const bool last = training_is_last(training);
    send_missing(training);
    if (reduces(training))
        start_complete_groups(training, true);
    weft_status status = training->failure.status;
    if (status != WEFT_OK)
        error_set(error, status, "%s", training->failure.text);
    else if (last)
        status = take_part_in_last_round(training, error);
    memset(training->ready, 0, training->description.parameter_count * sizeof *training->ready);
    for (uint32_t g = 0; g < training->group_count; g++)
        training->groups[g].waiting = training->groups[g].parameter_count;
    training->ready_count = 0;
    training->next = training->complete_count = 0;
    training->index = last ? 0 : training->index + 1;
    return status;
}

weft_status weft_training_accumulate(weft_training *training)
{
    struct error error = {0};
    weft_status status = training_check_started(training, "weft_training_accumulate()", &error);
    if (status == WEFT_OK && training_is_last(training))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "micro-batch %u of %u is the last one of the step on this rank; end it with "
                           "weft_training_step()",
                           training->index + 1, training->share.count);
    else if (status == WEFT_OK)
        status = training_end_micro_batch(training, &error);
    return training_note_error(training, status, &error);
}

int weft_training_micro_batches(const weft_training *training)
{
    return (int)training->share.count;
}

uint64_t weft_training_micro_batch(const weft_training *training)
{
    return training->steps * (uint64_t)training->config.micro_batches + training->share.first +
           (uint64_t)training->index * training->share.stride;
}
