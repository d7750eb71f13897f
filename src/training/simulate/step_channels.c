/* SPDX-License-Identifier: Apache-2.0 */
/* The channels of classes, and the links that they share. */
#include "training/simulate/internal/step_folding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- resources ---- */

/* Bytes/s of one direction (0: out) of a unit. Level 0: of a rank; an interface; the uplinks of a leaf, of a pod. */
static double unit_bandwidth(const struct folding *folding, uint32_t level, uint32_t rank, uint32_t way)
{
    const struct step_cluster *cluster = folding->costs->cluster;
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    double bandwidth = level == 0   ? cluster->links->near.bandwidth
                       : level == 1 ? cluster->links->far.bandwidth
                                    : cluster->links->above[level - 2].bandwidth;
    if (level == perturbation->degraded_level + 1 && folding_is_degraded(folding, rank))
        bandwidth *= perturbation->degraded_share;
    if (level == 1)
        bandwidth =
            (bandwidth - (way ? perturbation->reading : perturbation->writing)) / step_cluster_interfaces(cluster);
    return bandwidth > 0 ? bandwidth : INFINITY;
}

/* Resources of a level are numbered from first[level] on, two for each class of units. */
static weft_status list_resources(struct folding *folding, uint32_t first[STEP_LINK_LEVELS + 1])
{
    struct step_fold *fold = folding->fold;
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        uint32_t classes = 0;
        for (uint32_t unit = 0; unit < folding->unit_count[level]; unit++)
            classes = folding->unit_color[level][unit] >= classes ? folding->unit_color[level][unit] + 1 : classes;
        first[level] = fold->resource_count;
        fold->resource_count += 2 * classes;
    }
    first[STEP_LINK_LEVELS] = fold->resource_count;
    fold->capacity = calloc(fold->resource_count, sizeof *fold->capacity);
    fold->resource_level = calloc(fold->resource_count, sizeof *fold->resource_level);
    fold->resource_units = calloc(fold->resource_count, sizeof *fold->resource_units);
    if (!fold->capacity || !fold->resource_level || !fold->resource_units)
        return error_memory(folding->error, fold->resource_count * sizeof *fold->capacity, "the links of a cluster");
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        for (uint32_t unit = 0; unit < folding->unit_count[level]; unit++)
            for (uint32_t way = 0; way < 2; way++)
                fold->resource_units[first[level] + 2 * folding->unit_color[level][unit] + way]++;
        for (uint32_t rank = 0; rank < folding->ranks; rank++)
            for (uint32_t way = 0; way < 2; way++) {
                const uint32_t resource =
                    first[level] + 2 * folding->unit_color[level][folding->unit_of[level][rank]] + way;
                fold->resource_level[resource] = level;
                fold->capacity[resource] = unit_bandwidth(folding, level, rank, way);
            }
    }
    return WEFT_OK;
}

/* ---- channels ---- */

bool folding_has_channel(const struct folding *folding, uint32_t rank, enum step_channel_kind kind)
{
    const struct step_costs *costs = folding->costs;
    const uint32_t at = folding_coordinate(folding, rank, MESH_PIPELINE), pipeline = costs->shape.pipeline;
    switch (kind) {
    case CHANNEL_TO_NEXT:
        return pipeline > 1 && (at + 1 < pipeline || costs->shape.stages > pipeline);
    case CHANNEL_TO_PREVIOUS:
        return pipeline > 1 && (at > 0 || costs->shape.stages > pipeline);
    case CHANNEL_TIE:
        return costs->shape.tied && pipeline > 1 && at == 0;
    case CHANNEL_DATA:
        return costs->mesh.extent[MESH_DATA] > 1;
    default:
        return costs->mesh.extent[MESH_TENSOR] > 1;
    }
}

/* The rank at the other end of messages. */
static uint32_t rank_peer(const struct folding *folding, uint32_t rank, enum step_channel_kind kind)
{
    return folding->neighbors[rank * NEIGHBORS + (kind == CHANNEL_TO_NEXT ? NEXT : PREVIOUS)];
}

static bool is_group(enum step_channel_kind kind)
{
    return kind == CHANNEL_DATA || kind == CHANNEL_TENSOR;
}

static weft_status add_use(struct folding *folding, uint32_t channel_number, uint32_t resource, uint32_t level,
                           double weight)
{
    struct step_channel *channel = &folding->fold->channels[channel_number];
    for (uint32_t i = 0; i < channel->use_count; i++)
        if (channel->uses[i].resource == resource) {
            channel->uses[i].weight += weight;
            return WEFT_OK;
        }
    if (!(channel->use_count & (channel->use_count - 1))) { /* room for powers of two */
        struct step_use *more =
            realloc(channel->uses, (channel->use_count ? 2 * (size_t)channel->use_count : 1) * sizeof *more);
        if (!more)
            return error_memory(folding->error, channel->use_count * sizeof *more, "the links of a cluster");
        channel->uses = more;
    }
    channel->uses[channel->use_count++] = (struct step_use){resource, level, weight};
    return WEFT_OK;
}

static enum mesh_axis axis_of(enum step_channel_kind kind)
{
    return kind == CHANNEL_TENSOR ? MESH_TENSOR : MESH_DATA;
}

/* The channels of messages, one for each class that sends. */
static void list_message_channels(struct folding *folding, enum step_channel_kind kind)
{
    struct step_fold *fold = folding->fold;
    for (uint32_t class = 0; class < fold->class_count; class ++) {
        const uint32_t rank = fold->representative[class];
        if (!folding_has_channel(folding, rank, kind))
            continue;
        const uint32_t peer = rank_peer(folding, rank, kind);
        fold->channel_of[kind][class] = fold->channel_count;
        fold->channels[fold->channel_count++] =
            (struct step_channel){.kind = kind,
                                  .first_class = fold->channel_class_count,
                                  .class_count = 2,
                                  .turn_resource = STEP_NONE,
                                  .turn = folding->turns[rank],
                                  .level = step_cluster_level(folding->costs->cluster, rank, peer)};
        fold->channel_classes[fold->channel_class_count++] = class;
        fold->channel_classes[fold->channel_class_count++] = fold->class_of[peer];
    }
}

/* The channels of groups, one for all groups of the same classes. */
static void list_group_channels(struct folding *folding, enum step_channel_kind kind)
{
    struct step_fold *fold = folding->fold;
    const enum mesh_axis axis = axis_of(kind);
    const uint32_t extent = folding->costs->mesh.extent[axis];
    for (uint32_t group = 0; extent > 1 && group < folding->costs->group_count[axis]; group++) {
        const uint32_t *list = folding_list(folding, group, axis);
        if (fold->channel_of[kind][fold->class_of[list[0]]] != STEP_NONE)
            continue;
        struct step_channel *channel = &fold->channels[fold->channel_count];
        *channel = (struct step_channel){.kind = kind,
                                         .turn_resource = STEP_NONE,
                                         .first_class = fold->channel_class_count,
                                         .group_class = folding->costs->group_class[axis][group]};
        for (uint32_t i = 0; i < extent; i++) {
            const uint32_t class = fold->class_of[list[i]];
            if (fold->channel_of[kind][class] != STEP_NONE)
                continue;
            fold->channel_of[kind][class] = fold->channel_count;
            fold->channel_classes[fold->channel_class_count++] = class;
            channel->class_count++;
        }
        fold->channel_count++;
    }
}

static weft_status list_channels(struct folding *folding)
{
    struct step_fold *fold = folding->fold;
    const uint32_t classes = fold->class_count;
    fold->channels = calloc((size_t)classes * CHANNEL_KINDS, sizeof *fold->channels);
    fold->channel_classes = calloc((size_t)classes * CHANNEL_KINDS * 2, sizeof *fold->channel_classes);
    if (!fold->channels || !fold->channel_classes)
        return error_memory(folding->error, classes * sizeof *fold->channels, "the channels of a mesh");
    for (enum step_channel_kind kind = 0; kind < CHANNEL_KINDS; kind++) {
        fold->channel_of[kind] = malloc(classes * sizeof *fold->channel_of[kind]);
        if (!fold->channel_of[kind])
            return error_memory(folding->error, classes * sizeof *fold->channel_of[kind], "the channels of a mesh");
        memset(fold->channel_of[kind], 0xff, classes * sizeof *fold->channel_of[kind]);
        if (is_group(kind))
            list_group_channels(folding, kind);
        else
            list_message_channels(folding, kind);
    }
    return WEFT_OK;
}

/* Which rank is a unit's first, so that the unit stands for its class. */
static bool is_in_first_unit(const struct folding *folding, const uint32_t *first_unit, uint32_t level, uint32_t rank)
{
    const uint32_t unit = folding->unit_of[level][rank];
    return first_unit[folding->unit_color[level][unit]] == unit;
}

/* A member's part of what a collective sends from its unit; as much comes in. */
static weft_status add_group_use(struct folding *folding, uint32_t rank, uint32_t level, uint32_t resource,
                                 enum step_channel_kind kind)
{
    const uint32_t channel = folding->fold->channel_of[kind][folding->fold->class_of[rank]],
                   members = folding_members(folding, rank, axis_of(kind))[level];
    if (channel == STEP_NONE || members == folding->costs->mesh.extent[axis_of(kind)])
        return WEFT_OK; /* all members are in this unit */
    weft_status status = add_use(folding, channel, resource, level, 1.0 / members);
    return status == WEFT_OK ? add_use(folding, channel, resource + 1, level, 1.0 / members) : status;
}

/* A message from `sender` passes this unit, which its sender or its receiver is in. */
static weft_status add_message_use(struct folding *folding, uint32_t sender, uint32_t receiver, uint32_t unit,
                                   uint32_t level, uint32_t resource, enum step_channel_kind kind)
{
    const uint32_t differs = step_cluster_level(folding->costs->cluster, sender, receiver);
    if (!folding_has_channel(folding, sender, kind) || (level == 0 ? differs > 0 : level > differs))
        return WEFT_OK;
    const uint32_t channel = folding->fold->channel_of[kind][folding->fold->class_of[sender]];
    if (level == 1 && kind != CHANNEL_TIE && folding->unit_of[1][sender] == unit)
        folding->fold->channels[channel].turn_resource = resource;
    return add_use(folding, channel, resource, level, 1);
}

/* What the channels of a rank take of a unit at `level` that it is in; `resource` is the way out of it. */
static weft_status add_rank_uses(struct folding *folding, uint32_t rank, uint32_t level, uint32_t resource)
{
    const uint32_t unit = folding->unit_of[level][rank], *neighbors = &folding->neighbors[rank * NEIGHBORS],
                   next = neighbors[NEXT], previous = neighbors[PREVIOUS], pipeline = folding->costs->shape.pipeline;
    weft_status status = add_group_use(folding, rank, level, resource, CHANNEL_DATA);
    if (status == WEFT_OK)
        status = add_group_use(folding, rank, level, resource, CHANNEL_TENSOR);
    if (status == WEFT_OK)
        status = add_message_use(folding, rank, next, unit, level, resource, CHANNEL_TO_NEXT);
    if (status == WEFT_OK)
        status = add_message_use(folding, rank, previous, unit, level, resource, CHANNEL_TO_PREVIOUS);
    if (status == WEFT_OK)
        status = add_message_use(folding, previous, rank, unit, level, resource + 1, CHANNEL_TO_NEXT);
    if (status == WEFT_OK)
        status = add_message_use(folding, next, rank, unit, level, resource + 1, CHANNEL_TO_PREVIOUS);
    for (uint32_t way = 0; status == WEFT_OK && way < 2; way++) { /* ties go both ways */
        status = add_message_use(folding, rank, previous, unit, level, resource + way, CHANNEL_TIE);
        if (status == WEFT_OK && pipeline > 1)
            status = add_message_use(folding, next, rank, unit, level, resource + way, CHANNEL_TIE);
    }
    return status;
}

static weft_status folding_list_uses(struct folding *folding)
{
    uint32_t first[STEP_LINK_LEVELS + 1];
    weft_status status = list_resources(folding, first);
    for (uint32_t level = 0; status == WEFT_OK && level < STEP_LINK_LEVELS; level++) {
        if (level > 0 && folding->unit_count[level] == 1)
            continue; /* nothing leaves it */
        uint32_t *first_unit = malloc(((size_t)folding->unit_count[level] + 1) * sizeof *first_unit);
        if (!first_unit)
            return error_memory(folding->error, folding->unit_count[level] * sizeof *first_unit,
                                "the links of a cluster");
        for (uint32_t unit = folding->unit_count[level]; unit-- > 0;)
            first_unit[folding->unit_color[level][unit]] = unit;
        for (uint32_t rank = 0; status == WEFT_OK && rank < folding->ranks; rank++)
            if (is_in_first_unit(folding, first_unit, level, rank))
                status = add_rank_uses(folding, rank, level,
                                       first[level] + 2 * folding->unit_color[level][folding->unit_of[level][rank]]);
        free(first_unit);
    }
    return status;
}

weft_status folding_list_channels(struct folding *folding)
{
    weft_status status = list_channels(folding);
    return status == WEFT_OK ? folding_list_uses(folding) : status;
}
