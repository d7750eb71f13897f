/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/state.h"

#include "training/checkpoint/checkpoint.h"
#include "training/data/image/images.h"
#include "training/model/file/shape_json.h"
#include "training/parallel/agreement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add_three(cJSON *training, const char *name, const double values[3])
{
    cJSON_AddItemToObject(training, name, cJSON_CreateDoubleArray(values, 3));
}

/* Predictions normalize images likewise. */
static void add_normalization(const struct training_state *state, cJSON *training)
{
    if (!state->source || !sample_source_classes(state->source) ||
        model_samples_of(&state->description->shape) != SAMPLES_OF_IMAGES)
        return;
    const struct image_normalization normalization = images_normalization(state->source);
    add_three(training, "image_mean", normalization.mean);
    add_three(training, "image_deviation", normalization.deviation);
}

/* Predictions name them. */
static void add_classes(const struct sample_source *source, cJSON *training)
{
    const size_t count = source ? sample_source_classes(source) : 0;
    cJSON *classes = count ? cJSON_AddArrayToObject(training, "classes") : NULL;
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(classes, cJSON_CreateString(sample_source_class_name(source, i)));
}

void training_state_describe(const struct training_state *state, const struct train_config *config,
                             struct checkpoint_state *written)
{
    cJSON *training = settings_describe(config, state->data);
    if (state->text && *state->text->identity)
        cJSON_AddStringToObject(training, "tokenizer", state->text->identity);
    add_classes(state->source, training);
    add_normalization(state, training);
    if (state->kernels)
        cJSON_AddStringToObject(training, "kernels", state->kernels);
    early_stopping_put(&state->early_stopping, training);
    loss_scale_put(&state->loss_scale, training);
    *written = (struct checkpoint_state){
        .step = state->step,
        .position = state->step * (uint64_t)config->batch,
        .seed = (uint64_t)config->seed,
        .model = shape_to_json(&state->description->shape),
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

static weft_status broadcast_bytes(const struct state_layout *layout, void *bytes, size_t size, struct error *error)
{
    weft_status status = weft_broadcast(bytes, size, WEFT_U8, 0, layout->comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(layout->context));
}

/* Rank 0: open the checkpoint, and take everything but tensors. */
static weft_status open_resumed(struct training_state *state, const struct train_config *config, const char *directory,
                                const struct checkpoint_identity *verified, char changes[SETTINGS_TEXT_BYTES],
                                struct checkpoint **checkpoint, struct error *error)
{
    weft_status status = checkpoint_open_same(directory, verified, checkpoint, error);
    if (status == WEFT_OK && !*checkpoint)
        status = checkpoint_open(directory, checkpoint, error);
    if (status != WEFT_OK)
        return status;
    const struct checkpoint_state *read = checkpoint_get_state(*checkpoint);
    cJSON *model = shape_to_json(&state->description->shape);
    status = checkpoint_match_model(*checkpoint, model, error);
    if (status == WEFT_OK)
        status = match_run(*checkpoint, config, error);
    if (status == WEFT_OK)
        status = settings_match(read->training, config, state->data, checkpoint_directory(*checkpoint), changes, error);
    if (status == WEFT_OK && read->step > (uint64_t)config->steps)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "the checkpoint in '%s' has taken %" PRIu64 " steps, more than --steps %" PRId64, directory,
                           read->step, config->steps);
    if (status == WEFT_OK)
        status = early_stopping_get(read->training, checkpoint_directory(*checkpoint), &state->early_stopping, error);
    if (status == WEFT_OK)
        status = loss_scale_get(read->training, checkpoint_directory(*checkpoint), &state->loss_scale, error);
    cJSON_Delete(model);
    return status;
}

weft_status training_state_load(struct training_state *state, const struct train_config *config, const char *directory,
                                const struct checkpoint_identity *verified, char changes[SETTINGS_TEXT_BYTES],
                                bool *speaks, struct error *error)
{
    const struct state_layout *layout = state->layout;
    struct checkpoint *checkpoint = NULL;
    struct training_state read = *state;
    weft_status status = WEFT_OK;
    if (layout->rank == 0)
        status = open_resumed(&read, config, directory, verified, changes, &checkpoint, error);
    status = agreement_reach(layout->context, layout->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = state_layout_read(layout, checkpoint, directory, speaks, error);
    if (status == WEFT_OK && checkpoint) {
        warn_of_kernels(checkpoint, state, config);
        read.step = checkpoint_get_state(checkpoint)->step;
    }
    checkpoint_close(checkpoint);
    if (status == WEFT_OK)
        status = broadcast_bytes(layout, &read.step, sizeof read.step, error);
    if (status == WEFT_OK)
        status = broadcast_bytes(layout, &read.early_stopping, sizeof read.early_stopping, error);
    if (status == WEFT_OK)
        status = broadcast_bytes(layout, &read.loss_scale, sizeof read.loss_scale, error);
    if (status == WEFT_OK) {
        state->step = read.step;
        state->early_stopping = read.early_stopping;
        state->loss_scale = read.loss_scale;
    }
    return status;
}
