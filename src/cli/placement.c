/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/placement.h"

#include <stdlib.h>

weft_status placement_of(uint32_t ranks, uint32_t nodes, uint32_t **placed, struct error *error)
{
    if (nodes > ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--nodes is %u, but there are only %u ranks to lie on them", nodes,
                         ranks);
    *placed = malloc(ranks * sizeof **placed);
    if (!*placed)
        return error_memory(error, ranks * sizeof **placed, "the nodes of ranks");
    for (uint32_t rank = 0; rank < ranks; rank++)
        (*placed)[rank] = (uint32_t)((uint64_t)rank * nodes / ranks);
    return WEFT_OK;
}
