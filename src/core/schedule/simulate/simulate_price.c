/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/simulate_price.h"

#include <stdlib.h>
#include <string.h>

/* ---- groups ---- */

#define UNNUMBERED UINT32_MAX

weft_status simulate_group_open(const struct schedule_shape *world, const uint32_t *members, uint32_t count,
                                struct schedule_shape *group, struct error *error)
{
    uint32_t levels = shape_levels(world), units[SIMULATED_UNITS] = {count}, most = world->ranks;
    *group = *world;
    group->ranks = count;
    group->nodes = group->above[0] = group->above[1] = NULL;
    if (!levels)
        return WEFT_OK;
    size_t bytes = ((size_t)levels * count + most) * sizeof(uint32_t);
    uint32_t *maps = malloc(bytes);
    if (!maps)
        return error_memory(error, bytes, "the places of a group");
    uint32_t *numbers = maps + (size_t)levels * count;
    group->nodes = maps;
    /* maps[level][u]: the unit of `level` that contains unit u of the level below, or the member u. */
    for (uint32_t level = 0; level < levels; level++) {
        uint32_t *map = maps + (size_t)level * count;
        memset(numbers, 0xff, most * sizeof *numbers);
        if (level)
            group->above[level - 1] = map;
        uint32_t below = 0;
        for (uint32_t member = 0; member < count; member++) {
            uint32_t unit = shape_unit(world, level, members[member]);
            if (numbers[unit] == UNNUMBERED)
                numbers[unit] = units[level + 1]++;
            uint32_t of = member;
            if (level) /* the group's number of the unit below */
                of = shape_unit(group, level - 1, member);
            if (of == below) {
                map[of] = numbers[unit];
                below++;
            }
        }
    }
    return WEFT_OK;
}

void simulate_group_close(struct schedule_shape *group)
{
    free((void *)group->nodes);
    group->nodes = NULL;
}

/* ---- prices ---- */

/*
 * What is left to one of `alike` equal groups.
 * Where the nodes have an interface for every rank of all groups, the groups do not meet there.
 */
static struct simulated_cluster cluster_share(const struct simulated_cluster *cluster,
                                              const struct schedule_shape *shape, uint32_t alike)
{
    struct simulated_cluster share = *cluster;
    uint32_t interfaces = cluster->interfaces ? cluster->interfaces : 1, nodes = shape_units(shape, 0);
    uint32_t each = (shape->ranks + nodes - 1) / nodes; /* ranks of the group on a node */
    if ((uint64_t)each * alike > interfaces) {
        share.far.bandwidth /= alike;
        share.interfaces = interfaces > alike ? interfaces / alike : 1;
    }
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        share.above[level].bandwidth /= alike;
    return share;
}

weft_status simulate_price(const struct simulated_cluster *cluster, const struct schedule_shape *shape, uint32_t alike,
                           struct simulated_price *price, struct error *error)
{
    *price = (struct simulated_price){0};
    if (shape->ranks == 1)
        return WEFT_OK;
    struct simulated_cluster share = cluster_share(cluster, shape, alike ? alike : 1);
    struct simulated_report report = {0};
    weft_status status = simulate_choice(&share, shape, SIMULATED_RANKS, &price->algorithm, &report, error);
    price->seconds = report.seconds;
    price->busy = report.busy;
    memcpy(price->leaving, report.leaving, sizeof price->leaving);
    return status;
}
