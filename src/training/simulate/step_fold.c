/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are alike, and which of their channels share which links. */
#include "training/simulate/internal/step_fold.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranks, units and groups while they are being divided into classes. */
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
    uint32_t *neighbors;        /* of each rank: the next and the previous one of the pipeline */
    uint32_t *lists[MESH_AXES]; /* of each group of an axis: its ranks */
    uint64_t *hashes, *unit_hashes;
    struct error *error;
};

enum { NEXT, PREVIOUS, NEIGHBORS };

/* ---- places ---- */

static uint32_t host_of(const struct step_cluster *cluster, uint32_t rank)
{
    return cluster->hosts ? cluster->hosts[rank] : 0;
}

/* The host, leaf or pod (levels 1 to 3) of a rank. */
static uint32_t place_of(const struct step_cluster *cluster, uint32_t rank, uint32_t level)
{
    uint32_t unit = host_of(cluster, rank);
    for (uint32_t l = 0; l + 1 < level; l++)
        unit = cluster->above[l] ? cluster->above[l][unit] : 0;
    return unit;
}

uint32_t step_cluster_level(const struct step_cluster *cluster, uint32_t rank, uint32_t other)
{
    uint32_t level = 0;
    while (level + 1 < STEP_LINK_LEVELS && place_of(cluster, rank, level + 1) != place_of(cluster, other, level + 1))
        level++;
    return level;
}

static uint32_t coordinate(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return folding->costs->points[(size_t)rank * MESH_AXES + axis];
}

static uint32_t rank_group(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return folding->costs->groups[axis][rank];
}

static uint32_t *members_of(const struct folding *folding, uint32_t rank, enum mesh_axis axis)
{
    return &folding->members[((size_t)rank * MESH_AXES + axis) * STEP_LINK_LEVELS];
}

static const uint32_t *group_list(const struct folding *folding, uint32_t group, enum mesh_axis axis)
{
    return folding->lists[axis] + (size_t)group * folding->costs->mesh.extent[axis];
}

/* List the ranks of each group; count, for each rank, how many of its group are on its host, under its leaf, in its pod. */
static weft_status folding_list_groups(struct folding *folding, enum mesh_axis axis)
{
    const struct step_cluster *cluster = folding->costs->cluster;
    const uint32_t extent = folding->costs->mesh.extent[axis], groups = folding->costs->group_count[axis];
    uint32_t *list = malloc((size_t)groups * extent * sizeof *list), *filled = calloc(groups, sizeof *filled);
    folding->lists[axis] = list;
    if (!list || !filled) {
        free(filled);
        return error_memory(folding->error, (size_t)groups * extent * sizeof *list, "the groups of a mesh");
    }
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t group = rank_group(folding, rank, axis);
        list[(size_t)group * extent + filled[group]++] = rank;
    }
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t *others = group_list(folding, rank_group(folding, rank, axis), axis);
        uint32_t *members = members_of(folding, rank, axis);
        members[0] = 1;
        for (uint32_t level = 1; level < STEP_LINK_LEVELS; level++)
            for (uint32_t i = 0; i < extent; i++)
                members[level] += place_of(cluster, rank, level) == place_of(cluster, others[i], level);
    }
    free(filled);
    return WEFT_OK;
}

/* ---- colors ---- */

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Number the different hashes in the order of their first appearance; how many there are. */
static weft_status number_hashes(const uint64_t *hashes, uint32_t count, uint32_t *numbers, uint32_t *different,
                                 struct error *error)
{
    uint64_t *sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    uint32_t *number_of = malloc(((size_t)count + 1) * sizeof *number_of), next = 0;
    if (!sorted || !number_of) {
        free(sorted);
        free(number_of);
        return error_memory(error, count * sizeof *sorted, "the classes of ranks");
    }
    memcpy(sorted, hashes, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_hashes);
    memset(number_of, 0xff, count * sizeof *number_of);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *first = bsearch(&hashes[i], sorted, count, sizeof *sorted, compare_hashes);
        while (first > sorted && first[-1] == *first)
            first--;
        uint32_t *number = &number_of[first - sorted];
        if (*number == UINT32_MAX)
            *number = next++;
        numbers[i] = *number;
    }
    *different = next;
    free(sorted);
    free(number_of);
    return WEFT_OK;
}

static uint64_t perturbation_of(const struct folding *folding, uint32_t rank)
{
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    const bool slow = perturbation->slow_factor > 0 && perturbation->slow_rank == rank,
               degraded = perturbation->degraded_share > 0 &&
                          perturbation->degraded_host == host_of(folding->costs->cluster, rank);
    return slow + 2 * degraded;
}

/* What ranks differ in by themselves. */
static void hash_ranks(struct folding *folding)
{
    const struct step_costs *costs = folding->costs;
    const struct step_cluster *cluster = costs->cluster;
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        uint64_t hash = hash_number(coordinate(folding, rank, MESH_PIPELINE), 0);
        hash = hash_number(cluster->device_of ? cluster->device_of[rank] : 0, hash);
        hash = hash_number(costs->shares[coordinate(folding, rank, MESH_DATA)], hash);
        hash = hash_number(perturbation_of(folding, rank), hash);
        if (folding->options->unfolded || folding->options->perturbation.jitter > 0)
            hash = hash_number(rank, hash);
        for (uint32_t axis = 0; axis < MESH_AXES; axis++) {
            hash = hash_number(costs->group_class[axis][rank_group(folding, rank, axis)], hash);
            hash = hash_bytes(members_of(folding, rank, axis), STEP_LINK_LEVELS * sizeof(uint32_t), hash);
        }
        for (uint32_t n = 0; n < NEIGHBORS; n++)
            hash = hash_number(step_cluster_level(cluster, rank, folding->neighbors[rank * NEIGHBORS + n]), hash);
        folding->hashes[rank] = hash;
    }
}

/* Give each unit of a level the sum of its ranks' hashes, and mix it into theirs. */
static void mix_units(struct folding *folding, const uint32_t *unit_of, uint32_t count, const uint64_t *of_ranks)
{
    memset(folding->unit_hashes, 0, count * sizeof *folding->unit_hashes);
    for (uint32_t rank = 0; rank < folding->ranks; rank++)
        folding->unit_hashes[unit_of[rank]] += hash_number(of_ranks[rank], 1);
    for (uint32_t rank = 0; rank < folding->ranks; rank++)
        folding->hashes[rank] = hash_number(folding->unit_hashes[unit_of[rank]], folding->hashes[rank]);
}

/* One round of refinement: ranks stay alike whose neighbors, units and groups have been alike. */
static void refine(struct folding *folding, uint64_t *before)
{
    memcpy(before, folding->hashes, folding->ranks * sizeof *before);
    for (uint32_t level = 1; level < STEP_LINK_LEVELS; level++)
        mix_units(folding, folding->unit_of[level], folding->unit_count[level], before);
    for (uint32_t axis = 0; axis < MESH_AXES; axis++)
        mix_units(folding, folding->costs->groups[axis], folding->costs->group_count[axis], before);
    for (uint32_t rank = 0; rank < folding->ranks; rank++)
        for (uint32_t n = 0; n < NEIGHBORS; n++)
            folding->hashes[rank] =
                hash_number(before[folding->neighbors[rank * NEIGHBORS + n]], folding->hashes[rank]);
}

/* Refine until nothing is divided any more. */
static weft_status color_ranks(struct folding *folding)
{
    struct step_fold *fold = folding->fold;
    uint64_t *before = malloc(((size_t)folding->ranks + 1) * sizeof *before);
    if (!before)
        return error_memory(folding->error, folding->ranks * sizeof *before, "the classes of ranks");
    hash_ranks(folding);
    weft_status status =
        number_hashes(folding->hashes, folding->ranks, folding->color, &fold->class_count, folding->error);
    for (uint32_t last = 0; status == WEFT_OK && last != fold->class_count && fold->class_count < folding->ranks;) {
        last = fold->class_count;
        refine(folding, before);
        status = number_hashes(folding->hashes, folding->ranks, folding->color, &fold->class_count, folding->error);
    }
    for (uint32_t level = 0; status == WEFT_OK && level < STEP_LINK_LEVELS; level++) {
        uint32_t different;
        memset(folding->unit_hashes, 0, folding->unit_count[level] * sizeof *folding->unit_hashes);
        for (uint32_t rank = 0; rank < folding->ranks; rank++)
            folding->unit_hashes[folding->unit_of[level][rank]] += hash_number(folding->color[rank], 1);
        status = number_hashes(folding->unit_hashes, folding->unit_count[level], folding->unit_color[level], &different,
                               folding->error);
    }
    free(before);
    return status;
}

/* ---- classes and resources ---- */

static weft_status list_classes(struct folding *folding)
{
    struct step_fold *fold = folding->fold;
    fold->class_of = folding->color;
    fold->representative = malloc((size_t)fold->class_count * sizeof *fold->representative);
    fold->size = calloc(fold->class_count, sizeof *fold->size);
    fold->next = calloc(fold->class_count, sizeof *fold->next);
    fold->previous = calloc(fold->class_count, sizeof *fold->previous);
    if (!fold->representative || !fold->size || !fold->next || !fold->previous)
        return error_memory(folding->error, fold->class_count * sizeof *fold->size, "the classes of ranks");
    for (uint32_t rank = folding->ranks; rank-- > 0;) {
        const uint32_t class = fold->class_of[rank];
        fold->representative[class] = rank;
        fold->size[class]++;
        fold->next[class] = fold->class_of[folding->neighbors[rank * NEIGHBORS + NEXT]];
        fold->previous[class] = fold->class_of[folding->neighbors[rank * NEIGHBORS + PREVIOUS]];
    }
    return WEFT_OK;
}

/* Bytes/s of one direction of a unit. Level 0: of a rank; an interface; the uplinks of a leaf, of a pod. */
static double unit_bandwidth(const struct folding *folding, uint32_t level, uint32_t rank)
{
    const struct step_cluster *cluster = folding->costs->cluster;
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    double bandwidth = level == 0   ? cluster->links->near.bandwidth
                       : level == 1 ? cluster->links->far.bandwidth
                                    : cluster->links->above[level - 2].bandwidth;
    if (level == 1 && perturbation->degraded_share > 0 && perturbation->degraded_host == host_of(cluster, rank))
        bandwidth *= perturbation->degraded_share;
    if (level == 1)
        bandwidth -= perturbation->background;
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
                fold->capacity[resource] = unit_bandwidth(folding, level, rank);
            }
    }
    return WEFT_OK;
}

/* ---- channels ---- */

static bool has_channel(const struct folding *folding, uint32_t rank, enum step_channel_kind kind)
{
    const struct step_costs *costs = folding->costs;
    const uint32_t at = coordinate(folding, rank, MESH_PIPELINE), pipeline = costs->shape.pipeline;
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
        if (!has_channel(folding, rank, kind))
            continue;
        const uint32_t peer = rank_peer(folding, rank, kind);
        fold->channel_of[kind][class] = fold->channel_count;
        fold->channels[fold->channel_count++] =
            (struct step_channel){.kind = kind,
                                  .first_class = fold->channel_class_count,
                                  .class_count = 2,
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
        const uint32_t *list = group_list(folding, group, axis);
        if (fold->channel_of[kind][fold->class_of[list[0]]] != STEP_NONE)
            continue;
        struct step_channel *channel = &fold->channels[fold->channel_count];
        *channel = (struct step_channel){.kind = kind,
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
                   members = members_of(folding, rank, axis_of(kind))[level];
    if (channel == STEP_NONE || members == folding->costs->mesh.extent[axis_of(kind)])
        return WEFT_OK; /* all members are in this unit */
    weft_status status = add_use(folding, channel, resource, level, 1.0 / members);
    return status == WEFT_OK ? add_use(folding, channel, resource + 1, level, 1.0 / members) : status;
}

/* A message from `sender` passes this unit, which its sender or its receiver is in. */
static weft_status add_message_use(struct folding *folding, uint32_t sender, uint32_t receiver, uint32_t level,
                                   uint32_t resource, enum step_channel_kind kind)
{
    const uint32_t differs = step_cluster_level(folding->costs->cluster, sender, receiver);
    if (!has_channel(folding, sender, kind) || (level == 0 ? differs > 0 : level > differs))
        return WEFT_OK;
    return add_use(folding, folding->fold->channel_of[kind][folding->fold->class_of[sender]], resource, level, 1);
}

/* What the channels of a rank take of a unit at `level` that it is in; `resource` is the way out of it. */
static weft_status add_rank_uses(struct folding *folding, uint32_t rank, uint32_t level, uint32_t resource)
{
    const uint32_t *neighbors = &folding->neighbors[rank * NEIGHBORS], next = neighbors[NEXT],
                   previous = neighbors[PREVIOUS], pipeline = folding->costs->shape.pipeline;
    weft_status status = add_group_use(folding, rank, level, resource, CHANNEL_DATA);
    if (status == WEFT_OK)
        status = add_group_use(folding, rank, level, resource, CHANNEL_TENSOR);
    if (status == WEFT_OK)
        status = add_message_use(folding, rank, next, level, resource, CHANNEL_TO_NEXT);
    if (status == WEFT_OK)
        status = add_message_use(folding, rank, previous, level, resource, CHANNEL_TO_PREVIOUS);
    if (status == WEFT_OK)
        status = add_message_use(folding, previous, rank, level, resource + 1, CHANNEL_TO_NEXT);
    if (status == WEFT_OK)
        status = add_message_use(folding, next, rank, level, resource + 1, CHANNEL_TO_PREVIOUS);
    for (uint32_t way = 0; status == WEFT_OK && way < 2; way++) { /* ties go both ways */
        status = add_message_use(folding, rank, previous, level, resource + way, CHANNEL_TIE);
        if (status == WEFT_OK && pipeline > 1)
            status = add_message_use(folding, next, rank, level, resource + way, CHANNEL_TIE);
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

/* ---- opening ---- */

static weft_status open_folding(struct folding *folding)
{
    const struct step_costs *costs = folding->costs;
    const uint32_t ranks = folding->ranks;
    folding->color = calloc(ranks, sizeof *folding->color);
    folding->members = calloc((size_t)ranks * MESH_AXES * STEP_LINK_LEVELS, sizeof *folding->members);
    folding->neighbors = calloc((size_t)ranks * NEIGHBORS, sizeof *folding->neighbors);
    folding->hashes = calloc(ranks, sizeof *folding->hashes);
    folding->unit_hashes = calloc((size_t)ranks + 1, sizeof *folding->unit_hashes);
    if (!folding->color || !folding->members || !folding->neighbors || !folding->hashes || !folding->unit_hashes)
        return error_memory(folding->error, ranks * sizeof *folding->members, "the classes of ranks");
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        folding->unit_of[level] = calloc(ranks, sizeof *folding->unit_of[level]);
        folding->unit_color[level] = calloc(ranks, sizeof *folding->unit_color[level]);
        if (!folding->unit_of[level] || !folding->unit_color[level])
            return error_memory(folding->error, ranks * sizeof *folding->unit_of[level], "the classes of ranks");
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const uint32_t unit = level == 0 ? rank : place_of(costs->cluster, rank, level);
            folding->unit_of[level][rank] = unit;
            folding->unit_count[level] = unit >= folding->unit_count[level] ? unit + 1 : folding->unit_count[level];
        }
    }
    weft_status status = WEFT_OK;
    for (enum mesh_axis axis = 0; status == WEFT_OK && axis < MESH_AXES; axis++)
        status = folding_list_groups(folding, axis);
    return status;
}

/* Ranks of the same group of the pipeline axis, by their coordinate. */
static weft_status find_neighbors(struct folding *folding)
{
    const struct step_costs *costs = folding->costs;
    const uint32_t pipeline = costs->shape.pipeline;
    uint32_t *at = calloc(folding->ranks, sizeof *at);
    if (!at)
        return error_memory(folding->error, folding->ranks * sizeof *at, "the pipelines of a mesh");
    for (uint32_t rank = 0; rank < folding->ranks; rank++)
        at[rank_group(folding, rank, MESH_PIPELINE) * pipeline + coordinate(folding, rank, MESH_PIPELINE)] = rank;
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t *group = at + rank_group(folding, rank, MESH_PIPELINE) * pipeline,
                       p = coordinate(folding, rank, MESH_PIPELINE);
        folding->neighbors[rank * NEIGHBORS + NEXT] = group[(p + 1) % pipeline];
        folding->neighbors[rank * NEIGHBORS + PREVIOUS] = group[(p + pipeline - 1) % pipeline];
    }
    free(at);
    return WEFT_OK;
}

static weft_status check_perturbation(const struct folding *folding)
{
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    const struct step_cluster *cluster = folding->costs->cluster;
    if (perturbation->slow_factor > 0 && perturbation->slow_rank >= folding->ranks)
        return error_set(folding->error, WEFT_ERROR_ARGUMENT, "there is no rank %u to slow down: the mesh has %u ranks",
                         perturbation->slow_rank, folding->ranks);
    if (perturbation->degraded_share > 0 && perturbation->degraded_host > host_of(cluster, folding->ranks - 1))
        return error_set(folding->error, WEFT_ERROR_ARGUMENT,
                         "there is no host %u to degrade: the ranks are on %u hosts", perturbation->degraded_host,
                         host_of(cluster, folding->ranks - 1) + 1);
    if (perturbation->background > 0 && perturbation->background >= cluster->links->far.bandwidth)
        return error_set(folding->error, WEFT_ERROR_ARGUMENT,
                         "background traffic of %.3g GB/s leaves nothing of a host's %.3g GB/s",
                         perturbation->background * 1e-9, cluster->links->far.bandwidth * 1e-9);
    return WEFT_OK;
}

weft_status step_fold_open(const struct step_costs *costs, const struct step_options *options, struct step_fold *fold,
                           struct error *error)
{
    *fold = (struct step_fold){0};
    struct folding folding = {.costs = costs, .options = options, .fold = fold, .ranks = costs->ranks, .error = error};
    weft_status status = check_perturbation(&folding);
    if (status == WEFT_OK)
        status = open_folding(&folding);
    if (status == WEFT_OK)
        status = find_neighbors(&folding);
    if (status == WEFT_OK)
        status = color_ranks(&folding);
    if (status == WEFT_OK)
        status = list_classes(&folding);
    if (status == WEFT_OK)
        status = list_channels(&folding);
    if (status == WEFT_OK)
        status = folding_list_uses(&folding);
    if (fold->class_of != folding.color)
        free(folding.color);
    free(folding.members);
    free(folding.neighbors);
    free(folding.hashes);
    free(folding.unit_hashes);
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        free(folding.unit_of[level]);
        free(folding.unit_color[level]);
    }
    for (uint32_t axis = 0; axis < MESH_AXES; axis++)
        free(folding.lists[axis]);
    return status;
}

void step_fold_free(struct step_fold *fold)
{
    for (uint32_t c = 0; fold->channels && c < fold->channel_count; c++)
        free(fold->channels[c].uses);
    for (uint32_t kind = 0; kind < CHANNEL_KINDS; kind++)
        free(fold->channel_of[kind]);
    free(fold->channels);
    free(fold->channel_classes);
    free(fold->class_of);
    free(fold->representative);
    free(fold->size);
    free(fold->next);
    free(fold->previous);
    free(fold->capacity);
    free(fold->resource_level);
    free(fold->resource_units);
    *fold = (struct step_fold){0};
}
