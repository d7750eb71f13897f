/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a training: summed gradients in, weights out. */
#include "training/parallel/training.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "training/optimizer/learning_rate.h"
#include "training/parallel/internal/tensor_names.h"
#include "training/parallel/sharded_update.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- sums over the ranks ---- */

/* The sums of squares of a segment's blocks that lie in `slice` of its group, whose first element is at `total`. */
static void sum_segment_squares(weft_training *training, const struct training_segment *segment, size_t group_offset,
                                const struct group_slice *slice, const float *total)
{
    struct device *device = training->device;
    const size_t begin = segment->offset - group_offset, end = begin + segment->count;
    const size_t first = begin > slice->first ? begin : slice->first,
                 last = end < slice->first + slice->count ? end : slice->first + slice->count;
    if (first < last)
        device->sum_of_squares(device, last - first, total + (first - slice->first),
                               training->sums + segment->block + (first - begin) / DEVICE_SQUARES_BLOCK);
}

/* Sums of squares of the blocks that this rank speaks for; the others stay 0, and adding 0 is exact. Where all ranks have
 * the whole sum, each speaks for some of the groups. */
static void sum_own_squares(weft_training *training)
{
    for (uint32_t g = 0; g < training->group_count; g++) {
        const struct training_group *group = &training->groups[g];
        struct group_slice slice;
        float *total = training_total(training, g, &slice);
        optimizer_clear_frozen(&training->description, training->device, group->range.offset + slice.first, slice.count,
                               total);
        if (!training_sums_slices(training) && g % training->ranks != training->rank)
            continue;
        for (uint32_t s = 0; s < group->segment_count; s++)
            sum_segment_squares(training, &training->segments[group->segment + s], group->range.offset, &slice, total);
    }
}

/* What a step has summed, the same on all ranks. */
struct step_sums {
    double norm; /* of the averaged gradient */
    bool missing, disordered;
    int waiting; /* ranks that wait to join or are to leave */
};

static weft_status sum_over_ranks(weft_training *training, struct step_sums *sums, weft_training_result *result,
                                  struct error *error)
{
    const size_t micro_batches = (size_t)training->config.micro_batches;
    const double mean = 1.0 / training->config.micro_batches;
    training->flags[TRAINING_FLAG_DISORDERED] = training->disordered;
    training->flags[TRAINING_FLAG_WAITING] = training->is_over_world ? weft_waiting(training->context) : 0;
    sum_own_squares(training);
    weft_status status = training->device->finish(training->device, error);
    if (status == WEFT_OK && training->ranks > 1)
        status = library_error(
            training->context,
            weft_allreduce(training->sums, training->sums, training->sum_elements, WEFT_F64, WEFT_SUM, training->comm),
            error);
    *sums = (struct step_sums){.norm = mean * sqrt(tree_sum(training->sums, training->blocks)),
                               .missing = training->flags[TRAINING_FLAG_MISSING] > 0,
                               .disordered = training->flags[TRAINING_FLAG_DISORDERED] > 0,
                               .waiting = (int)training->flags[TRAINING_FLAG_WAITING]};
    result->gradient_norm = sums->norm;
    for (size_t i = 0; i < WEFT_TRAINING_NOTES; i++)
        result->notes[i] = mean * tree_sum(training->notes + i * micro_batches, micro_batches);
    memset(training->sums, 0, training->sum_elements * sizeof *training->sums);
    training->disordered = false;
    return status;
}

/* ---- the step ---- */

/* Take the optimizer's step on this rank's slice of a group. */
static weft_status update_slice(weft_training *training, uint32_t group, const struct optimizer_step *step,
                                struct error *error)
{
    const bool shards = training->config.shard_optimizer || training->config.zero;
    const struct sharded_ranks ranks = {.context = training->context,
                                        .slices = shards && training->ranks > 1 ? training->comm : NULL,
                                        .waited = &training->wait_seconds};
    const struct group_range range = training_value_range(training, group);
    const struct value_slice slice = value_groups_slice(training->values, group);
    const size_t first = range.offset + slice.first;
    struct group_slice total;
    const struct optimizer_arrays arrays = {
        .parameters = slice.values,
        .gradients = training_sums_slices(training) ? training_total(training, group, &total)
                                                    : training_flat_gradients(training) + first,
        .first_moments = slice.first_moments,
        .second_moments = slice.second_moments,
        .as_activations = training->bf16_values ? training->bf16_values + first : NULL,
        .sums = training->sums,
    };
    if (range.frozen)
        return WEFT_OK;
    return sharded_update(&ranks, &training->description, training->device, &training->optimizer, step,
                          (struct optimizer_range){.first = range.offset, .count = range.count},
                          (struct optimizer_range){.first = first, .count = slice.count}, &arrays, error);
}

/* Update the weights; a program with its own optimizer gets the scaled gradient. */
static weft_status training_step_apply(weft_training *training, const struct optimizer_step *step, struct error *error)
{
    struct device *device = training->device;
    if (training->config.optimizer == WEFT_OPTIMIZER_OWN) {
        device->scale(device, training->description.elements, step->gradient_scale, training_flat_gradients(training));
        return device->finish(device, error);
    }
    weft_status status = WEFT_OK;
    for (uint32_t g = 0; status == WEFT_OK && g < training_value_groups(training); g++)
        status = update_slice(training, g, step, error);
    if (status == WEFT_OK)
        status = device->finish(device, error);
    memset(training->sums, 0, training->blocks * sizeof *training->sums); /* scratch of the optimizer */
    const uint64_t begin = clock_now();
    if (status == WEFT_OK)
        status = training_values_updated(training, error);
    training->wait_seconds += (double)(clock_now() - begin) * 1e-9;
    return status;
}

/* On some rank gradients became ready in another order than that of the groups. Agreeing on a better one costs a small
 * all-reduce, so it is tried at exponentially growing intervals where the order never settles. */
static weft_status reorder(weft_training *training, bool disordered, struct error *error)
{
    if (!disordered || training->steps < training->agree_at)
        return WEFT_OK;
    training->agree_at = 2 * training->steps + 1;
    return training_agree_on_order(training, error);
}

/* Every rank has the same sums, so all report the same error. */
static weft_status check_sums(weft_training *training, const struct step_sums *sums, const weft_training_result *result,
                              struct error *error)
{
    if (sums->missing) {
        weft_status status = tensor_names_missing(training->context, training->comm, training->description.parameters,
                                                  (uint32_t)training->description.parameter_count, training->missing,
                                                  training->steps + 1, error);
        memset(training->missing, 0, training->description.parameter_count * sizeof *training->missing);
        return status;
    }
    if (!(result->gradient_norm < HUGE_VAL))
        return error_set(error, WEFT_ERROR_DATA,
                         "the gradient's norm is %g in step %" PRIu64
                         ": the run has diverged, and the weights were left as they are; lower the learning rate or "
                         "lengthen the warm-up",
                         result->gradient_norm, training->steps + 1);
    for (int i = 0; i < WEFT_TRAINING_NOTES; i++)
        if (!isfinite(result->notes[i]))
            return error_set(error, WEFT_ERROR_DATA,
                             "the mean of note %d is %g in step %" PRIu64
                             ": the run has diverged, and the weights were left as they are; lower the learning rate "
                             "or lengthen the warm-up",
                             i, fabs(result->notes[i]), training->steps + 1);
    return WEFT_OK;
}

static weft_status training_take_step(weft_training *training, double rate, weft_training_result *result,
                                      struct error *error)
{
    const weft_training_config *config = &training->config;
    const double mean = 1.0 / config->micro_batches;
    struct step_sums sums;
    *result = (weft_training_result){.step = training->steps};
    weft_status status = training_end_micro_batch(training, error);
    if (status == WEFT_OK)
        status = training_finish_gradients(training, error);
    if (status == WEFT_OK)
        status = training_finish_copy(training, error);
    if (status == WEFT_OK)
        status = sum_over_ranks(training, &sums, result, error);
    if (status != WEFT_OK)
        return status;
    result->rate = learning_rate_scaled(rate, config->rate_scaling, training->rate_ranks);
    if ((status = check_sums(training, &sums, result, error)) != WEFT_OK)
        return status;
    training->is_updating = true;
    const double clip = config->clip > 0 && sums.norm > config->clip ? config->clip / sums.norm : 1;
    status = training_step_apply(
        training,
        &(struct optimizer_step){.number = training->steps + 1, .rate = result->rate, .gradient_scale = mean * clip},
        error);
    result->wait_seconds = training->wait_seconds;
    training->wait_seconds = 0;
    if (status == WEFT_OK) {
        result->step = ++training->steps;
        training->is_updating = false;
        training->has_values = true;
        training->waiting = sums.waiting;
        error_clear(&training->last);
        status = reorder(training, sums.disordered, error);
    }
    if (status == WEFT_OK)
        status = training_begin_copy(training, error);
    return status;
}

weft_status weft_training_step(weft_training *training, double rate, weft_training_result *result)
{
    struct error error = {0};
    weft_training_result ignored;
    weft_status status = training_check_started(training, "weft_training_step()", &error);
    if (status == WEFT_OK && !training_is_last(training))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "a step has %u micro-batches on this rank, and this is number %u; end it with "
                           "weft_training_accumulate()",
                           training->share.count, training->index + 1);
    else if (status == WEFT_OK)
        status = training_take_step(training, rate, result ? result : &ignored, &error);
    return training_note_error(training, status, &error);
}

uint64_t weft_training_steps(const weft_training *training)
{
    return training->steps;
}
