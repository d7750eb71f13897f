/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/calibrate.h"

#include "base/clock.h"
#include "base/random.h"
#include "training/optimizer/optimizer.h"

#include <stdlib.h>

#define LARGEST_MEASURED 16
#define REPETITIONS      3

weft_status calibration_open(struct calibration *calibration, const struct model_description *description,
                             struct device *device, uint32_t sequence, struct error *error)
{
    *calibration = (struct calibration){.description = description, .device = device, .sequence = sequence};
    size_t bytes = description->elements * sizeof(float);
    calibration->parameters = device->allocate(device, bytes, "weights to calibrate with", error);
    if (calibration->parameters)
        calibration->gradients = device->allocate(device, description->gradient_elements * sizeof(float),
                                                  "gradients to calibrate with", error);
    if (!calibration->gradients) {
        calibration_close(calibration);
        return WEFT_ERROR_MEMORY;
    }
    return model_initialize(description, device, calibration->parameters, 1, error);
}

void calibration_close(struct calibration *calibration)
{
    struct device *device = calibration->device;
    device->release(device, calibration->parameters);
    device->release(device, calibration->gradients);
    calibration->parameters = calibration->gradients = NULL;
}

static weft_status calibrate_measure(struct calibration *calibration, uint32_t sequences, double *best,
                                     struct error *error)
{
    size_t tokens = (size_t)sequences * calibration->sequence;
    int32_t *input = malloc(2 * tokens * sizeof *input);
    if (!input)
        return error_memory(error, 2 * tokens * sizeof *input, "tokens to calibrate with");
    for (size_t i = 0; i < 2 * tokens; i++)
        input[i] = (int32_t)random_below(1, i, calibration->description->shape.vocabulary);
    const struct model_batch batch = {.tokens = input, .targets = input + tokens};
    struct model *model;
    weft_status status =
        model_open(calibration->description, calibration->device,
                   &(struct model_options){.batch = sequences, .sequence = calibration->sequence, .training = true},
                   &model, error);
    for (int i = 0; i <= REPETITIONS && status == WEFT_OK; i++) {
        double loss;
        uint64_t begin = clock_now();
        status = model_forward(model, calibration->parameters, &batch, &loss, error);
        if (status == WEFT_OK)
            status = model_backward(model, calibration->parameters, calibration->gradients, NULL, NULL, error);
        double seconds = (double)(clock_now() - begin) * 1e-9;
        if (i == 1 || (i > 1 && seconds < *best)) /* the first one warms up */
            *best = seconds;
    }
    model_close(model);
    free(input);
    return status;
}

double calibration_compute(void *context, uint32_t sequences)
{
    struct calibration *calibration = context;
    if (sequences > LARGEST_MEASURED)
        return calibration_compute(context, LARGEST_MEASURED) * sequences / LARGEST_MEASURED;
    double *seconds = &calibration->seconds[__builtin_ctz(sequences)];
    if (*seconds == 0 && calibration->status == WEFT_OK)
        calibration->status = calibrate_measure(calibration, sequences, seconds, &calibration->error);
    return *seconds;
}

double calibration_update(struct calibration *calibration)
{
    const struct model_description *description = calibration->description;
    struct device *device = calibration->device;
    size_t elements = description->elements;
    float *moments = device->allocate(device, 2 * elements * sizeof *moments, "moments to calibrate with", NULL);
    double *sums = malloc(tree_blocks(elements) * sizeof *sums), best = 0;
    for (int i = 0; moments && sums && i <= REPETITIONS; i++) {
        uint64_t begin = clock_now();
        const struct optimizer optimizer = {
            .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1};
        const struct optimizer_step step = {.number = 1, .rate = 1e-3, .gradient_scale = 1};
        const struct optimizer_arrays arrays = {.parameters = calibration->parameters,
                                                .gradients = calibration->gradients,
                                                .first_moments = moments,
                                                .second_moments = moments + elements};
        optimizer_gradient_norm(device, elements, calibration->gradients, sums);
        optimizer_update(description, device, &optimizer, &step, 0, elements, &arrays);
        double seconds = (double)(clock_now() - begin) * 1e-9;
        if (i == 1 || (i > 1 && seconds < best))
            best = seconds;
    }
    device->release(device, moments);
    free(sums);
    return best;
}
