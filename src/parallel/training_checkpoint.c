/* SPDX-License-Identifier: Apache-2.0 */
/* A training's checkpoints: rank 0 has everything in one place while it reads or writes. */
#include "parallel/training.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "parallel/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All moments on rank 0: its own where nothing is sharded. */
struct whole {
    float *room; /* where they are gathered; NULL: nowhere */
    float *moments[2];
};

static weft_status whole_open(const weft_training *training, struct whole *whole, struct error *error)
{
    const struct shards *shards = &training->shards;
    *whole = (struct whole){.moments = {training->first_moments, training->second_moments}};
    if (!shards->sharded || shards->rank != 0 || !training->first_moments)
        return WEFT_OK;
    const size_t arrays = training->second_moments ? 2 : 1;
    whole->room = calloc(arrays * shards->elements, sizeof *whole->room);
    if (!whole->room)
        return error_memory(error, arrays * shards->elements * sizeof *whole->room, "the whole optimizer state");
    for (size_t i = 0; i < arrays; i++)
        whole->moments[i] = whole->room + i * shards->elements;
    return WEFT_OK;
}

static weft_status whole_gather(weft_training *training, const struct whole *whole, struct error *error)
{
    weft_status status = WEFT_OK;
    if (training->first_moments)
        status = shards_gather(&training->shards, training->first_moments, whole->moments[0], error);
    if (status == WEFT_OK && training->second_moments)
        status = shards_gather(&training->shards, training->second_moments, whole->moments[1], error);
    return status;
}

static weft_status whole_deal(weft_training *training, const struct whole *whole, struct error *error)
{
    weft_status status = WEFT_OK;
    if (training->first_moments)
        status = shards_deal(&training->shards, whole->moments[0], training->first_moments, error);
    if (status == WEFT_OK && training->second_moments)
        status = shards_deal(&training->shards, whole->moments[1], training->second_moments, error);
    return status;
}

/* ---- tensors of a checkpoint ------------------------------------------------------------------------------------- */

#define SUFFIX_BYTES 20

/* An array of the training as tensors, each called after its parameter. */
struct tensor_list {
    struct named_tensor *tensors;
    char (*names)[MODEL_NAME_BYTES + SUFFIX_BYTES];
    size_t count;
};

static void list_add(struct tensor_list *list, const struct model_description *tensors, float *array,
                     const char *suffix)
{
    for (size_t i = 0; array && i < tensors->parameter_count; i++) {
        const struct model_parameter *from = &tensors->parameters[i];
        struct named_tensor *tensor = &list->tensors[list->count];
        char *name = list->names[list->count++];
        snprintf(name, sizeof *list->names, "%s%s", from->name, suffix);
        *tensor = (struct named_tensor){.name = name,
                                        .type = WEFT_F32,
                                        .dimensions = (unsigned)from->dimensions,
                                        .count = from->count,
                                        .data = array + from->offset};
        for (size_t d = 0; d < from->dimensions; d++)
            tensor->shape[d] = from->shape[d];
    }
}

static weft_status list_open(struct tensor_list *list, size_t room, struct error *error)
{
    *list = (struct tensor_list){.tensors = calloc(room, sizeof *list->tensors),
                                 .names = calloc(room, sizeof *list->names)};
    return list->tensors && list->names ? WEFT_OK
                                        : error_memory(error, room * sizeof *list->tensors, "a list of tensors");
}

/* The values; the moments. */
struct contents {
    struct tensor_list values, moments;
};

static void contents_close(struct contents *contents)
{
    free(contents->values.tensors);
    free(contents->values.names);
    free(contents->moments.tensors);
    free(contents->moments.names);
}

static weft_status contents_open(struct contents *contents, weft_training *training, const struct whole *whole,
                                 struct error *error)
{
    const struct model_description *tensors = &training->tensors;
    *contents = (struct contents){0};
    weft_status status = list_open(&contents->values, tensors->parameter_count, error);
    if (status == WEFT_OK)
        status = list_open(&contents->moments, 2 * tensors->parameter_count, error);
    if (status != WEFT_OK)
        return status;
    list_add(&contents->values, tensors, training->values, "");
    list_add(&contents->moments, tensors, whole->moments[0],
             whole->moments[1] ? ".exp_avg" : ".momentum_buffer"); /* PyTorch's names */
    list_add(&contents->moments, tensors, whole->moments[1], ".exp_avg_sq");
    return WEFT_OK;
}

static const char *optimiser_name(const weft_training *training)
{
    return training->config.optimizer == WEFT_OPTIMIZER_OWN ? "own" : optimiser_names[training->optimiser.kind];
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static weft_status write_checkpoint(weft_training *training, const struct whole *whole, const char *folder,
                                    unsigned keep, struct error *error)
{
    struct contents contents;
    cJSON *model = cJSON_CreateObject(), *settings = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "kind", "program");
    cJSON_AddStringToObject(settings, "optimizer", optimiser_name(training));
    weft_status status = contents_open(&contents, training, whole, error);
    if (status == WEFT_OK)
        status =
            checkpoint_save(folder,
                            &(struct checkpoint_state){.step = training->steps,
                                                       .position = training->steps * training->parallel.layout.total,
                                                       .model = model,
                                                       .training = settings},
                            contents.values.tensors, contents.values.count, contents.moments.tensors,
                            contents.moments.count, keep, error);
    contents_close(&contents);
    cJSON_Delete(model);
    cJSON_Delete(settings);
    return status;
}

weft_status weft_training_save(weft_training *training, const char *folder, unsigned keep)
{
    struct error error = {0};
    struct whole whole = {0};
    bool speaks;
    weft_status status = training->started
                             ? whole_open(training, &whole, &error)
                             : error_set(&error, WEFT_ERROR_STATE, "weft_training_save() before weft_training_start()");
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = whole_gather(training, &whole, &error);
    if (status == WEFT_OK) {
        if (training->shards.rank == 0)
            status = write_checkpoint(training, &whole, folder, keep, &error);
        status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    }
    free(whole.room);
    return training_note_error(training, status, &error);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static weft_status check_optimiser(const weft_training *training, const struct checkpoint *checkpoint,
                                   struct error *error)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(checkpoint_get_state(checkpoint)->training, "optimizer");
    const char *name = cJSON_GetStringValue(found), *wanted = optimiser_name(training);
    if (name && strcmp(name, wanted) == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' holds the state of the optimizer %s, not of %s",
                     checkpoint_folder(checkpoint), name ? name : "of another program", wanted);
}

/* Rank 0 alone. */
static weft_status read_checkpoint(weft_training *training, const struct whole *whole, const char *folder,
                                   uint64_t *steps, struct error *error)
{
    struct contents contents = {0};
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(folder, &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    status = check_optimiser(training, checkpoint, error);
    if (status == WEFT_OK)
        status = contents_open(&contents, training, whole, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, contents.values.tensors, contents.values.count, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, contents.moments.tensors, contents.moments.count, error);
    if (status == WEFT_OK)
        *steps = checkpoint_get_state(checkpoint)->step;
    contents_close(&contents);
    checkpoint_close(checkpoint);
    return status;
}

/* What rank 0 found. */
struct finding {
    uint64_t found, steps;
};

static weft_status look(weft_training *training, const struct whole *whole, const char *folder, struct finding *finding,
                        struct error *error)
{
    size_t count = 0;
    if (!file_exists(folder))
        return WEFT_OK;
    weft_status status = checkpoint_list(folder, NULL, 0, &count, error);
    if (status == WEFT_OK && count) {
        finding->found = 1;
        status = read_checkpoint(training, whole, folder, &finding->steps, error);
    }
    return status;
}

weft_status weft_training_load(weft_training *training, const char *folder, bool *found)
{
    struct error error = {0};
    struct whole whole = {0};
    struct finding finding = {0};
    bool speaks;
    weft_status status = training->started
                             ? whole_open(training, &whole, &error)
                             : error_set(&error, WEFT_ERROR_STATE, "weft_training_load() before weft_training_start()");
    if (status == WEFT_OK && weft_comm_rank(training->comm) == 0)
        status = look(training, &whole, folder, &finding, &error);
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = weft_broadcast(&finding, sizeof finding, WEFT_U8, 0, training->comm);
    if (status == WEFT_OK && finding.found) {
        status = whole_deal(training, &whole, &error);
        training->steps = finding.steps;
        if (status == WEFT_OK)
            status = weft_training_share(training);
    }
    if (status == WEFT_OK)
        *found = finding.found;
    free(whole.room);
    return status == WEFT_OK || !error.status ? status : training_note_error(training, status, &error);
}
