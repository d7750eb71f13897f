/* SPDX-License-Identifier: Apache-2.0 */
/* A training's steps: gradients in, weights out. */
#include "training/parallel/training.h"

#include "base/clock.h"
#include "training/parallel/rate_scaling.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- micro-batches ---- */

static void begin_micro_batch(weft_training *training)
{
    if (training->in_micro_batch)
        return;
    data_parallel_begin(&training->parallel);
    training->in_micro_batch = true;
}

static weft_status check_number(const weft_training *training, int number, size_t count, const char *what,
                                struct error *error)
{
    if (!training->started)
        return error_set(error, WEFT_ERROR_STATE, "a %s comes before weft_training_start()", what);
    if (number < 0 || (size_t)number >= count)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no %s %d; there are %zu, from 0", what, number, count);
    return WEFT_OK;
}

weft_status weft_training_ready(weft_training *training, int parameter)
{
    struct error error = {0};
    weft_status status = check_number(training, parameter, training->tensors.parameter_count, "parameter", &error);
    const uint32_t number = status == WEFT_OK ? training->numbers[parameter] : 0;
    if (status == WEFT_OK && training->ready[number])
        status = error_set(&error, WEFT_ERROR_STATE,
                           "the gradient of '%s' was made ready twice in one micro-batch; call "
                           "weft_training_accumulate() between two micro-batches of a step",
                           training->tensors.parameters[number].name);
    if (status != WEFT_OK)
        return training_note_error(training, status, &error);
    begin_micro_batch(training);
    training->ready[number] = true;
    training->ready_count++;
    data_parallel_ready(&training->parallel, number);
    return WEFT_OK;
}

weft_status weft_training_note(weft_training *training, int which, double value)
{
    struct error error = {0};
    weft_status status = check_number(training, which, WEFT_TRAINING_NOTES, "note", &error);
    if (status == WEFT_OK)
        training->extras[which] = (float)value;
    return training_note_error(training, status, &error);
}

/* Take part with what is not ready, too: the others wait for it. They learn of it with the sum. */
static void make_up_for_missing(weft_training *training)
{
    for (uint32_t i = 0; training->ready_count < training->tensors.parameter_count; i++) {
        if (training->ready[i])
            continue;
        training->extras[TRAINING_EXTRA_MISSING] = 1;
        training->missing[i] = true;
        training->ready_count++;
        data_parallel_ready(&training->parallel, i);
    }
}

static weft_status end_micro_batch(weft_training *training, struct error *error)
{
    begin_micro_batch(training);
    make_up_for_missing(training);
    training->extras[TRAINING_EXTRA_DISORDERED] = training->parallel.buckets.disordered;
    weft_status status = data_parallel_end(&training->parallel, training->extras, error);
    memset(training->extras, 0, sizeof training->extras);
    memset(training->ready, 0, training->tensors.parameter_count * sizeof *training->ready);
    training->ready_count = 0;
    training->in_micro_batch = false;
    return status;
}

weft_status weft_training_accumulate(weft_training *training)
{
    struct error error = {0};
    weft_status status = WEFT_OK;
    if (!training->started)
        status = error_set(&error, WEFT_ERROR_STATE, "weft_training_accumulate() before weft_training_start()");
    else if (training->parallel.index + 1 == training->parallel.layout.share)
        status = error_set(&error, WEFT_ERROR_STATE,
                           "micro-batch %u of %u is the last one of the step on this rank; end it with "
                           "weft_training_step()",
                           training->parallel.index + 1, training->parallel.layout.share);
    else
        status = end_micro_batch(training, &error);
    return training_note_error(training, status, &error);
}

/* ---- the step ---- */

/* The norm of the summed gradient: each rank looks at its shard. Frozen parameters have none. */
static weft_status measure_gradient(weft_training *training, double *norm, struct error *error)
{
    const struct shards *shards = &training->shards;
    struct device *device = training->device;
    parameter_groups_clear_frozen(&training->groups, &training->tensors, device, shards->first, shards->count,
                                  training->parallel.gradients + shards->first);
    device->sum_of_squares(device, shards->count, training->parallel.gradients + shards->first,
                           training->square_sums + shards->first / DEVICE_SQUARES_BLOCK);
    weft_status status = shards_share_sums(shards, training->square_sums, error);
    *norm = sqrt(tree_sum(training->square_sums, tree_blocks(training->tensors.elements)));
    return status;
}

/* Take the optimizer's step on this rank's shard. */
static void update(weft_training *training, const struct optimizer_step *step)
{
    const struct shards *shards = &training->shards;
    const struct optimizer_arrays arrays = {
        .parameters = training->values + shards->first,
        .gradients = training->parallel.gradients + shards->first,
        .first_moments = training->first_moments,
        .second_moments = training->second_moments,
        .narrowed = training->narrowed ? training->narrowed + shards->first : NULL,
        .sums = training->square_sums,
    };
    model_update(&training->tensors, training->device, &training->optimizer, step, shards->first, shards->count,
                 &arrays);
}

/* What came from other ranks has no narrowed copy yet. */
static void narrow_the_others(weft_training *training)
{
    const struct shards *shards = &training->shards;
    struct device *device = training->device;
    const size_t end = shards->first + shards->count;
    if (!training->narrowed || !shards->sharded)
        return;
    device->narrow(device, shards->first, training->values, training->narrowed);
    device->narrow(device, shards->elements - end, training->values + end, training->narrowed + end);
}

weft_status weft_training_keep_bf16(weft_training *training, uint16_t *copy)
{
    struct error error = {0};
    struct device *device = training->device;
    if (!training->started)
        return training_note_error(
            training, error_set(&error, WEFT_ERROR_STATE, "there are no values before weft_training_start()"), &error);
    training->narrowed = copy;
    if (copy)
        device->narrow(device, training->tensors.elements, training->values, copy);
    return training_note_error(training, device->finish(device, &error), &error);
}

/* With the optimizer's own rule, or, for the program's, the gradient alone. */
static weft_status training_step_apply(weft_training *training, const struct optimizer_step *step, double *wait_seconds,
                                       struct error *error)
{
    struct device *device = training->device;
    if (training->config.optimizer == WEFT_OPTIMIZER_OWN) {
        device->scale(device, training->tensors.elements, step->gradient_scale, training->parallel.gradients);
        return device->finish(device, error);
    }
    update(training, step);
    weft_status status = device->finish(device, error);
    if (status != WEFT_OK)
        return status;
    const uint64_t shared = clock_now();
    if ((status = shards_share(&training->shards, training->values, error)) != WEFT_OK)
        return status;
    *wait_seconds += (double)(clock_now() - shared) * 1e-9;
    narrow_the_others(training);
    return device->finish(device, error);
}

/* Some rank's gradients became ready in another order than the buckets are in. Agreeing costs a small all-reduce, so
 * where the order never settles it is tried ever more seldom. */
static weft_status reorder(weft_training *training, bool disordered, struct error *error)
{
    if (!disordered || training->steps < training->agree_at)
        return WEFT_OK;
    training->agree_at = 2 * training->steps + 1;
    weft_status status = gradient_buckets_agree(&training->parallel.buckets);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(training->context));
}

/* Every rank sees the same sums, so all agree on what is wrong. */
static weft_status check_sums(weft_training *training, const weft_training_result *result, struct error *error)
{
    if (training->parallel.extras[TRAINING_EXTRA_MISSING] > 0) {
        weft_status status = tensor_names_missing(training->context, training->comm, training->tensors.parameters,
                                                  (uint32_t)training->tensors.parameter_count, training->missing,
                                                  training->steps + 1, error);
        memset(training->missing, 0, training->tensors.parameter_count * sizeof *training->missing);
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

static weft_status training_step_take_step(weft_training *training, double rate, weft_training_result *result,
                                           struct error *error)
{
    const weft_training_config *config = &training->config;
    const double mean = 1.0 / training->parallel.layout.total, waited = training->parallel.buckets.wait_seconds;
    *result = (weft_training_result){.step = training->steps};
    weft_status status = end_micro_batch(training, error);
    if (status != WEFT_OK)
        return status;
    const float *extras = training->parallel.extras;
    for (int i = 0; i < WEFT_TRAINING_NOTES; i++)
        result->notes[i] = mean * (double)extras[i];
    if ((status = measure_gradient(training, &result->gradient_norm, error)) != WEFT_OK)
        return status;
    result->gradient_norm *= mean;
    result->rate = rate_scaled(rate, config->rate_scaling, training->shards.ranks);
    if ((status = check_sums(training, result, error)) != WEFT_OK)
        return status;
    const bool disordered = extras[TRAINING_EXTRA_DISORDERED] > 0;
    const double norm = result->gradient_norm, clip = config->clip > 0 && norm > config->clip ? config->clip / norm : 1;
    result->wait_seconds = training->parallel.buckets.wait_seconds - waited;
    status = training_step_apply(
        training,
        &(struct optimizer_step){.number = training->steps + 1, .rate = result->rate, .gradient_scale = mean * clip},
        &result->wait_seconds, error);
    if (status == WEFT_OK) {
        result->step = ++training->steps;
        status = reorder(training, disordered, error);
    }
    return status;
}

weft_status weft_training_step(weft_training *training, double rate, weft_training_result *result)
{
    struct error error = {0};
    weft_training_result ignored;
    weft_status status = WEFT_OK;
    if (!training->started)
        status = error_set(&error, WEFT_ERROR_STATE, "weft_training_step() before weft_training_start()");
    else if (training->parallel.index + 1 != training->parallel.layout.share)
        status = error_set(&error, WEFT_ERROR_STATE,
                           "a step has %u micro-batches on this rank, and this is number %u; end it with "
                           "weft_training_accumulate()",
                           training->parallel.layout.share, training->parallel.index + 1);
    else
        status = training_step_take_step(training, rate, result ? result : &ignored, &error);
    return training_note_error(training, status, &error);
}
