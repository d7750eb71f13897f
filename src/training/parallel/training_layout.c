/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flat array of a training, cut into segments and groups.
 *
 * The flat array has every parameter at a multiple of 16 elements. Under ZeRO-2 and 3 segments also begin at multiples of
 * DEVICE_SQUARES_BLOCK: then the slices of a group, which are whole blocks, are made of whole blocks of segments, and a
 * block's sum of squares has the same bits whichever rank computes it, in any layout.
 */
#include "training/parallel/training.h"

#include <stdlib.h>

#define GROUPS_MOST 256

/* ---- segments ---- */

/* Cut by counts alone, so that all layouts have the same segments. */
static void cut_segments(weft_training *training)
{
    const struct model_description *description = &training->description;
    size_t small = 0; /* elements of small parameters in the current segment */
    for (uint32_t i = 0; i < description->parameter_count; i++) {
        const size_t count = description->parameters[i].count;
        if (i == 0 || count >= DEVICE_SQUARES_BLOCK || small >= DEVICE_SQUARES_BLOCK) {
            training->segments[training->segment_count++] = (struct training_segment){.parameter = i, .frozen = true};
            small = 0;
        }
        small += count < DEVICE_SQUARES_BLOCK ? count : 0;
        struct training_segment *segment = &training->segments[training->segment_count - 1];
        segment->parameter_count++;
        segment->frozen &= description->parameters[i].frozen;
    }
}

/* Let segments begin with blocks: they are laid out like the groups of a network. */
static weft_status lay_out_in_blocks(weft_training *training, struct error *error)
{
    struct model_description *description = &training->description;
    struct model_group *groups = calloc(training->segment_count, sizeof *groups);
    if (!groups)
        return error_memory(error, training->segment_count * sizeof *groups, "the layout of parameters");
    for (uint32_t s = 0; s < training->segment_count; s++) {
        groups[s].parameter = training->segments[s].parameter;
        groups[s].parameter_count = training->segments[s].parameter_count;
    }
    description->groups = groups;
    description->group_count = training->segment_count;
    model_lay_out_parameters(description);
    description->groups = NULL;
    description->group_count = 0;
    free(groups);
    return WEFT_OK;
}

static void place_segments(weft_training *training)
{
    const struct model_parameter *parameters = training->description.parameters;
    for (uint32_t s = 0; s < training->segment_count; s++) {
        struct training_segment *segment = &training->segments[s];
        const struct model_parameter *first = &parameters[segment->parameter],
                                     *last = first + segment->parameter_count - 1;
        segment->offset = first->offset;
        segment->count = last->offset + (last->count + 15) / 16 * 16 - first->offset;
        segment->block = training->blocks;
        training->blocks += tree_blocks(segment->count);
    }
}

/* ---- groups ---- */

/* Cut from the end, as a backward pass goes. Frozen segments have groups of their own, which are not reduced. */
static void list_groups(weft_training *training)
{
    const size_t elements = training->description.elements, least = (elements + GROUPS_MOST - 1) / GROUPS_MOST,
                 wanted = training->config.bucket_bytes / weft_type_size(training->config.gradient_type);
    struct training_group *group = NULL;
    size_t end = elements;
    for (uint32_t s = training->segment_count; s-- > 0;) {
        const struct training_segment *segment = &training->segments[s];
        if (!group || segment->frozen != group->range.frozen ||
            group->range.count >= (wanted > least ? wanted : least)) {
            group = &training->groups[training->group_count];
            group->range = (struct group_range){.turn = training->group_count++, .frozen = segment->frozen};
        }
        group->segment = s;
        group->segment_count++;
        group->parameter = segment->parameter;
        group->parameter_count += segment->parameter_count;
        group->range.offset = segment->offset;
        group->range.count += end - segment->offset;
        end = segment->offset;
    }
    for (uint32_t g = 0; g < training->group_count; g++) {
        group = &training->groups[g];
        training->order[g] = group;
        group->waiting = group->parameter_count;
        for (uint32_t i = 0; i < group->parameter_count; i++)
            training->group_of[group->parameter + i] = g;
    }
}

weft_status training_lay_out(weft_training *training, struct error *error)
{
    const size_t count = training->description.parameter_count;
    weft_status status = WEFT_OK;
    training->segments = calloc(count, sizeof *training->segments);
    training->groups = calloc(count, sizeof *training->groups);
    training->order = calloc(count, sizeof(struct training_group *));
    training->positions = calloc(count, sizeof *training->positions);
    training->group_of = calloc(count, sizeof *training->group_of);
    training->ready = calloc(count, sizeof *training->ready);
    training->missing = calloc(count, sizeof *training->missing);
    if (!training->segments || !training->groups || !training->order || !training->positions || !training->group_of ||
        !training->ready || !training->missing)
        return error_memory(error, count * sizeof *training->groups, "groups of parameters");
    model_lay_out_parameters(&training->description);
    cut_segments(training);
    if (training_sums_slices(training))
        status = lay_out_in_blocks(training, error);
    if (status != WEFT_OK)
        return status;
    place_segments(training);
    list_groups(training);
    return WEFT_OK;
}
