/* SPDX-License-Identifier: Apache-2.0 */
#include "train/state.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One array of the state as tensors for the checkpoint, each named after its parameter with `suffix`. */
struct tensor_list {
    struct named_tensor *tensors;
    char (*names)[MODEL_NAME_BYTES + 16];
    size_t count;
};

static weft_status list_open(struct tensor_list *list, size_t room, struct error *error)
{
    *list = (struct tensor_list){.tensors = calloc(room, sizeof *list->tensors),
                                 .names = calloc(room, sizeof *list->names)};
    return list->tensors && list->names ? WEFT_OK
                                        : error_memory(error, room * sizeof *list->tensors, "a list of tensors");
}

static void list_close(struct tensor_list *list)
{
    free(list->tensors);
    free(list->names);
}

static void list_add(struct tensor_list *list, const struct model_description *description, float *array,
                     const char *suffix)
{
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        char *name = list->names[list->count];
        struct named_tensor *tensor = &list->tensors[list->count++];
        snprintf(name, sizeof *list->names, "%s%s", parameter->name, suffix);
        tensor->name = name;
        tensor->type = WEFT_F32;
        tensor->dimensions = parameter->dimensions;
        for (size_t d = 0; d < parameter->dimensions; d++)
            tensor->shape[d] = parameter->shape[d];
        tensor->count = parameter->count;
        tensor->data = array + parameter->offset;
    }
}

static weft_status list_state(const struct training_state *state, struct tensor_list *weights,
                              struct tensor_list *moments, struct error *error)
{
    size_t count = state->description->parameter_count;
    *weights = *moments = (struct tensor_list){0};
    weft_status status = list_open(weights, count, error);
    if (status == WEFT_OK)
        status = list_open(moments, 2 * count, error);
    if (status != WEFT_OK)
        return status;
    list_add(weights, state->description, state->parameters, "");
    list_add(moments, state->description, state->first_moments,
             state->second_moments ? ".exp_avg" : ".momentum_buffer"); /* PyTorch's names */
    if (state->second_moments)
        list_add(moments, state->description, state->second_moments, ".exp_avg_sq");
    return WEFT_OK;
}

static cJSON *model_configuration(const struct model_shape *shape)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", shape->kind);
    cJSON_AddNumberToObject(object, "layers", (double)shape->layers);
    cJSON_AddNumberToObject(object, "heads", (double)shape->heads);
    cJSON_AddNumberToObject(object, "width", (double)shape->width);
    cJSON_AddNumberToObject(object, "context", (double)shape->context);
    cJSON_AddNumberToObject(object, "vocabulary", (double)shape->vocabulary);
    cJSON_AddNumberToObject(object, "kv_heads", (double)shape->kv_heads);
    cJSON_AddNumberToObject(object, "hidden", (double)shape->hidden);
    cJSON_AddNumberToObject(object, "rotary_base", shape->rotary_base);
    cJSON_AddNumberToObject(object, "norm_epsilon", shape->norm_epsilon);
    cJSON_AddBoolToObject(object, "untied", shape->untied);
    return object;
}

static cJSON *training_configuration(const struct train_config *config)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "optimizer", optimiser_names[config->optimiser.kind]);
    cJSON_AddStringToObject(object, "data", config->data);
    cJSON_AddNumberToObject(object, "steps", (double)config->steps);
    cJSON_AddNumberToObject(object, "batch", (double)config->batch);
    cJSON_AddNumberToObject(object, "micro_batch", (double)config->micro_batch);
    cJSON_AddNumberToObject(object, "sequence", (double)config->sequence);
    cJSON_AddNumberToObject(object, "learning_rate", config->rate);
    cJSON_AddNumberToObject(object, "floor_share", config->floor_share);
    cJSON_AddNumberToObject(object, "warmup", (double)config->warmup);
    cJSON_AddNumberToObject(object, "beta1", config->optimiser.beta1);
    cJSON_AddNumberToObject(object, "beta2", config->optimiser.beta2);
    cJSON_AddNumberToObject(object, "epsilon", config->optimiser.epsilon);
    cJSON_AddNumberToObject(object, "momentum", config->optimiser.momentum);
    cJSON_AddNumberToObject(object, "trust", config->optimiser.trust);
    cJSON_AddNumberToObject(object, "weight_decay", config->optimiser.weight_decay);
    cJSON_AddNumberToObject(object, "clip", config->clip);
    cJSON_AddNumberToObject(object, "dropout", config->dropout);
    return object;
}

weft_status training_state_save(const struct training_state *state, const struct train_config *config,
                                const char *folder, char path[FILE_PATH_BYTES], struct error *error)
{
    struct tensor_list weights, moments;
    weft_status status = list_state(state, &weights, &moments, error);
    if (status == WEFT_OK) {
        cJSON *model = model_configuration(&state->description->shape), *training = training_configuration(config);
        struct checkpoint_state written = {
            .step = state->step,
            .position = state->step * (uint64_t)config->batch,
            .seed = (uint64_t)config->seed,
            .model = model,
            .training = training,
        };
        status = checkpoint_save(folder, &written, weights.tensors, weights.count, moments.tensors, moments.count,
                                 (unsigned)config->checkpoint_keep, error);
        if (status == WEFT_OK)
            status = folder_of_step(folder, state->step, path, error);
        cJSON_Delete(model);
        cJSON_Delete(training);
    }
    list_close(&weights);
    list_close(&moments);
    return status;
}

/* A run that goes on must read the data in the order in which it began. */
static weft_status match_run(const struct checkpoint *checkpoint, const struct train_config *config,
                             struct error *error)
{
    const struct checkpoint_state *read = checkpoint_get_state(checkpoint);
    uint64_t position = read->step * (uint64_t)config->batch;
    if (read->seed != (uint64_t)config->seed)
        return error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' was made with --seed %" PRIu64 ", not %" PRId64,
                         checkpoint_folder(checkpoint), read->seed, config->seed);
    const cJSON *optimiser = cJSON_GetObjectItemCaseSensitive(read->training, "optimizer");
    const char *name = cJSON_GetStringValue(optimiser), *wanted = optimiser_names[config->optimiser.kind];
    if (name && strcmp(name, wanted) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "the checkpoint '%s' holds the moments of --optimizer %s, not of %s; go on with that one",
                         checkpoint_folder(checkpoint), name, wanted);
    if (read->position != position)
        return error_set(error, WEFT_ERROR_DATA,
                         "the checkpoint '%s' has read %" PRIu64 " sequences in %" PRIu64
                         " steps, so its --batch was %" PRIu64 ", not %" PRId64,
                         checkpoint_folder(checkpoint), read->position, read->step,
                         read->step ? read->position / read->step : 0, config->batch);
    return WEFT_OK;
}

weft_status training_state_load(struct training_state *state, const struct train_config *config, const char *folder,
                                struct error *error)
{
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(folder, &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    struct tensor_list weights = {0}, moments = {0};
    cJSON *model = model_configuration(&state->description->shape);
    status = checkpoint_match_model(checkpoint, model, error);
    if (status == WEFT_OK)
        status = match_run(checkpoint, config, error);
    if (status == WEFT_OK)
        status = list_state(state, &weights, &moments, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, weights.tensors, weights.count, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, moments.tensors, moments.count, error);
    if (status == WEFT_OK)
        state->step = checkpoint_get_state(checkpoint)->step;
    list_close(&weights);
    list_close(&moments);
    cJSON_Delete(model);
    checkpoint_close(checkpoint);
    return status;
}
