/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and moments of this rank, tensor by tensor. */
#include "training/parallel/execute/internal/executor_parts.h"
#include "training/parallel/value_pieces.h"

#include <stdlib.h>

float *executor_flat_values(struct executor *executor)
{
    return executor->pipeline == 1 ? value_groups_flat(executor->values) : NULL;
}

weft_status executor_state_pieces(struct executor *executor, struct state_pieces *pieces, struct error *error)
{
    const struct model_description *description = executor->description;
    const size_t room = 2 * description->parameter_count;
    *pieces = (struct state_pieces){.description = description, .pieces = calloc(room, sizeof *pieces->pieces)};
    if (!pieces->pieces)
        return error_memory(error, room * sizeof *pieces->pieces, "the pieces of a state");
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        for (size_t i = group->parameter; group->count && i < group->parameter + group->parameter_count; i++)
            value_pieces_append(executor->values, g, (uint32_t)i, description->parameters[i].offset - group->offset,
                                description->parameters[i].count, pieces);
    }
    return WEFT_OK;
}
