/* SPDX-License-Identifier: Apache-2.0 */
/* The placements of groups, and their collectives' prices, which are computed once. */
#include "training/simulate/step_prices.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/hash_index.h"
#include "core/schedule/simulate/simulate_price.h"

#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

uint32_t step_cluster_unit(const struct step_cluster *cluster, uint32_t rank, uint32_t level)
{
    uint32_t unit = level == 0 ? rank : step_cluster_host(cluster, rank);
    for (uint32_t l = 0; l + 1 < level; l++)
        unit = cluster->above[l] ? cluster->above[l][unit] : 0;
    return unit;
}

uint32_t step_cluster_level(const struct step_cluster *cluster, uint32_t rank, uint32_t other)
{
    uint32_t level = 0;
    while (level + 1 < STEP_LINK_LEVELS &&
           step_cluster_unit(cluster, rank, level + 1) != step_cluster_unit(cluster, other, level + 1))
        level++;
    return level;
}

/* ---- placements ---- */

static struct schedule_shape world_shape(const struct step_cluster *cluster, uint32_t ranks)
{
    return (struct schedule_shape){
        .ranks = ranks, .nodes = cluster->hosts, .above = {cluster->above[0], cluster->above[1]}};
}

/* Numbers the units in which a group has members, those of each level from 0 in the order of the members. */
struct unit_numbering {
    uint32_t ranks, levels;
    uint32_t *units;   /* of each rank: of each level */
    uint32_t *numbers; /* of each level's units: the last number */
    uint32_t *groups;  /* and the group that it was of; 0: none */
    uint32_t *listed;  /* of a group's members: the numbers of each level */
    uint32_t group;    /* counts them, from 1 */
};

static weft_status numbering_open(const struct schedule_shape *world, struct unit_numbering *numbering,
                                  struct error *error)
{
    const uint32_t levels = shape_levels(world);
    const size_t count = (size_t)levels * world->ranks;
    *numbering = (struct unit_numbering){.ranks = world->ranks, .levels = levels};
    numbering->units = calloc(4 * count + 1, sizeof *numbering->units);
    if (!numbering->units)
        return error_memory(error, 4 * count * sizeof *numbering->units, "the places of ranks");
    numbering->numbers = numbering->units + count;
    numbering->groups = numbering->numbers + count;
    numbering->listed = numbering->groups + count;
    for (uint32_t rank = 0; rank < world->ranks; rank++)
        for (uint32_t level = 0; level < levels; level++)
            numbering->units[rank * levels + level] = shape_unit(world, level, rank);
    return WEFT_OK;
}

static void numbering_close(struct unit_numbering *numbering)
{
    free(numbering->units);
}

/* A hash of the placement of a group, which does not depend on which units it is on. */
static uint64_t numbering_hash(struct unit_numbering *numbering, const uint32_t *members, uint32_t count)
{
    const uint32_t levels = numbering->levels;
    uint32_t used[1 + SHAPE_LEVELS] = {0}, *listed = numbering->listed;
    numbering->group++;
    for (uint32_t member = 0; member < count; member++)
        for (uint32_t level = 0; level < levels; level++) {
            const size_t unit = (size_t)level * numbering->ranks + numbering->units[members[member] * levels + level];
            if (numbering->groups[unit] != numbering->group)
                numbering->numbers[unit] = used[level]++;
            numbering->groups[unit] = numbering->group;
            *listed++ = numbering->numbers[unit];
        }
    return hash_bytes(numbering->listed, (size_t)count * levels * sizeof *listed, hash_number(count, 0));
}

static void group_placement_close(struct step_placement *placement)
{
    simulate_group_close(&placement->shape);
}

/* The number of a point's group: its coordinates on the other axes. */
static uint32_t group_number(const struct step_costs *costs, const uint32_t *point, enum mesh_axis axis)
{
    uint32_t number = 0;
    for (enum mesh_axis other = 0; other < MESH_AXES; other++)
        if (other != axis)
            number = number * costs->mesh.extent[other] + point[other];
    return number;
}

/* The class of a group: an earlier one of the same placement, or a new one. */
static weft_status placements_find_class(const struct schedule_shape *world, struct unit_numbering *numbering,
                                         const uint32_t *members, uint32_t count, struct step_placements *placements,
                                         uint32_t *class, struct error *error)
{
    struct step_placement placement = {.hash = numbering_hash(numbering, members, count)};
    for (*class = 0; *class < placements->count; ++*class)
        if (placements->classes[*class].hash == placement.hash)
            return WEFT_OK;
    size_t room = placements->count;
    weft_status status = simulate_group_open(world, members, count, &placement.shape, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(placements->classes, room, placements->count + 1, "the placements of groups", error);
    if (status == WEFT_OK)
        placements->classes[placements->count++] = placement;
    else
        group_placement_close(&placement);
    return status;
}

weft_status step_placements_open(struct step_costs *costs, enum mesh_axis axis, struct step_placements *placements,
                                 struct error *error)
{
    const uint32_t ranks = costs->ranks, extent = costs->mesh.extent[axis], groups = ranks / extent;
    const struct schedule_shape world = world_shape(costs->cluster, ranks);
    *placements = (struct step_placements){0};
    costs->group_count[axis] = groups;
    costs->groups[axis] = calloc(ranks, sizeof(uint32_t));
    costs->group_class[axis] = calloc(groups, sizeof(uint32_t));
    uint32_t *members = calloc(ranks, sizeof *members);
    struct unit_numbering numbering;
    weft_status status = numbering_open(&world, &numbering, error);
    if (status == WEFT_OK && (!costs->groups[axis] || !costs->group_class[axis] || !members))
        status = error_memory(error, ranks * sizeof *members, "the groups of a mesh");
    for (uint32_t rank = 0; status == WEFT_OK && rank < ranks; rank++) {
        const uint32_t *point = costs->points + (size_t)rank * MESH_AXES, group = group_number(costs, point, axis);
        costs->groups[axis][rank] = group;
        members[(size_t)group * extent + point[axis]] = rank;
    }
    for (uint32_t group = 0; status == WEFT_OK && group < groups; group++)
        status = placements_find_class(&world, &numbering, members + (size_t)group * extent, extent, placements,
                                       &costs->group_class[axis][group], error);
    costs->class_count[axis] = placements->count;
    numbering_close(&numbering);
    free(members);
    return status;
}

void step_placements_free(struct step_placements *placements)
{
    for (uint32_t class = 0; class < placements->count; class ++)
        group_placement_close(&placements->classes[class]);
    free(placements->classes);
    *placements = (struct step_placements){0};
}

/* ---- prices ---- */

struct step_prices {
    const struct step_cluster *cluster;
    struct hash_index transfers; /* struct step_transfer, by collective, bytes and placement */
    struct step_placement all;   /* of the first ranks of the cluster */
};

weft_status step_prices_open(const struct step_cluster *cluster, struct step_prices **prices, struct error *error)
{
    struct step_prices *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, sizeof *opened, "the prices of collectives");
    opened->cluster = cluster;
    *prices = opened;
    return WEFT_OK;
}

void step_prices_close(struct step_prices *prices)
{
    if (!prices)
        return;
    group_placement_close(&prices->all);
    hash_index_free(&prices->transfers, free);
    free(prices);
}

weft_status step_prices_placement(struct step_prices *prices, uint32_t ranks, const struct step_placement **placement,
                                  struct error *error)
{
    const struct schedule_shape world = world_shape(prices->cluster, ranks);
    struct unit_numbering numbering = {0};
    *placement = &prices->all;
    if (prices->all.shape.ranks == ranks)
        return WEFT_OK;
    group_placement_close(&prices->all);
    prices->all = (struct step_placement){0};
    uint32_t *members = malloc(ranks * sizeof *members);
    if (!members)
        return error_memory(error, ranks * sizeof *members, "the places of ranks");
    for (uint32_t rank = 0; rank < ranks; rank++)
        members[rank] = rank;
    weft_status status = numbering_open(&world, &numbering, error);
    if (status == WEFT_OK)
        status = simulate_group_open(&world, members, ranks, &prices->all.shape, error);
    if (status == WEFT_OK)
        prices->all.hash = numbering_hash(&numbering, members, ranks);
    else
        prices->all = (struct step_placement){0};
    numbering_close(&numbering);
    free(members);
    return status;
}

/* A block: all that a rank has in an all-reduce, the part of one rank in the others. */
static uint64_t request_block(const struct step_request *request, uint32_t ranks)
{
    const double bytes = request->collective == COLLECTIVE_ALLREDUCE ? request->bytes : request->bytes / ranks;
    return bytes > 1 ? (uint64_t)bytes : 1;
}

/* Of what leaves a rank, the part that stays on its host: the rest passes the host's interfaces. */
static double bytes_within_host(const struct step_placement *placement, const struct simulated_price *price)
{
    uint32_t members = 0;
    for (uint32_t rank = 0; rank < placement->shape.ranks; rank++)
        members += shape_node(&placement->shape, rank) == 0;
    const double near = price->leaving[0] - price->leaving[1] / members;
    return members > 1 && near > 0 ? near : 0;
}

static weft_status compute_price(const struct step_prices *prices, const struct step_placement *placement,
                                 const struct step_request *request, struct step_transfer *transfer,
                                 struct error *error)
{
    struct schedule_shape shape = placement->shape;
    struct simulated_price price;
    shape.collective = request->collective;
    shape.reproducible = request->reproducible;
    shape.block_bytes = request_block(request, shape.ranks);
    weft_status status = simulate_price(prices->cluster->links, &shape, 1, &price, error);
    if (status != WEFT_OK)
        return status;
    *transfer =
        (struct step_transfer){.seconds = price.seconds + prices->cluster->collective_launch, .busy = price.busy};
    for (uint32_t level = 1; level < STEP_LINK_LEVELS; level++)
        transfer->bytes[level] = price.leaving[level];
    transfer->bytes[0] = bytes_within_host(placement, &price);
    return WEFT_OK;
}

static void add_transfer(struct step_transfer *sum, const struct step_transfer *more)
{
    const double seconds = sum->seconds + more->seconds;
    sum->busy = seconds > 0 ? (sum->busy * sum->seconds + more->busy * more->seconds) / seconds : 0;
    sum->seconds = seconds;
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        sum->bytes[level] += more->bytes[level];
}

static weft_status keep_price(struct step_prices *prices, const struct step_placement *placement,
                              const struct step_request *request, uint64_t key, const struct step_transfer **kept,
                              struct error *error)
{
    struct step_transfer *transfer = malloc(sizeof *transfer);
    if (!transfer)
        return error_memory(error, sizeof *transfer, "the prices of collectives");
    weft_status status = compute_price(prices, placement, request, transfer, error);
    if (status == WEFT_OK)
        status = hash_index_add(&prices->transfers, key, transfer, error);
    if (status != WEFT_OK) {
        free(transfer);
        return status;
    }
    *kept = transfer;
    return WEFT_OK;
}

weft_status step_prices_add(struct step_prices *prices, const struct step_placement *placement,
                            const struct step_request *request, struct step_transfer *transfer, struct error *error)
{
    if (placement->shape.ranks == 1 || !(request->bytes > 0))
        return WEFT_OK;
    uint64_t key = hash_number(request->collective, placement->hash);
    key = hash_number(request->reproducible, hash_number(request_block(request, placement->shape.ranks), key));
    const struct step_transfer *kept = hash_index_find(&prices->transfers, key);
    weft_status status = WEFT_OK;
    if (!kept)
        status = keep_price(prices, placement, request, key, &kept, error);
    if (status == WEFT_OK)
        add_transfer(transfer, kept);
    return status;
}

/* ---- messages ---- */

struct step_transfer step_message_of(const struct step_cluster *cluster, uint32_t level, double bytes)
{
    struct link_parameters link = level ? cluster->links->far : cluster->links->near;
    if (level && cluster->links->interfaces > 1)
        link.bandwidth /= cluster->links->interfaces;
    for (uint32_t l = 0; l + 1 < level; l++) {
        const struct link_parameters *above = &cluster->links->above[l];
        if (above->latency > 0)
            link.latency = above->latency;
        if (above->overhead > 0)
            link.overhead = above->overhead;
        if (above->bandwidth > 0 && above->bandwidth < link.bandwidth)
            link.bandwidth = above->bandwidth;
    }
    const double moved = bytes + (level ? SIMULATED_HEADER_BYTES : 0);
    struct step_transfer transfer = {.seconds = link.latency + 2 * link.overhead +
                                                (link.bandwidth > 0 ? moved / link.bandwidth : 0)};
    for (uint32_t l = level ? 1 : 0; l <= level; l++)
        transfer.bytes[l] = bytes;
    return transfer;
}
