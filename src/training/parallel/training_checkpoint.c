/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a training: rank 0 gathers and writes, or reads and scatters. */
#include "training/parallel/training.h"

#include "base/file/file.h"
#include "training/checkpoint/checkpoint.h"
#include "training/model/file/shape_json.h"
#include "training/parallel/agreement.h"
#include "training/parallel/state_tensors.h"

#include <string.h>

static weft_status open_gathered_state(const weft_training *training, struct gathered_state *state, struct error *error)
{
    return gathered_state_open(state, &training->shards,
                               &(struct state_arrays){.description = &training->description,
                                                      .parameters = training->values,
                                                      .first_moments = training->first_moments,
                                                      .second_moments = training->second_moments},
                               error);
}

static const char *optimizer_name(const weft_training *training)
{
    return training->config.optimizer == WEFT_OPTIMIZER_OWN ? "own" : optimizer_names[training->optimizer.kind];
}

/* ---- writing ---- */

static weft_status write_checkpoint(weft_training *training, const struct state_arrays *arrays, const char *directory,
                                    unsigned keep, struct error *error)
{
    struct tensor_list of_values, of_moments;
    cJSON *model = cJSON_CreateObject(), *settings = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "kind", SHAPE_KIND_PROGRAM);
    cJSON_AddStringToObject(settings, "optimizer", optimizer_name(training));
    weft_status status = tensor_lists_open(&of_values, &of_moments, arrays, error);
    if (status == WEFT_OK)
        status = checkpoint_save(directory,
                                 &(struct checkpoint_state){.step = training->steps,
                                                            .position = training->steps * training->sum.layout.total,
                                                            .model = model,
                                                            .training = settings},
                                 of_values.tensors, of_values.count, of_moments.tensors, of_moments.count, keep, error);
    tensor_list_close(&of_values);
    tensor_list_close(&of_moments);
    cJSON_Delete(model);
    cJSON_Delete(settings);
    return status;
}

weft_status weft_training_save(weft_training *training, const char *directory, unsigned keep)
{
    struct error error = {0};
    struct gathered_state gathered = {0};
    bool speaks;
    weft_status status = training->started
                             ? open_gathered_state(training, &gathered, &error)
                             : error_set(&error, WEFT_ERROR_STATE, "weft_training_save() before weft_training_start()");
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = gathered_state_gather(&gathered, &training->shards, &error);
    if (status == WEFT_OK) {
        if (training->shards.rank == 0)
            status = write_checkpoint(training, &gathered.arrays, directory, keep, &error);
        status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    }
    gathered_state_close(&gathered);
    return training_note_error(training, status, &error);
}

/* ---- reading ---- */

static weft_status check_optimizer(const weft_training *training, const struct checkpoint *checkpoint,
                                   struct error *error)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(checkpoint_get_state(checkpoint)->training, "optimizer");
    const char *name = cJSON_GetStringValue(found), *wanted = optimizer_name(training);
    if (name && strcmp(name, wanted) == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' holds the state of the optimizer %s, not of %s",
                     checkpoint_directory(checkpoint), name ? name : "of another program", wanted);
}

/* Rank 0 alone. */
static weft_status read_newest_checkpoint(weft_training *training, const struct state_arrays *arrays,
                                          const char *directory, uint64_t *steps, struct error *error)
{
    struct tensor_list of_values = {0}, of_moments = {0};
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(directory, &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    status = check_optimizer(training, checkpoint, error);
    if (status == WEFT_OK)
        status = tensor_lists_open(&of_values, &of_moments, arrays, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, of_values.tensors, of_values.count, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, of_moments.tensors, of_moments.count, error);
    if (status == WEFT_OK)
        *steps = checkpoint_get_state(checkpoint)->step;
    tensor_list_close(&of_values);
    tensor_list_close(&of_moments);
    checkpoint_close(checkpoint);
    return status;
}

/* The state that rank 0 read, sent to all ranks as bytes. */
struct finding {
    uint64_t found, steps;
};

static weft_status look_for_checkpoint(weft_training *training, const struct state_arrays *arrays,
                                       const char *directory, struct finding *finding, struct error *error)
{
    size_t count = 0;
    if (!file_exists(directory))
        return WEFT_OK;
    weft_status status = checkpoint_list(directory, NULL, 0, &count, error);
    if (status == WEFT_OK && count) {
        finding->found = 1;
        status = read_newest_checkpoint(training, arrays, directory, &finding->steps, error);
    }
    return status;
}

weft_status weft_training_load(weft_training *training, const char *directory, bool *found)
{
    struct error error = {0};
    struct gathered_state gathered = {0};
    struct finding finding = {0};
    bool speaks;
    weft_status status = training->started
                             ? open_gathered_state(training, &gathered, &error)
                             : error_set(&error, WEFT_ERROR_STATE, "weft_training_load() before weft_training_start()");
    if (status == WEFT_OK && weft_comm_rank(training->comm) == 0)
        status = look_for_checkpoint(training, &gathered.arrays, directory, &finding, &error);
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = weft_broadcast(&finding, sizeof finding, WEFT_U8, 0, training->comm);
    if (status == WEFT_OK && finding.found) {
        status = gathered_state_scatter(&gathered, &training->shards, &error);
        training->steps = finding.steps;
        if (status == WEFT_OK)
            status = weft_training_share(training);
    }
    if (status == WEFT_OK)
        *found = finding.found;
    gathered_state_close(&gathered);
    return status == WEFT_OK || !error.status ? status : training_note_error(training, status, &error);
}
