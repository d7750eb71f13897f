/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/format/shape.h"

uint32_t shape_levels(const struct schedule_shape *shape)
{
    uint32_t levels = shape->nodes ? 1 : 0;
    while (levels && levels <= SHAPE_LEVELS && shape->above[levels - 1])
        levels++;
    return levels;
}

uint32_t shape_unit(const struct schedule_shape *shape, uint32_t level, uint32_t rank)
{
    uint32_t unit = shape_node(shape, rank);
    for (uint32_t i = 0; i < level; i++)
        unit = shape->above[i][unit];
    return unit;
}

uint32_t shape_units(const struct schedule_shape *shape, uint32_t level)
{
    uint32_t units = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        uint32_t unit = shape_unit(shape, level, rank);
        if (unit >= units)
            units = unit + 1;
    }
    return units;
}
