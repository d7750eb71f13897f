/* SPDX-License-Identifier: Apache-2.0 */
/* The weights and moments of a training: where they are, and how ranks get them. */
#include "training/parallel/training.h"

#include "base/library_error.h"
#include "training/parallel/agreement.h"
#include "training/parallel/value_pieces.h"

#include <stdlib.h>

/* ---- opening ---- */

/* Under ZeRO-0 and 1 everything is one group, so that a rank's moments are one range of the flat array. */
uint32_t training_value_groups(const weft_training *training)
{
    return training_sums_slices(training) ? training->group_count : 1;
}

struct group_range training_value_range(const weft_training *training, uint32_t group)
{
    return training_sums_slices(training) ? training->groups[group].range
                                          : (struct group_range){.count = training->description.elements};
}

weft_status training_open_values(weft_training *training, struct error *error)
{
    const uint32_t count = training_value_groups(training);
    struct group_range *ranges = calloc(count, sizeof *ranges);
    for (uint32_t g = 0; ranges && g < count; g++)
        ranges[g] = training_value_range(training, g);
    const struct value_groups_config config = {
        .context = training->context,
        .comm = training->comm,
        .device = training->device,
        .ranges = ranges,
        .group_count = ranges ? count : 0,
        .elements = training->description.elements,
        .zero = training->zero,
        .second_moments =
            training->config.optimizer != WEFT_OPTIMIZER_OWN && optimizer_has_second_moments(training->optimizer.kind),
        .no_moments = training->config.optimizer == WEFT_OPTIMIZER_OWN,
        .former = training->former && !training->is_behind ? training->former->values : NULL,
    };
    weft_status status = value_groups_open(&config, &training->values, error);
    if (!ranges)
        status = error_memory(error, count * sizeof *ranges, "groups of weights");
    free(ranges);
    return status;
}

void training_close_values(weft_training *training)
{
    for (uint32_t g = 0; g < training->group_count; g++)
        weft_free(training->context, training->groups[g].values);
    value_groups_close(training->values);
}

/* ---- where values are ---- */

float *weft_training_values(weft_training *training, int parameter)
{
    if (!training->started || parameter < 0 || (size_t)parameter >= training->description.parameter_count)
        return NULL;
    const uint32_t index = training->index_of[parameter];
    const size_t offset = training->description.parameters[index].offset;
    const struct training_group *group = &training->groups[training->group_of[index]];
    if (!training_gathers(training))
        return value_groups_flat(training->values) + offset;
    return group->values ? group->values + (offset - group->range.offset) : NULL;
}

weft_status training_list_pieces(const weft_training *training, struct state_pieces *pieces, struct error *error)
{
    const struct model_description *description = &training->description;
    const size_t room = 2 * description->parameter_count;
    *pieces = (struct state_pieces){.description = description, .pieces = calloc(room, sizeof *pieces->pieces)};
    if (!pieces->pieces)
        return error_memory(error, room * sizeof *pieces->pieces, "a list of pieces");
    for (uint32_t i = 0; i < description->parameter_count; i++) {
        const uint32_t group = training_sums_slices(training) ? training->group_of[i] : 0;
        const struct model_parameter *parameter = &description->parameters[i];
        value_pieces_append(training->values, group, i,
                            parameter->offset - training_value_range(training, group).offset, parameter->count, pieces);
    }
    return WEFT_OK;
}

weft_status training_open_layout(const weft_training *training, struct state_layout **layout, struct error *error)
{
    struct state_pieces pieces = {0};
    bool speaks;
    weft_status status = training_list_pieces(training, &pieces, error);
    status = agreement_reach(training->context, training->comm, status, error, &speaks);
    if (status == WEFT_OK)
        status = state_layout_open(training->context, training->comm, &pieces, layout, &speaks, error);
    free(pieces.pieces);
    return status;
}

weft_status weft_training_get_arrays(weft_training *training, weft_training_arrays *arrays)
{
    struct error error = {0};
    if (!training->started)
        return training_note_error(
            training, error_set(&error, WEFT_ERROR_STATE, "there are no arrays before weft_training_start()"), &error);
    *arrays = (weft_training_arrays){.elements = training->description.elements,
                                     .values = value_groups_flat(training->values),
                                     .gradients = training_flat_gradients(training)};
    if (!training_sums_slices(training)) {
        const struct value_slice slice = value_groups_slice(training->values, 0);
        arrays->first = slice.first;
        arrays->count = slice.count;
        arrays->first_moments = slice.first_moments;
        arrays->second_moments = slice.second_moments;
    }
    return WEFT_OK;
}

/* ---- ZeRO-3 ---- */

weft_status weft_training_gather(weft_training *training, int parameter)
{
    struct error error = {0};
    weft_status status =
        training_check_number(training, parameter, training->description.parameter_count, "parameter", &error);
    if (status != WEFT_OK || !training_gathers(training))
        return training_note_error(training, status, &error);
    const uint32_t number = training->group_of[training->index_of[parameter]];
    struct training_group *group = &training->groups[number];
    if (!group->values) {
        training_start_before_gather(training);
        group->values = weft_alloc(training->context, group->range.count * sizeof *group->values);
        status = group->values ? value_groups_gather(training->values, number, group->values, &error)
                               : library_error(training->context, WEFT_ERROR_MEMORY, &error);
    }
    group->users += status == WEFT_OK;
    return training_note_error(training, status, &error);
}

static void drop_values(weft_training *training, struct training_group *group)
{
    weft_free(training->context, group->values);
    group->values = NULL;
    group->users = 0;
}

weft_status weft_training_release(weft_training *training, int parameter)
{
    struct error error = {0};
    weft_status status =
        training_check_number(training, parameter, training->description.parameter_count, "parameter", &error);
    if (status != WEFT_OK || !training_gathers(training))
        return training_note_error(training, status, &error);
    struct training_group *group = &training->groups[training->group_of[training->index_of[parameter]]];
    if (group->users <= 1)
        drop_values(training, group);
    else
        group->users--;
    return WEFT_OK;
}

/* ---- the same values on all ranks ---- */

/* The values of a group that this rank has in whole; NULL: none. */
static float *whole_values(weft_training *training, uint32_t group)
{
    return training_gathers(training) ? training->groups[group].values
                                      : value_groups_values(training->values, group, UINT32_MAX, 0);
}

weft_status weft_training_share(weft_training *training)
{
    struct error error = {0};
    weft_status status = training_check_started(training, "weft_training_share()", &error);
    for (uint32_t g = 0; status == WEFT_OK && g < training_value_groups(training); g++) {
        float *whole = whole_values(training, g);
        const size_t count = training_value_range(training, g).count;
        if (whole)
            status =
                library_error(training->context, weft_broadcast(whole, count, WEFT_F32, 0, training->comm), &error);
        if (whole && status == WEFT_OK && training_gathers(training))
            value_groups_store(training->values, g, whole);
    }
    training->has_values |= status == WEFT_OK;
    if (status == WEFT_OK && training->bf16_values)
        return weft_training_keep_bf16(training, training->bf16_values);
    return training_note_error(training, status, &error);
}

/* ---- the copy in bf16 ---- */

weft_status weft_training_keep_bf16(weft_training *training, uint16_t *copy)
{
    struct error error = {0};
    struct device *device = training->device;
    weft_status status = training_check_started(training, "weft_training_keep_bf16()", &error);
    if (status == WEFT_OK && copy && training_gathers(training))
        status = error_set(&error, WEFT_ERROR_STATE,
                           "a copy of all values needs all values, which no rank has under ZeRO-3; use zero 0, 1 or 2");
    if (status != WEFT_OK)
        return training_note_error(training, status, &error);
    training->bf16_values = copy;
    if (copy)
        device->to_activations(device, training->description.elements, value_groups_flat(training->values), copy);
    return training_note_error(training, device->finish(device, &error), &error);
}

/* Update the copy of the other ranks' slices. */
static void cast_other_slices(weft_training *training)
{
    struct device *device = training->device;
    for (uint32_t g = 0; g < training_value_groups(training); g++) {
        const struct group_range range = training_value_range(training, g);
        const struct value_slice slice = value_groups_slice(training->values, g);
        const size_t end = slice.first + slice.count;
        const float *values = value_groups_flat(training->values) + range.offset;
        uint16_t *copy = training->bf16_values + range.offset;
        device->to_activations(device, slice.first, values, copy);
        device->to_activations(device, range.count - end, values + end, copy + end);
    }
}

/* ---- after an update ---- */

weft_status training_values_updated(weft_training *training, struct error *error)
{
    const uint32_t count = training_value_groups(training);
    const bool shares = training->zero == 1 || training->zero == 2;
    weft_status status = WEFT_OK;
    for (uint32_t g = 0; training_gathers(training) && g < count; g++)
        drop_values(training, &training->groups[g]);
    for (uint32_t g = 0; shares && status == WEFT_OK && g < count; g++)
        status = value_groups_share_start(training->values, g, error);
    for (uint32_t g = 0; shares && status == WEFT_OK && g < count; g++)
        status = value_groups_share_finish(training->values, g, error);
    if (status == WEFT_OK && shares && training->bf16_values)
        cast_other_slices(training);
    return status == WEFT_OK ? training->device->finish(training->device, error) : status;
}
