/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and moments of this rank, tensor by tensor. */
#include "training/parallel/execute/internal/executor_parts.h"
#include "training/parallel/value_pieces.h"

#include <stdlib.h>

float *executor_flat_values(struct executor *executor)
{
    return executor->pipeline == 1 && executor->tensor == 1 ? value_groups_flat(executor->values) : NULL;
}

/* A parameter that is divided over the tensor axis is in several ranges of the whole tensor. */
static void append_parameter(struct executor *executor, uint32_t group, uint32_t parameter, struct state_pieces *pieces)
{
    const struct model_description *description = executor->description;
    const size_t offset = description->parameters[parameter].offset - description->groups[group].offset;
    for (size_t r = 0; r < model_range_count(description, parameter); r++) {
        const struct model_range range = model_get_range(description, parameter, r);
        const size_t before = pieces->count;
        if (range.count)
            value_pieces_append(executor->values, group, parameter, offset + range.local, range.count, pieces);
        for (size_t i = before; i < pieces->count; i++)
            pieces->pieces[i].first += range.first;
    }
}

weft_status executor_state_pieces(struct executor *executor, const struct model_description *whole,
                                  struct state_pieces *pieces, struct error *error)
{
    const struct model_description *description = executor->description;
    size_t room = 1;
    for (size_t i = 0; i < description->parameter_count; i++)
        room += 2 * model_range_count(description, i); /* values and moments may be cut differently */
    *pieces = (struct state_pieces){.description = whole, .pieces = calloc(room, sizeof *pieces->pieces)};
    if (!pieces->pieces)
        return error_memory(error, room * sizeof *pieces->pieces, "the pieces of a state");
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        for (size_t i = group->parameter; group->count && i < group->parameter + group->parameter_count; i++)
            append_parameter(executor, g, (uint32_t)i, pieces);
    }
    return WEFT_OK;
}
