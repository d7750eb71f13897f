/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and moments of this rank, tensor by tensor. */
#include "training/parallel/execute/internal/executor_parts.h"

#include <stdlib.h>

float *executor_flat_values(struct executor *executor)
{
    return executor->pipeline == 1 ? value_groups_flat(executor->values) : NULL;
}

/* The part of a parameter that lies in elements [first, first + count) of its group; false: none. */
static bool piece_within(const struct model_group *group, const struct model_parameter *parameter, size_t first,
                         size_t count, struct state_piece *piece, size_t *offset)
{
    const size_t begin = parameter->offset - group->offset, end = begin + parameter->count;
    const size_t from = begin > first ? begin : first, to = end < first + count ? end : first + count;
    if (from >= to)
        return false;
    piece->first = from - begin;
    piece->count = to - from;
    *offset = from - first;
    return true;
}

/* A piece with values, where the rank has them whole, and one with moments; or one with both. */
static void list_parameter(struct executor *executor, uint32_t number, uint32_t parameter, struct state_pieces *pieces)
{
    const struct model_description *description = executor->description;
    const struct model_group *group = &description->groups[number];
    const struct model_parameter *described = &description->parameters[parameter];
    const struct value_slice slice = value_groups_slice(executor->values, number);
    struct state_piece piece = {.parameter = parameter};
    size_t offset;
    if (!executor_gathers(executor) && executor->config.zero) {
        float *whole = value_groups_values(executor->values, number, STEP_NONE, 0);
        pieces->pieces[pieces->count++] = (struct state_piece){
            .parameter = parameter, .count = described->count, .values = whole + described->offset - group->offset};
    }
    if (!piece_within(group, described, slice.first, slice.count, &piece, &offset))
        return;
    if (executor_gathers(executor) || !executor->config.zero)
        piece.values = slice.values + offset;
    piece.first_moments = slice.first_moments + offset;
    piece.second_moments = slice.second_moments ? slice.second_moments + offset : NULL;
    pieces->pieces[pieces->count++] = piece;
}

weft_status executor_state_pieces(struct executor *executor, struct state_pieces *pieces, struct error *error)
{
    const struct model_description *description = executor->description;
    const size_t room = 2 * description->parameter_count;
    *pieces = (struct state_pieces){.description = description, .pieces = calloc(room, sizeof *pieces->pieces)};
    if (!pieces->pieces)
        return error_memory(error, room * sizeof *pieces->pieces, "the pieces of a state");
    for (uint32_t g = 0; g < description->group_count; g++)
        for (size_t i = 0; description->groups[g].count && i < description->groups[g].parameter_count; i++)
            list_parameter(executor, g, (uint32_t)(description->groups[g].parameter + i), pieces);
    return WEFT_OK;
}
