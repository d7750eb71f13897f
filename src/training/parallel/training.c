/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a training, registering parameters, starting. */
#include "training/parallel/training.h"

#include "training/parallel/agreement.h"

#include <stdlib.h>
#include <string.h>

weft_status training_note_error(weft_training *training, weft_status status, const struct error *error)
{
    if (status == WEFT_OK)
        return WEFT_OK;
    training->last = *error;
    return weft_note_error(training->context, status, error->text);
}

weft_status training_check_started(const weft_training *training, const char *call, struct error *error)
{
    return training->started ? WEFT_OK : error_set(error, WEFT_ERROR_STATE, "%s before weft_training_start()", call);
}

weft_status training_check_number(const weft_training *training, int number, size_t count, const char *what,
                                  struct error *error)
{
    if (!training->started)
        return error_set(error, WEFT_ERROR_STATE, "a %s comes before weft_training_start()", what);
    if (number < 0 || (size_t)number >= count)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no %s %d; there are %zu, from 0", what, number, count);
    return WEFT_OK;
}

/* ---- opening ---- */

static weft_status training_check_config(const weft_training_config *config, struct error *error)
{
    const struct {
        const char *name;
        double value, least, most;
    } numbers[] = {
        {"micro_batches", config->micro_batches, 0, 1 << 30},
        {"optimizer", config->optimizer, WEFT_OPTIMIZER_OWN, WEFT_OPTIMIZER_LARS},
        {"beta1", config->beta1, 0, 0.999999},
        {"beta2", config->beta2, 0, 0.999999},
        {"epsilon", config->epsilon, 1e-30, 1},
        {"momentum", config->momentum, 0, 0.999999},
        {"trust", config->trust, 1e-12, 1},
        {"weight_decay", config->weight_decay, 0, 100},
        {"clip", config->clip, 0, 1e30},
        {"rate_scaling", config->rate_scaling, WEFT_RATE_AS_GIVEN, WEFT_RATE_ROOT},
        {"shard_optimizer", config->shard_optimizer, 0, 1},
        {"threads", config->threads, 1, 1024},
        {"zero", config->zero, 0, 3},
        {"copy_every", config->copy_every, 0, 1 << 30},
    };
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (!(numbers[i].value >= numbers[i].least && numbers[i].value <= numbers[i].most))
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s of a weft_training_config is %g; it must be from %g to %g",
                             numbers[i].name, numbers[i].value, numbers[i].least, numbers[i].most);
    if (config->gradient_type != WEFT_F32 && config->gradient_type != WEFT_BF16)
        return error_set(error, WEFT_ERROR_ARGUMENT, "gradients cannot be of type %s; they may be f32 or bf16",
                         weft_type_name(config->gradient_type));
    if (config->zero >= 2 && config->optimizer == WEFT_OPTIMIZER_OWN)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "an optimizer of the program's own needs whole gradients, which no rank has under ZeRO-%d; use "
            "zero 0, or one of Weft's optimizers",
            config->zero);
    return WEFT_OK;
}

static struct optimizer optimizer_of(const weft_training_config *config)
{
    static const enum optimizer_kind kinds[] = {[WEFT_OPTIMIZER_ADAMW] = OPTIMIZER_ADAMW,
                                                [WEFT_OPTIMIZER_SGD] = OPTIMIZER_SGD,
                                                [WEFT_OPTIMIZER_LAMB] = OPTIMIZER_LAMB,
                                                [WEFT_OPTIMIZER_LARS] = OPTIMIZER_LARS};
    return (struct optimizer){.kind = kinds[config->optimizer],
                              .beta1 = config->beta1,
                              .beta2 = config->beta2,
                              .epsilon = config->epsilon,
                              .momentum = config->momentum,
                              .trust = config->trust,
                              .weight_decay = config->weight_decay};
}

weft_status weft_training_open(weft_context *context, weft_comm *comm, const weft_training_config *config,
                               weft_training **result)
{
    static const weft_training_config defaults = WEFT_TRAINING_CONFIG_DEFAULT;
    struct error error = {0};
    if (!context)
        return WEFT_ERROR_ARGUMENT;
    weft_training *training = calloc(1, sizeof *training);
    if (!training) {
        error_memory(&error, sizeof *training, "a training");
        return weft_note_error(context, error.status, error.text);
    }
    *training =
        (weft_training){.context = context, .comm = comm, .config = defaults, .description = {.tied = NO_PARAMETER}};
    if (config)
        memcpy(&training->config, config, config->size < sizeof *config ? config->size : sizeof *config);
    weft_status status = comm && result
                             ? training_check_config(&training->config, &error)
                             : error_set(&error, WEFT_ERROR_ARGUMENT,
                                         "weft_training_open() needs a communicator and a place for the result");
    if (status == WEFT_OK) {
        training->optimizer = optimizer_of(&training->config);
        /* Like "cpu", with kernels that round to bf16. */
        status = device_open("cpu-bf16", training->config.threads, &training->device, &error);
    }
    if (status != WEFT_OK) {
        training_note_error(training, status, &error);
        free(training);
        return status;
    }
    training_take_ranks(training, comm);
    training->is_over_world = comm == weft_world(context);
    if (!training->is_over_world || training->epoch == 0) {
        training->rate_ranks = training->ranks;
        if (!training->config.micro_batches)
            training->config.micro_batches = (int)training->ranks;
    }
    *result = training;
    return WEFT_OK;
}

void weft_training_close(weft_training *training)
{
    if (!training)
        return;
    struct device *device = training->device;
    training_close_layout(training);
    training_close_former(training);
    device->close(device);
    free(training->index_of);
    free(training->description.parameters);
    free(training->directory);
    free(training);
}

/* ---- registering ---- */

static weft_status check_parameter(const weft_training *training, const weft_parameter *parameter, struct error *error)
{
    const char *name = parameter && parameter->name ? parameter->name : "";
    if (training->started)
        return error_set(error, WEFT_ERROR_STATE,
                         "the parameter '%s' comes after weft_training_start(); register it before", name);
    if (!*name || strlen(name) >= WEFT_PARAMETER_NAME_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a parameter's name must have 1 to %d bytes, not %zu",
                         WEFT_PARAMETER_NAME_BYTES - 1, strlen(name));
    if (model_parameter_find(&training->description, name))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the parameter '%s' is registered twice", name);
    if (!(parameter->rate_factor <= 1000))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the parameter '%s' has a rate_factor of %g; it must be at most 1000", name,
                         parameter->rate_factor);
    size_t count = 1;
    for (int d = 0; d < WEFT_PARAMETER_DIMENSIONS && parameter->shape[d]; d++)
        if (__builtin_mul_overflow(count, parameter->shape[d], &count) || count > SIZE_MAX / 64)
            return error_set(error, WEFT_ERROR_ARGUMENT, "the parameter '%s' is too large", name);
    if (!parameter->shape[0])
        return error_set(error, WEFT_ERROR_ARGUMENT, "the parameter '%s' is empty; give its shape", name);
    return WEFT_OK;
}

int weft_training_parameter(weft_training *training, const weft_parameter *parameter)
{
    struct error error = {0};
    struct model_description *description = &training->description;
    weft_status status = check_parameter(training, parameter, &error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(description->parameters, description->parameter_room, description->parameter_count + 1,
                               "a list of parameters", &error);
    if (status != WEFT_OK) {
        training_note_error(training, status, &error);
        return -1;
    }
    struct model_parameter *added = &description->parameters[description->parameter_count];
    memset(added, 0, sizeof *added); /* ranks compare every byte */
    memcpy(added->name, parameter->name, strlen(parameter->name));
    for (; added->dimensions < MODEL_DIMENSIONS && parameter->shape[added->dimensions]; added->dimensions++)
        added->shape[added->dimensions] = parameter->shape[added->dimensions];
    added->decay = added->dimensions > 1 && !parameter->no_decay;
    added->frozen = parameter->frozen != 0;
    added->rate_factor = parameter->rate_factor > 0 ? parameter->rate_factor : parameter->rate_factor == 0 ? 1 : 0;
    return (int)description->parameter_count++;
}

/* ---- starting ---- */

weft_status weft_training_start(weft_training *training)
{
    struct error error = {0};
    bool speaks;
    weft_status status = WEFT_OK;
    if (training->started)
        status = error_set(&error, WEFT_ERROR_STATE, "this training has started already");
    else if (!training->description.parameter_count)
        status = error_set(&error, WEFT_ERROR_STATE,
                           "there is nothing to train: register parameters with weft_training_parameter()");
    /* A failure on one rank is a failure on all, so that no rank waits for one that has exited. */
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = training_enter_world(training, &error);
    return training_note_error(training, status, &error);
}
