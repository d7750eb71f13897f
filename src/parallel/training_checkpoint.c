/* SPDX-License-Identifier: Apache-2.0 */
/* A training's checkpoints: rank 0 has everything in one place while it reads or writes. */
#include "parallel/training.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "parallel/agreement.h"
#include "parallel/tensor_list.h"

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

/* ---- what checkpoints hold --------------------------------------------------------------------------------------- */

static struct state_arrays arrays_of(const weft_training *training, const struct whole *whole)
{
    return (struct state_arrays){.description = &training->tensors,
                                 .parameters = training->values,
                                 .first_moments = whole->moments[0],
                                 .second_moments = whole->moments[1]};
}

static const char *optimiser_name(const weft_training *training)
{
    return training->config.optimizer == WEFT_OPTIMIZER_OWN ? "own" : optimiser_names[training->optimiser.kind];
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static weft_status write_checkpoint(weft_training *training, const struct whole *whole, const char *folder,
                                    unsigned keep, struct error *error)
{
    struct tensor_list values, moments;
    const struct state_arrays arrays = arrays_of(training, whole);
    cJSON *model = cJSON_CreateObject(), *settings = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "kind", "program");
    cJSON_AddStringToObject(settings, "optimizer", optimiser_name(training));
    weft_status status = tensor_lists_open(&values, &moments, &arrays, error);
    if (status == WEFT_OK)
        status =
            checkpoint_save(folder,
                            &(struct checkpoint_state){.step = training->steps,
                                                       .position = training->steps * training->parallel.layout.total,
                                                       .model = model,
                                                       .training = settings},
                            values.tensors, values.count, moments.tensors, moments.count, keep, error);
    tensor_list_close(&values);
    tensor_list_close(&moments);
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
    struct tensor_list values = {0}, moments = {0};
    const struct state_arrays arrays = arrays_of(training, whole);
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(folder, &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    status = check_optimiser(training, checkpoint, error);
    if (status == WEFT_OK)
        status = tensor_lists_open(&values, &moments, &arrays, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, values.tensors, values.count, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, moments.tensors, moments.count, error);
    if (status == WEFT_OK)
        *steps = checkpoint_get_state(checkpoint)->step;
    tensor_list_close(&values);
    tensor_list_close(&moments);
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
