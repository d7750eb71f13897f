/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/shapes.h"

#include <stdlib.h>

#define ROOM_FIRST 64 /* cells */

/* The cell that holds this shape, or the empty one where it belongs. */
static struct gang *shapes_cell_of(struct gang *cells, uint32_t room, struct gang gang)
{
    const uint64_t key = ((uint64_t)gang.nodes << 17) | ((uint64_t)gang.slots << 1) | gang.spans;
    uint32_t at = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (room - 1);
    while (cells[at].nodes && !gang_equal(cells[at], gang))
        at = (at + 1) & (room - 1);
    return &cells[at];
}

static bool shapes_grow(struct shapes *shapes)
{
    const uint32_t room = shapes->room ? 2 * shapes->room : ROOM_FIRST;
    struct gang *cells = calloc(room, sizeof *cells);
    if (!cells)
        return false;
    for (uint32_t i = 0; i < shapes->room; i++)
        if (shapes->cells[i].nodes)
            *shapes_cell_of(cells, room, shapes->cells[i]) = shapes->cells[i];
    free(shapes->cells);
    shapes->cells = cells;
    shapes->room = room;
    return true;
}

bool shapes_have(const struct shapes *shapes, struct gang gang)
{
    return shapes->count && shapes_cell_of(shapes->cells, shapes->room, gang)->nodes;
}

void shapes_add(struct shapes *shapes, struct gang gang)
{
    if (2 * (shapes->count + 1) > shapes->room && !shapes_grow(shapes))
        return;
    struct gang *cell = shapes_cell_of(shapes->cells, shapes->room, gang);
    shapes->count += !cell->nodes;
    *cell = gang;
}

void shapes_clear(struct shapes *shapes)
{
    for (uint32_t i = 0; i < shapes->room && shapes->count; i++)
        shapes->cells[i].nodes = 0;
    shapes->count = 0;
}

void shapes_free(struct shapes *shapes)
{
    free(shapes->cells);
    *shapes = (struct shapes){0};
}
