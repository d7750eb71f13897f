/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are alike. */
#include "training/simulate/internal/step_folding.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Turns at an interface: each multiplies what is simulated where hosts have many ranks for an interface. */
#define TURNS_MOST 4

/* ---- places ---- */

static uint32_t hosts_of_ranks(const struct step_cluster *cluster, uint32_t ranks)
{
    uint32_t count = 1;
    for (uint32_t rank = 0; rank < ranks; rank++)
        count = step_cluster_host(cluster, rank) >= count ? step_cluster_host(cluster, rank) + 1 : count;
    return count;
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
        const uint32_t group = folding_group(folding, rank, axis);
        list[(size_t)group * extent + filled[group]++] = rank;
    }
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t *others = folding_list(folding, folding_group(folding, rank, axis), axis);
        uint32_t *members = folding_members(folding, rank, axis);
        members[0] = 1;
        for (uint32_t level = 1; level < STEP_LINK_LEVELS; level++)
            for (uint32_t i = 0; i < extent; i++)
                members[level] +=
                    step_cluster_unit(cluster, rank, level) == step_cluster_unit(cluster, others[i], level);
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

bool folding_is_degraded(const struct folding *folding, uint32_t rank)
{
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    const struct step_cluster *cluster = folding->costs->cluster;
    const uint32_t level = perturbation->degraded_level;
    return perturbation->degraded_share > 0 && (level == 0 || cluster->above[level - 1]) &&
           perturbation->degraded_unit == step_cluster_unit(cluster, rank, level + 1);
}

static uint64_t perturbation_of(const struct folding *folding, uint32_t rank)
{
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    const bool slow = perturbation->slow_factor > 0 && perturbation->slow_rank == rank;
    return slow + 2 * folding_is_degraded(folding, rank);
}

/* Whether messages of a rank leave its host. */
static bool sends_out(const struct folding *folding, uint32_t rank)
{
    const struct step_cluster *cluster = folding->costs->cluster;
    const uint32_t *neighbors = &folding->neighbors[rank * NEIGHBORS];
    return (folding_has_channel(folding, rank, CHANNEL_TO_NEXT) &&
            step_cluster_level(cluster, rank, neighbors[NEXT]) > 0) ||
           (folding_has_channel(folding, rank, CHANNEL_TO_PREVIOUS) &&
            step_cluster_level(cluster, rank, neighbors[PREVIOUS]) > 0);
}

/*
 * The turns of ranks whose messages leave their interface: by interface, in the order of their first ranks, one for each
 * tensor group. Neighbors share a turn where there would be more than TURNS_MOST of them.
 */
static weft_status number_turns(struct folding *folding)
{
    uint32_t *count = calloc((size_t)folding->unit_count[1] + 1, sizeof *count);
    if (!count)
        return error_memory(folding->error, folding->unit_count[1] * sizeof *count, "the turns of messages");
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t unit = folding->unit_of[1][rank];
        const uint32_t *first = folding_list(folding, folding_group(folding, rank, MESH_TENSOR), MESH_TENSOR);
        if (!sends_out(folding, rank))
            continue;
        while (folding->unit_of[1][*first] != unit || !sends_out(folding, *first))
            first++;
        folding->turns[rank] = *first == rank ? count[unit]++ : folding->turns[*first];
    }
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t all = count[folding->unit_of[1][rank]];
        if (all > TURNS_MOST)
            folding->turns[rank] = folding->turns[rank] * TURNS_MOST / all;
    }
    free(count);
    return WEFT_OK;
}

/* What ranks differ in by themselves. */
static void hash_ranks(struct folding *folding)
{
    const struct step_costs *costs = folding->costs;
    const struct step_cluster *cluster = costs->cluster;
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        uint64_t hash = hash_number(folding_coordinate(folding, rank, MESH_PIPELINE), 0);
        hash = hash_number(cluster->device_of ? cluster->device_of[rank] : 0, hash);
        hash = hash_number(costs->shares[folding_coordinate(folding, rank, MESH_DATA)], hash);
        hash = hash_number(perturbation_of(folding, rank), hash);
        hash = hash_number(folding->turns[rank], hash);
        if (folding->options->unfolded || folding->options->perturbation.jitter > 0)
            hash = hash_number(rank, hash);
        for (uint32_t axis = 0; axis < MESH_AXES; axis++) {
            hash = hash_number(costs->group_class[axis][folding_group(folding, rank, axis)], hash);
            hash = hash_bytes(folding_members(folding, rank, axis), STEP_LINK_LEVELS * sizeof(uint32_t), hash);
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

/* ---- classes ---- */

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

/* ---- opening ---- */

/* The interface of each rank: each serves consecutive ranks of its host, equally many. */
static weft_status number_interfaces(struct folding *folding)
{
    const struct step_cluster *cluster = folding->costs->cluster;
    const uint32_t interfaces = step_cluster_interfaces(cluster);
    uint32_t *on_host = calloc((size_t)cluster->ranks + 1, sizeof *on_host),
             *local = calloc((size_t)cluster->ranks + 1, sizeof *local);
    weft_status status = WEFT_OK;
    if (!on_host || !local)
        status = error_memory(folding->error, cluster->ranks * sizeof *local, "the interfaces of ranks");
    for (uint32_t rank = 0; status == WEFT_OK && rank < cluster->ranks; rank++)
        local[rank] = on_host[step_cluster_host(cluster, rank)]++;
    for (uint32_t rank = 0; status == WEFT_OK && rank < folding->ranks; rank++) {
        const uint32_t host = step_cluster_host(cluster, rank);
        folding->unit_of[1][rank] = host * interfaces + (uint32_t)((uint64_t)local[rank] * interfaces / on_host[host]);
    }
    free(on_host);
    free(local);
    return status;
}

static weft_status number_units(struct folding *folding)
{
    const uint32_t ranks = folding->ranks;
    weft_status status = WEFT_OK;
    for (uint32_t level = 0; status == WEFT_OK && level < STEP_LINK_LEVELS; level++) {
        uint32_t *units = folding->unit_of[level] = calloc(ranks, sizeof *units), *count = &folding->unit_count[level];
        if (!units)
            return error_memory(folding->error, ranks * sizeof *units, "the classes of ranks");
        for (uint32_t rank = 0; level != 1 && rank < ranks; rank++)
            units[rank] = step_cluster_unit(folding->costs->cluster, rank, level);
        if (level == 1)
            status = number_interfaces(folding);
        for (uint32_t rank = 0; status == WEFT_OK && rank < ranks; rank++)
            *count = units[rank] >= *count ? units[rank] + 1 : *count;
        folding->unit_color[level] = calloc((size_t)*count + 1, sizeof *folding->unit_color[level]);
        if (!folding->unit_color[level])
            return error_memory(folding->error, *count * sizeof *units, "the classes of ranks");
    }
    return status;
}

static weft_status open_folding(struct folding *folding)
{
    const struct step_costs *costs = folding->costs;
    const uint32_t ranks = folding->ranks,
                   units = hosts_of_ranks(costs->cluster, ranks) * step_cluster_interfaces(costs->cluster);
    folding->color = calloc(ranks, sizeof *folding->color);
    folding->members = calloc((size_t)ranks * MESH_AXES * STEP_LINK_LEVELS, sizeof *folding->members);
    folding->neighbors = calloc((size_t)ranks * NEIGHBORS, sizeof *folding->neighbors);
    folding->turns = calloc(ranks, sizeof *folding->turns);
    folding->hashes = calloc(ranks, sizeof *folding->hashes);
    folding->unit_hashes = calloc((size_t)(ranks > units ? ranks : units) + 1, sizeof *folding->unit_hashes);
    if (!folding->color || !folding->members || !folding->neighbors || !folding->turns || !folding->hashes ||
        !folding->unit_hashes)
        return error_memory(folding->error, ranks * sizeof *folding->members, "the classes of ranks");
    weft_status status = number_units(folding);
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
        at[folding_group(folding, rank, MESH_PIPELINE) * pipeline + folding_coordinate(folding, rank, MESH_PIPELINE)] =
            rank;
    for (uint32_t rank = 0; rank < folding->ranks; rank++) {
        const uint32_t *group = at + folding_group(folding, rank, MESH_PIPELINE) * pipeline,
                       p = folding_coordinate(folding, rank, MESH_PIPELINE);
        folding->neighbors[rank * NEIGHBORS + NEXT] = group[(p + 1) % pipeline];
        folding->neighbors[rank * NEIGHBORS + PREVIOUS] = group[(p + pipeline - 1) % pipeline];
    }
    free(at);
    return WEFT_OK;
}

static weft_status check_perturbation(const struct folding *folding)
{
    static const char *const names[] = {"node", "leaf", "pod"};
    const struct step_perturbation *perturbation = &folding->options->perturbation;
    const struct step_cluster *cluster = folding->costs->cluster;
    if (perturbation->slow_factor > 0 && perturbation->slow_rank >= folding->ranks)
        return error_set(folding->error, WEFT_ERROR_ARGUMENT, "there is no rank %u to slow down: the mesh has %u ranks",
                         perturbation->slow_rank, folding->ranks);
    bool exists = perturbation->degraded_share <= 0;
    for (uint32_t rank = 0; !exists && rank < folding->ranks; rank++)
        exists = folding_is_degraded(folding, rank);
    if (!exists)
        return error_set(folding->error, WEFT_ERROR_ARGUMENT, "there is no %s %u whose links could be slow",
                         names[perturbation->degraded_level], perturbation->degraded_unit);
    const double most = perturbation->reading > perturbation->writing ? perturbation->reading : perturbation->writing;
    if (most > 0 && most >= cluster->links->far.bandwidth)
        return error_set(folding->error, WEFT_ERROR_ARGUMENT,
                         "traffic to storage of %.3g GB/s leaves nothing of a host's %.3g GB/s", most * 1e-9,
                         cluster->links->far.bandwidth * 1e-9);
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
        status = number_turns(&folding);
    if (status == WEFT_OK)
        status = color_ranks(&folding);
    if (status == WEFT_OK)
        status = list_classes(&folding);
    if (status == WEFT_OK)
        status = folding_list_channels(&folding);
    if (fold->class_of != folding.color)
        free(folding.color);
    free(folding.members);
    free(folding.neighbors);
    free(folding.turns);
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
