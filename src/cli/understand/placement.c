/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/placement.h"

#include "core/topology/cluster_name.h"

#define RANKS_MOST 65536

weft_status placement_open(struct placement *placement, const struct placement_options *options, struct error *error)
{
    *placement = (struct placement){0};
    weft_status status = WEFT_OK;
    if (options->cluster)
        status = cluster_name_load(options->cluster, &placement->file, error);
    if (status != WEFT_OK)
        return status;
    uint64_t all = placement->file.level_count ? cluster_file_ranks(&placement->file) : 4;
    if (!options->ranks && (!all || all > RANKS_MOST))
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           all ? "%s describes more than %d ranks: say how many with --ranks"
                               : "%s does not say how many ranks there are (its outermost level has no size; at most "
                                 "%d are shown): say it with --ranks",
                           options->cluster, RANKS_MOST);
    placement->ranks = options->ranks ? (uint32_t)options->ranks : (uint32_t)all;
    uint32_t nodes = options->nodes ? (uint32_t)options->nodes : placement->file.level_count ? 0 : 1;
    if (status == WEFT_OK)
        status = cluster_map_ranks(placement->file.level_count ? &placement->file : NULL, placement->ranks, nodes,
                                   &placement->map, error);
    if (status != WEFT_OK)
        placement_close(placement);
    return status;
}

void placement_close(struct placement *placement)
{
    cluster_file_free(&placement->file);
    cluster_map_free(&placement->map);
}

void placement_apply(const struct placement *placement, struct schedule_shape *shape)
{
    shape->ranks = placement->ranks;
    shape->nodes = placement->map.nodes;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        shape->above[level] = placement->map.above[level];
}
