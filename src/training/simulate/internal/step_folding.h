/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks, units and groups while they are being folded: what step_fold.c and step_channels.c share. */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_STEP_FOLDING_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_STEP_FOLDING_H

#include "training/simulate/internal/step_fold.h"

struct folding {
    const struct step_costs *costs;
    const struct step_options *options;
    struct step_fold *fold;
    uint32_t ranks;
    uint32_t *unit_of[STEP_LINK_LEVELS]; /* of each rank: itself, its interface, its leaf, its pod */
    uint32_t unit_count[STEP_LINK_LEVELS];
    uint32_t *color;                        /* of each rank: a number below `colors` */
    uint32_t *unit_color[STEP_LINK_LEVELS]; /* of each unit */
    uint32_t *members;          /* of each rank: of its group on an axis, how many are in its unit of a level */
    uint32_t *turns;            /* of each rank: its turn among those whose messages leave its interface */
    uint32_t *neighbors;        /* of each rank: the next and the previous one of the pipeline */
    uint32_t *lists[MESH_AXES]; /* of each group of an axis: its ranks */
    uint64_t *hashes, *unit_hashes;
    struct error *error;
};

enum { NEXT, PREVIOUS, NEIGHBORS };

static inline uint32_t step_cluster_interfaces(const struct step_cluster *cluster)
{
    return cluster->links->interfaces ? cluster->links->interfaces : 1;
}

static inline uint32_t folding_coordinate(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return folding->costs->points[(size_t)rank * MESH_AXES + axis];
}

static inline uint32_t folding_group(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return folding->costs->groups[axis][rank];
}

static inline uint32_t *folding_members(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return &folding->members[((size_t)rank * MESH_AXES + axis) * STEP_LINK_LEVELS];
}

static inline const uint32_t *folding_list(const struct folding *folding, uint32_t group, enum mesh_axis axis)
{
    return folding->lists[axis] + (size_t)group * folding->costs->mesh.extent[axis];
}

/** Whether the degraded links are those of a rank's host, leaf or pod. */
bool folding_is_degraded(const struct folding *folding, uint32_t rank);

/** Whether a rank has a channel of that kind: it sends such messages, or belongs to such a group. */
bool folding_has_channel(const struct folding *folding, uint32_t rank, enum step_channel_kind kind);

/** When all is colored: the resources, the channels, and what each channel takes of the resources. Errors: MEMORY. */
weft_status folding_list_channels(struct folding *folding);

#endif
