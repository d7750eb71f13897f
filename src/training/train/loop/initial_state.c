/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/internal/initial_state.h"

#include "base/library_error.h"
#include "base/text.h"
#include "training/checkpoint/copy.h"
#include "training/parallel/state_transfer.h"
#include "training/train/loop/internal/trainer_parts.h"
#include "training/train/loop/run_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void initial_state_clear(struct trainer *trainer)
{
    trainer->state = (struct training_state){.description = trainer->description,
                                             .layout = trainer->world.layout,
                                             .kernels = kernel_set_names[trainer->kernels.set],
                                             .text = &trainer->text,
                                             .data = &trainer->identity,
                                             .source = trainer->source};
    if (trainer->config.activations == WEFT_F16)
        trainer->state.loss_scale.scale = LOSS_SCALE_FIRST;
}

/* Rank 0. */
static weft_status find_whole_checkpoint(struct trainer *trainer, const char *directory, char found[FILE_PATH_BYTES],
                                         struct error *error)
{
    const struct train_config *config = &trainer->config;
    char warning[CHECKPOINT_WARNING_BYTES];
    if (strlen(directory) >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' of a checkpoint is too long", directory);
    const weft_status status =
        checkpoint_choose(directory, config->checkpoint_copy, found, warning, &trainer->verified, error);
    if (status == WEFT_OK && *warning && config->warnings) {
        fprintf(config->warnings, "weft: warning: %s\n", warning);
        fflush(config->warnings);
    }
    return status;
}

weft_status initial_state_find(struct trainer *trainer, const char *directory, char found[FILE_PATH_BYTES],
                               bool *speaks, struct error *error)
{
    char chosen[FILE_PATH_BYTES] = "";
    weft_status status = WEFT_OK;
    if (trainer->world.rank == 0 && directory)
        status = find_whole_checkpoint(trainer, directory, chosen, error);
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = library_error(trainer->context, weft_broadcast(chosen, sizeof chosen, WEFT_U8, 0, trainer->world.comm),
                               error);
    if (status == WEFT_OK)
        memcpy(found, chosen, sizeof chosen);
    return status;
}

static weft_status load_checkpoint(struct trainer *trainer, const char *directory, bool *speaks, struct error *error)
{
    weft_status status = training_state_load(&trainer->state, &trainer->config, directory, &trainer->verified,
                                             trainer->changes, speaks, error);
    trainer->agreed = status != WEFT_OK;
    return status;
}

/* Initial values are functions of the seed and the place of an element: every rank computes its own. Under ZeRO-3 a group is
 * computed where it will be gathered, because there may be no room for all of them. */
static weft_status initialize_weights(struct trainer *trainer, struct error *error)
{
    const uint64_t seed = (uint64_t)trainer->config.seed;
    const struct model_description *own = trainer->world.own;
    struct value_groups *groups = executor_values(trainer->world.executor);
    float *flat = value_groups_flat(groups);
    weft_status status = WEFT_OK;
    if (flat)
        return model_initialize(own, trainer->device, flat, seed, error);
    for (uint32_t g = 0; status == WEFT_OK && g < own->group_count; g++) {
        float *values = value_groups_values(groups, g, 0, 0);
        if (!own->groups[g].count)
            continue;
        status = model_initialize_group(own, trainer->device, g, values, seed, error);
        value_groups_store(groups, g, values);
    }
    return status;
}

#define WHY_BYTES 192

/* Why the classifier of a network that begins with weights is new: they have another head, or learned other classes.
 * Empty: it is not. */
static const char *find_new_head(const struct trainer *trainer, char text[WHY_BYTES])
{
    const struct pretrained *pretrained = trainer->config.pretrained;
    const struct model_shape *learned = pretrained_shape(pretrained);
    const size_t classes = trainer->description->shape.classes,
                 other = run_data_other_class(pretrained_class_names(pretrained), trainer->source);
    *text = '\0';
    if (pretrained_lacks_head(pretrained, trainer->description) && learned && learned->classes)
        snprintf(text, WHY_BYTES, "the weights have %zu classes, and the data has %zu", learned->classes, classes);
    else if (pretrained_lacks_head(pretrained, trainer->description))
        snprintf(text, WHY_BYTES, "the weights have another head");
    else if (classes && other < sample_source_classes(trainer->source))
        snprintf(text, WHY_BYTES, "class %zu is '%.60s' in the weights and '%.60s' in the data", other,
                 cJSON_GetStringValue(cJSON_GetArrayItem(pretrained_class_names(pretrained), (int)other)),
                 sample_source_class_name(trainer->source, other));
    return text_printable(text);
}

/* The whole network's weights; where the classifier is new, it has initial values. */
static weft_status read_pretrained_values(struct trainer *trainer, float *values, struct error *error)
{
    const struct pretrained *pretrained = trainer->config.pretrained;
    const struct model_description *whole = trainer->description;
    char changes[1024], why[WHY_BYTES];
    weft_status status = WEFT_OK;
    if (!*find_new_head(trainer, why))
        return pretrained_read(pretrained, whole, values, error);
    status = model_initialize(whole, trainer->device, values, (uint64_t)trainer->config.seed, error);
    if (status == WEFT_OK)
        status = pretrained_read_body(pretrained, whole, values, error);
    if (status == WEFT_OK && trainer->config.warnings) {
        fprintf(trainer->config.warnings, "weft: %s: %s\n", why,
                pretrained_head_changes(pretrained, whole, changes, sizeof changes));
        fflush(trainer->config.warnings);
    }
    return status;
}

/* Rank 0 reads the weights to begin with, and sends every rank its own. */
static weft_status read_pretrained(struct trainer *trainer, bool *speaks, struct error *error)
{
    const struct model_description *whole = trainer->description;
    float *values = NULL;
    weft_status status = WEFT_OK;
    if (trainer->world.rank == 0) {
        values = calloc(whole->elements, sizeof *values);
        status = values ? read_pretrained_values(trainer, values, error)
                        : error_memory(error, whole->elements * sizeof *values, "the weights to begin with");
    }
    status = trainer_agree(trainer, status, speaks, error);
    if (status == WEFT_OK)
        status = state_layout_scatter_values(trainer->world.layout, whole, values, error);
    free(values);
    return status;
}

weft_status initial_state_set(struct trainer *trainer, const char *directory, bool *speaks, struct error *error)
{
    uint32_t from = trainer->world.rank == 0 && trainer->config.pretrained;
    weft_status status =
        library_error(trainer->context, weft_broadcast(&from, 1, WEFT_U32, 0, trainer->world.comm), error);
    if (status != WEFT_OK)
        return status;
    if (directory)
        status = load_checkpoint(trainer, directory, speaks, error);
    else if (from)
        status = read_pretrained(trainer, speaks, error);
    else
        status = trainer_agree(trainer, initialize_weights(trainer, error), speaks, error);
    if (status == WEFT_OK)
        value_groups_changed(executor_values(trainer->world.executor));
    return status;
}
