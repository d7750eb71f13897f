/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a training: rank 0 collects and writes; the ranks that see a checkpoint read it. */
#include "training/parallel/training.h"

#include "base/file/file.h"
#include "base/library_error.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/directory.h"
#include "training/model/file/shape_json.h"
#include "training/parallel/agreement.h"
#include "training/parallel/state_transfer.h"

#include <stdlib.h>
#include <string.h>

/* ---- where the state is ---- */

/* The layout of a training that has been started on all ranks. `call` is for the message if it has not. */
static weft_status open_layout(const weft_training *training, const char *call, struct state_layout **layout,
                               struct error *error)
{
    bool speaks;
    weft_status status = training_check_started(training, call, error);
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    return status == WEFT_OK ? training_open_layout(training, layout, error) : status;
}

static const char *optimizer_name(const weft_training *training)
{
    return training->config.optimizer == WEFT_OPTIMIZER_OWN ? "own" : optimizer_names[training->optimizer.kind];
}

void training_remember_checkpoint(weft_training *training, char *directory, uint64_t step)
{
    free(training->directory);
    training->directory = directory;
    training->checkpoint = step;
}

/* ---- writing ---- */

/* Every tensor of a kind, whole, for rank 0: the values, or the moments. */
static size_t list_ranges(const struct state_layout *layout, bool moments, struct state_range *ranges)
{
    const struct model_description *description = layout->own.description;
    size_t count = 0;
    for (unsigned array = 0; array < layout->arrays; array++)
        for (uint32_t i = 0; (array != STATE_VALUES) == moments && i < description->parameter_count; i++)
            ranges[count++] = (struct state_range){
                .array = (enum state_array)array, .parameter = i, .count = description->parameters[i].count};
    return count;
}

/* Rank 0. */
static weft_status write_checkpoint(weft_training *training, const struct state_collection *values,
                                    const struct state_collection *moments, const char *directory, unsigned keep,
                                    struct error *error)
{
    cJSON *model = cJSON_CreateObject(), *settings = cJSON_CreateObject();
    cJSON_AddStringToObject(model, "kind", SHAPE_KIND_PROGRAM);
    cJSON_AddStringToObject(settings, "optimizer", optimizer_name(training));
    weft_status status = checkpoint_save(
        directory,
        &(struct checkpoint_state){.step = training->steps,
                                   .position = training->steps * (uint64_t)training->config.micro_batches,
                                   .model = model,
                                   .training = settings},
        values->tensors, values->count, moments->tensors, moments->count, keep, error);
    cJSON_Delete(model);
    cJSON_Delete(settings);
    return status;
}

static weft_status collect_and_write(weft_training *training, const struct state_layout *layout, const char *directory,
                                     unsigned keep, struct error *error)
{
    const size_t room = STATE_ARRAYS * training->description.parameter_count;
    struct state_range *ranges = calloc(room, sizeof *ranges);
    struct state_collection collections[2] = {0};
    size_t counts[2] = {0};
    char *name = strdup(directory);
    bool speaks;
    weft_status status = ranges && name ? WEFT_OK : error_memory(error, room * sizeof *ranges, "a list of tensors");
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        counts[i] = list_ranges(layout, i == 1, ranges + counts[0]);
        status = state_collection_open(&collections[i], layout, ranges + i * counts[0], counts[i], error);
    }
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    for (int i = 0; status == WEFT_OK && i < 2; i++)
        status = state_collection_fill(&collections[i], layout, ranges + i * counts[0], counts[i], error);
    if (status == WEFT_OK) {
        if (layout->rank == 0)
            status = write_checkpoint(training, &collections[0], &collections[1], directory, keep, error);
        const bool is_written = layout->rank == 0 && status == WEFT_OK; /* even if a rank is lost now */
        status = agreement_reach(training->context, training->comm, status, error, &speaks);
        if (is_written || status == WEFT_OK) {
            training_remember_checkpoint(training, name, training->steps);
            name = NULL;
        }
    }
    for (int i = 0; i < 2; i++)
        state_collection_close(&collections[i]);
    free(name);
    free(ranges);
    return status;
}

weft_status weft_training_save(weft_training *training, const char *directory, unsigned keep)
{
    struct error error = {0};
    struct state_layout *layout = NULL;
    weft_status status = open_layout(training, "weft_training_save()", &layout, &error);
    if (status == WEFT_OK)
        status = collect_and_write(training, layout, directory, keep, &error);
    state_layout_close(layout);
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

/* Rank 0: the checkpoint of `step`; UINT64_MAX: the newest one, or NULL. */
static weft_status find_checkpoint(const weft_training *training, const char *directory, uint64_t step,
                                   struct checkpoint **checkpoint, struct error *error)
{
    char path[FILE_PATH_BYTES];
    size_t count = 0;
    weft_status status = WEFT_OK;
    if (step != UINT64_MAX) {
        status = directory_of_step(directory, step, path, error);
        if (status == WEFT_OK)
            status = checkpoint_open(path, checkpoint, error);
    } else if (file_exists(directory)) {
        status = checkpoint_list(directory, NULL, 0, &count, error);
        if (status == WEFT_OK && count)
            status = checkpoint_open(directory, checkpoint, error);
    }
    return status == WEFT_OK && *checkpoint ? check_optimizer(training, *checkpoint, error) : status;
}

/* What rank 0 has found, sent to all ranks as bytes. */
struct finding {
    uint64_t found, steps;
};

weft_status training_load_checkpoint(weft_training *training, const char *directory, uint64_t step, bool *found,
                                     struct error *error)
{
    struct finding finding = {0};
    struct state_layout *layout = NULL;
    struct checkpoint *checkpoint = NULL;
    char path[FILE_PATH_BYTES], *name = strdup(directory);
    bool speaks;
    weft_status status = training_open_layout(training, &layout, error);
    if (status == WEFT_OK) {
        if (!name)
            status = error_memory(error, strlen(directory), "the name of a directory");
        else if (layout->rank == 0)
            status = find_checkpoint(training, directory, step, &checkpoint, error);
        if (status == WEFT_OK && checkpoint)
            finding = (struct finding){.found = 1, .steps = checkpoint_get_state(checkpoint)->step};
        status = agreement_reach(training->context, training->comm, status, error, &speaks);
    }
    if (status == WEFT_OK)
        status = library_error(training->context, weft_broadcast(&finding, sizeof finding, WEFT_U8, 0, training->comm),
                               error);
    if (status == WEFT_OK && finding.found) {
        const bool has_path = directory_of_step(directory, finding.steps, path, NULL) == WEFT_OK;
        training_forget_copies(training);
        training->is_updating = true; /* a rank that is lost meanwhile leaves parts of two states */
        status = state_layout_read(layout, checkpoint, has_path ? path : NULL, &speaks, error);
    }
    if (status == WEFT_OK && finding.found) {
        training->is_updating = false;
        training->steps = finding.steps;
        training->has_values = true;
        training_remember_checkpoint(training, name, finding.steps);
        name = NULL;
    }
    *found = finding.found;
    free(name);
    checkpoint_close(checkpoint);
    state_layout_close(layout);
    return status;
}

weft_status weft_training_load(weft_training *training, const char *directory, bool *found)
{
    struct error error = {0};
    bool speaks, there = false;
    weft_status status = training_check_started(training, "weft_training_load()", &error);
    status = agreement_reach(training->context, training->comm, status, &error, &speaks);
    if (status == WEFT_OK)
        status = training_load_checkpoint(training, directory, UINT64_MAX, &there, &error);
    if (status == WEFT_OK && there && training->bf16_values)
        status = weft_training_keep_bf16(training, training->bf16_values);
    if (status == WEFT_OK)
        *found = there;
    return status == WEFT_OK || error.status ? training_note_error(training, status, &error) : status;
}
