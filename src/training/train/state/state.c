/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/state.h"

#include "training/checkpoint/checkpoint.h"
#include "training/model/file/shape_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static weft_status broadcast_bytes(const struct shards *shards, void *bytes, size_t size, struct error *error)
{
    weft_status status = weft_broadcast(bytes, size, WEFT_U8, 0, shards->comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(shards->context));
}

weft_status training_state_broadcast(struct training_state *state, const struct shards *shards, struct error *error)
{
    weft_status status = broadcast_bytes(shards, &state->step, sizeof state->step, error);
    if (status == WEFT_OK)
        status = broadcast_bytes(shards, &state->early_stopping, sizeof state->early_stopping, error);
    if (status == WEFT_OK)
        status = broadcast_bytes(shards, state->arrays.parameters, shards->elements * sizeof(float), error);
    return status;
}

void training_state_describe(const struct training_state *state, const struct train_config *config,
                             struct checkpoint_state *written)
{
    cJSON *training = settings_describe(config, state->data);
    if (state->text && *state->text->identity)
        cJSON_AddStringToObject(training, "tokenizer", state->text->identity);
    if (state->kernels)
        cJSON_AddStringToObject(training, "kernels", state->kernels);
    early_stopping_put(&state->early_stopping, training);
    *written = (struct checkpoint_state){
        .step = state->step,
        .position = state->step * (uint64_t)config->batch,
        .seed = (uint64_t)config->seed,
        .model = shape_to_json(&state->arrays.description->shape),
        .training = training,
        .best = state->step && state->early_stopping.best_step == state->step,
    };
}

/* A resumed run must read the data in the same order. */
static weft_status match_run(const struct checkpoint *checkpoint, const struct train_config *config,
                             struct error *error)
{
    const struct checkpoint_state *read = checkpoint_get_state(checkpoint);
    uint64_t position = read->step * (uint64_t)config->batch;
    if (read->seed != (uint64_t)config->seed)
        return error_set(error, WEFT_ERROR_DATA, "the checkpoint '%s' was made with --seed %" PRIu64 ", not %" PRId64,
                         checkpoint_directory(checkpoint), read->seed, config->seed);
    const cJSON *optimizer = cJSON_GetObjectItemCaseSensitive(read->training, "optimizer");
    const char *name = cJSON_GetStringValue(optimizer), *wanted = optimizer_names[config->optimizer.kind];
    if (name && strcmp(name, wanted) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "the checkpoint '%s' holds the moments of --optimizer %s, not of %s; go on with that one",
                         checkpoint_directory(checkpoint), name, wanted);
    if (read->position != position)
        return error_set(error, WEFT_ERROR_DATA,
                         "the checkpoint '%s' has read %" PRIu64 " sequences in %" PRIu64
                         " steps, so its --batch was %" PRIu64 ", not %" PRId64,
                         checkpoint_directory(checkpoint), read->position, read->step,
                         read->step ? read->position / read->step : 0, config->batch);
    return WEFT_OK;
}

/* A run may be resumed with other kernels, but then its bits differ. */
static void warn_of_kernels(const struct checkpoint *checkpoint, const struct training_state *state,
                            const struct train_config *config)
{
    const cJSON *training = checkpoint_get_state(checkpoint)->training;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(training, "kernels"));
    if (!name || !state->kernels || !config->warnings || strcmp(name, state->kernels) == 0)
        return;
    fprintf(
        config->warnings,
        "weft: the checkpoint '%s' was computed with the kernels %s, and this run goes on with %s: its weights will "
        "not have the bits of an uninterrupted run; --kernels %s keeps them\n",
        checkpoint_directory(checkpoint), name, state->kernels, name);
    fflush(config->warnings);
}

weft_status training_state_load(struct training_state *state, const struct train_config *config, const char *directory,
                                char changes[SETTINGS_TEXT_BYTES], struct error *error)
{
    struct checkpoint *checkpoint;
    weft_status status = checkpoint_open(directory, &checkpoint, error);
    if (status != WEFT_OK)
        return status;
    struct tensor_list weights = {0}, moments = {0};
    cJSON *model = shape_to_json(&state->arrays.description->shape);
    status = checkpoint_match_model(checkpoint, model, error);
    if (status == WEFT_OK)
        status = match_run(checkpoint, config, error);
    if (status == WEFT_OK)
        status = settings_match(checkpoint_get_state(checkpoint)->training, config, state->data,
                                checkpoint_directory(checkpoint), changes, error);
    if (status == WEFT_OK)
        status = tensor_lists_open(&weights, &moments, &state->arrays, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, weights.tensors, weights.count, error);
    if (status == WEFT_OK)
        status = checkpoint_read(checkpoint, moments.tensors, moments.count, error);
    if (status == WEFT_OK)
        status = early_stopping_get(checkpoint_get_state(checkpoint)->training, checkpoint_directory(checkpoint),
                                    &state->early_stopping, error);
    if (status == WEFT_OK)
        state->step = checkpoint_get_state(checkpoint)->step;
    if (status == WEFT_OK)
        warn_of_kernels(checkpoint, state, config);
    tensor_list_close(&weights);
    tensor_list_close(&moments);
    cJSON_Delete(model);
    checkpoint_close(checkpoint);
    return status;
}
