/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a training: gradients in, weights out. */
#include "training/parallel/training.h"

#include "base/clock.h"
#include "training/optimizer/learning_rate.h"
#include "training/parallel/internal/tensor_names.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- micro-batches ---- */

static void begin_micro_batch(weft_training *training)
{
    if (training->in_micro_batch)
        return;
    gradient_sum_begin(&training->sum);
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
    weft_status status = check_number(training, parameter, training->description.parameter_count, "parameter", &error);
    const uint32_t index = status == WEFT_OK ? training->index_of[parameter] : 0;
    if (status == WEFT_OK && training->ready[index])
        status = error_set(&error, WEFT_ERROR_STATE,
                           "the gradient of '%s' was made ready twice in one micro-batch; call "
                           "weft_training_accumulate() between two micro-batches of a step",
                           training->description.parameters[index].name);
    if (status != WEFT_OK)
        return training_note_error(training, status, &error);
    begin_micro_batch(training);
    training->ready[index] = true;
    training->ready_count++;
    gradient_sum_ready(&training->sum, index);
    return WEFT_OK;
}

weft_status weft_training_note(weft_training *training, int which, double value)
{
    struct error error = {0};
    weft_status status = check_number(training, which, WEFT_TRAINING_NOTES, "note", &error);
    if (status == WEFT_OK)
        training->metrics[which] = (float)value;
    return training_note_error(training, status, &error);
}

/* Take part with gradients that are not ready, because other ranks wait for them. All ranks learn of it from the sum. */
static void send_missing(weft_training *training)
{
    for (size_t i = 0; training->ready_count < training->description.parameter_count; i++) {
        if (training->ready[i])
            continue;
        training->metrics[TRAINING_METRIC_MISSING] = 1;
        training->missing[i] = true;
        training->ready_count++;
        gradient_sum_ready(&training->sum, i);
    }
}

static weft_status end_micro_batch(weft_training *training, struct error *error)
{
    begin_micro_batch(training);
    send_missing(training);
    training->metrics[TRAINING_METRIC_DISORDERED] = training->sum.buckets.disordered;
    weft_status status = gradient_sum_end(&training->sum, training->metrics, error);
    memset(training->metrics, 0, sizeof training->metrics);
    memset(training->ready, 0, training->description.parameter_count * sizeof *training->ready);
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
    else if (gradient_sum_is_last(&training->sum))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "micro-batch %u of %u is the last one of the step on this rank; end it with "
                           "weft_training_step()",
                           training->sum.index + 1, training->sum.layout.share);
    else
        status = end_micro_batch(training, &error);
    return training_note_error(training, status, &error);
}

/* ---- the step ---- */

/* The norm of the summed gradient, without frozen parameters: each rank computes the part of its shard. */
static weft_status measure_gradient(weft_training *training, double *norm, struct error *error)
{
    const struct shards *shards = &training->shards;
    struct device *device = training->device;
    optimizer_clear_frozen(&training->description, device, shards->first, shards->count,
                           training->sum.gradients + shards->first);
    device->sum_of_squares(device, shards->count, training->sum.gradients + shards->first,
                           training->square_sums + shards->first / DEVICE_SQUARES_BLOCK);
    weft_status status = shards_all_gather_sums(shards, training->square_sums, error);
    *norm = sqrt(tree_sum(training->square_sums, tree_blocks(training->description.elements)));
    return status;
}

/* Take the optimizer's step on this rank's shard. */
static void update(weft_training *training, const struct optimizer_step *step)
{
    const struct shards *shards = &training->shards;
    const struct optimizer_arrays arrays = {
        .parameters = training->values + shards->first,
        .gradients = training->sum.gradients + shards->first,
        .first_moments = training->first_moments,
        .second_moments = training->second_moments,
        .as_activations = training->bf16_values ? training->bf16_values + shards->first : NULL,
        .sums = training->square_sums,
    };
    optimizer_update(&training->description, training->device, &training->optimizer, step, shards->first, shards->count,
                     &arrays);
}

/* Update the bf16 copy of the other ranks' shards. */
static void cast_other_shards(weft_training *training)
{
    const struct shards *shards = &training->shards;
    struct device *device = training->device;
    const size_t end = shards->first + shards->count;
    if (!training->bf16_values || !shards->sharded)
        return;
    device->to_activations(device, shards->first, training->values, training->bf16_values);
    device->to_activations(device, shards->elements - end, training->values + end, training->bf16_values + end);
}

weft_status weft_training_keep_bf16(weft_training *training, uint16_t *copy)
{
    struct error error = {0};
    struct device *device = training->device;
    if (!training->started)
        return training_note_error(
            training, error_set(&error, WEFT_ERROR_STATE, "there are no values before weft_training_start()"), &error);
    training->bf16_values = copy;
    if (copy)
        device->to_activations(device, training->description.elements, training->values, copy);
    return training_note_error(training, device->finish(device, &error), &error);
}

/* Take the optimizer's step; a program with its own optimizer gets the scaled gradient. */
static weft_status training_step_apply(weft_training *training, const struct optimizer_step *step, double *wait_seconds,
                                       struct error *error)
{
    struct device *device = training->device;
    if (training->config.optimizer == WEFT_OPTIMIZER_OWN) {
        device->scale(device, training->description.elements, step->gradient_scale, training->sum.gradients);
        return device->finish(device, error);
    }
    update(training, step);
    weft_status status = device->finish(device, error);
    if (status != WEFT_OK)
        return status;
    const uint64_t begin = clock_now();
    if ((status = shards_all_gather(&training->shards, training->values, error)) != WEFT_OK)
        return status;
    *wait_seconds += (double)(clock_now() - begin) * 1e-9;
    cast_other_shards(training);
    return device->finish(device, error);
}

/* On some rank gradients became ready in another order than that of the buckets. Agreeing on a better one costs a small
 * all-reduce, so it is tried at exponentially growing intervals where the order never settles. */
static weft_status reorder(weft_training *training, bool disordered, struct error *error)
{
    if (!disordered || training->steps < training->agree_at)
        return WEFT_OK;
    training->agree_at = 2 * training->steps + 1;
    weft_status status = gradient_buckets_agree(&training->sum.buckets);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(training->context));
}

/* Every rank has the same sums, so all report the same error. */
static weft_status check_sums(weft_training *training, const weft_training_result *result, struct error *error)
{
    if (training->sum.metrics[TRAINING_METRIC_MISSING] > 0) {
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
    const double mean = 1.0 / training->sum.layout.total, waited = training->sum.buckets.wait_seconds;
    *result = (weft_training_result){.step = training->steps};
    weft_status status = end_micro_batch(training, error);
    if (status != WEFT_OK)
        return status;
    const float *metrics = training->sum.metrics;
    for (int i = 0; i < WEFT_TRAINING_NOTES; i++)
        result->notes[i] = mean * (double)metrics[i];
    if ((status = measure_gradient(training, &result->gradient_norm, error)) != WEFT_OK)
        return status;
    result->gradient_norm *= mean;
    result->rate = learning_rate_scaled(rate, config->rate_scaling, training->shards.ranks);
    if ((status = check_sums(training, result, error)) != WEFT_OK)
        return status;
    const bool disordered = metrics[TRAINING_METRIC_DISORDERED] > 0;
    const double norm = result->gradient_norm, clip = config->clip > 0 && norm > config->clip ? config->clip / norm : 1;
    result->wait_seconds = training->sum.buckets.wait_seconds - waited;
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
    else if (!gradient_sum_is_last(&training->sum))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "a step has %u micro-batches on this rank, and this is number %u; end it with "
                           "weft_training_accumulate()",
                           training->sum.layout.share, training->sum.index + 1);
    else
        status = training_take_step(training, rate, result ? result : &ignored, &error);
    return training_note_error(training, status, &error);
}
