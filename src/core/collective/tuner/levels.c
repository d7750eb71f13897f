/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The levels above nodes: given by the user, stored by an earlier run on the same hosts, or measured. One rank of each
 * node measures with one of every other node, in rounds in which all are busy at once (core/topology/leaves.h). There
 * are two passes, so that a load spike is detected: leaves are accepted if two of three agree on them: the two passes
 * and the best of both.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "core/collective/communicator/context.h"
#include "core/topology/leaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES        2
#define TINY_ROUNDS   10
#define LARGE_SECONDS 2e-3 /* time of a large message, about */
#define LARGE_LEAST   (64u << 10)
#define LARGE_MOST    (1u << 20)
#define ALL_SECONDS   0.24 /* of all rounds together, about; ... */
#define WINDOW_LEAST  10e-3
#define WINDOW_MOST   40e-3 /* ... and of one */
#define METHOD        2     /* of the method of measuring: results stored by another version are ignored */
#define CONTRADICTION 1.6   /* times faster or slower than the known value */
#define LIFE_SECONDS  LINKS_LIFE_SECONDS

/* ---- what is known ---- */

/* The lowest rank of each node, and whether all nodes are hosts of their own. */
static weft_status find_leaders(struct tuner_levels *levels, const weft_context *context, bool *apart,
                                struct error *error)
{
    const struct weft_comm *world = context->world;
    levels->nodes = world->node_count;
    levels->leaders = malloc(levels->nodes * sizeof *levels->leaders);
    if (!levels->leaders)
        return error_memory(error, levels->nodes * sizeof *levels->leaders, "the nodes of the world");
    for (uint32_t rank = world->size; rank-- > 0;)
        levels->leaders[world->nodes[rank]] = rank;
    *apart = true;
    for (uint32_t a = 0; a < levels->nodes && levels->nodes <= LEAVES_NODES_MOST; a++)
        for (uint32_t b = 0; b < a; b++)
            *apart &=
                strcmp(context->endpoints[levels->leaders[a]].host, context->endpoints[levels->leaders[b]].host) != 0;
    return WEFT_OK;
}

static const char **host_names(const struct tuner_levels *levels, const weft_context *context)
{
    const char **names = malloc(levels->nodes * sizeof *names);
    for (uint32_t node = 0; names && node < levels->nodes; node++)
        names[node] = context->endpoints[levels->leaders[node]].host;
    return names;
}

/* The same for the same hosts in any order, since their last start, by the same transport. */
static uint64_t hash_of_hosts(const struct tuner_levels *levels, const weft_context *context)
{
    uint64_t sum = METHOD;
    for (uint32_t node = 0; node < levels->nodes; node++) {
        const struct endpoint_info *endpoint = &context->endpoints[levels->leaders[node]];
        sum += hash_text(endpoint->machine, hash_text(endpoint->host, 0));
    }
    return hash_text(context->transports[CONTEXT_FABRIC]->name, sum);
}

weft_status tuner_levels_open(struct tuner_levels *levels, weft_context *context, const char *topology,
                              struct error *error)
{
    bool apart = false;
    *levels = (struct tuner_levels){0};
    weft_status status = find_leaders(levels, context, &apart, error);
    if (status != WEFT_OK)
        return status;
    levels->measurable = !topology && apart && levels->nodes > 2 && levels->nodes <= LEAVES_NODES_MOST;
    if (context->rank != 0)
        return WEFT_OK;
    struct error ignored = {0}, found = {0};
    if (topology) {
        status = cluster_file_load(topology, &levels->file, &found);
        return status == WEFT_OK ? WEFT_OK
                                 : error_set(error, status, "the given topology is not plausible: %s", found.text);
    }
    if (levels->nodes < 2 || !apart ||
        cluster_file_cache_path(hash_of_hosts(levels, context), levels->path, &ignored) != WEFT_OK) {
        levels->path[0] = '\0';
        return WEFT_OK;
    }
    if (file_exists(levels->path))
        cluster_file_load(levels->path, &levels->file, &ignored); /* a damaged one is ignored */
    int64_t age = (int64_t)time(NULL) - levels->file.measured;
    if (age < 0 || age > LIFE_SECONDS)
        cluster_file_free(&levels->file);
    return WEFT_OK;
}

void tuner_levels_close(struct tuner_levels *levels)
{
    cluster_file_free(&levels->file);
    free(levels->leaders);
    levels->leaders = NULL;
}

bool tuner_levels_contradict(const struct tuner_levels *levels, const struct link_cost *measured)
{
    const struct cluster_file *file = &levels->file;
    if (file->level_count < 2)
        return true;
    /* Between two nodes the slowest level on the way decides; which levels those are is not looked up. */
    double fastest = file->levels[1].cost.bytes_per_second, slowest = fastest;
    for (uint32_t level = 2; level < file->level_count; level++)
        if (file->levels[level].cost.bytes_per_second < slowest)
            slowest = file->levels[level].cost.bytes_per_second;
    return measured->bytes_per_second > fastest * CONTRADICTION || measured->bytes_per_second < slowest / CONTRADICTION;
}

/* ---- keeping ---- */

static int by_leaf(const void *first, const void *second)
{
    const struct cluster_host *a = first, *b = second;
    return a->units[0] != b->units[0] ? (a->units[0] > b->units[0]) - (a->units[0] < b->units[0])
                                      : strcmp(a->name, b->name);
}

/* A cluster of `levels` levels of these hosts, kept if it has a place. `leaf` may be NULL. */
static void levels_keep(struct tuner_levels *levels, const weft_context *context,
                        const struct simulated_cluster *cluster, const struct link_cost costs[2], const uint32_t *leaf,
                        uint32_t leaves)
{
    static const char *const names[] = {"node", "leaf", "core"};
    struct cluster_file file = {.level_count = leaves > 1 ? 3 : 2,
                                .cores = cluster->cores,
                                .cache_bytes = cluster->cache_bytes,
                                .copy_bandwidth = cluster->copy_bandwidth,
                                .memory_bandwidth = cluster->memory_bandwidth,
                                .measured = (int64_t)time(NULL)};
    snprintf(file.name, sizeof file.name, "measured");
    snprintf(file.source, sizeof file.source, "messages between ranks of %u nodes by %s", levels->nodes,
             context->transports[CONTEXT_FABRIC]->name);
    for (uint32_t level = 0; level < file.level_count; level++)
        snprintf(file.levels[level].name, sizeof file.levels[level].name, "%s", names[level]);
    file.levels[0].cost = (struct link_cost){cluster->near.latency, cluster->near.overhead, cluster->near.bandwidth};
    file.levels[0].size = context->world->local_size;
    file.levels[1].cost = costs[0];
    if (leaves > 1)
        file.levels[2].cost = costs[1];
    file.hosts = calloc(levels->nodes, sizeof *file.hosts);
    if (!file.hosts)
        return;
    file.host_count = levels->nodes;
    for (uint32_t node = 0; node < levels->nodes; node++) {
        snprintf(file.hosts[node].name, sizeof file.hosts[node].name, "%s",
                 context->endpoints[levels->leaders[node]].host);
        file.hosts[node].units[0] = leaf ? leaf[node] : 0;
    }
    qsort(file.hosts, file.host_count, sizeof *file.hosts, by_leaf);
    cluster_file_free(&levels->file);
    levels->file = file;
    struct error ignored = {0};
    if (levels->path[0])
        cluster_file_save(&file, levels->path, &ignored);
}

void tuner_levels_flat(struct tuner_levels *levels, weft_context *context, const struct simulated_cluster *cluster,
                       const struct link_cost *far)
{
    const struct link_parameters plausible = tuner_far_parameters(far);
    const struct link_cost costs[2] = {{plausible.latency, plausible.overhead, plausible.bandwidth}};
    levels_keep(levels, context, cluster, costs, NULL, 1);
}

/* ---- measuring ---- */

/* All ranks that represent a node have reached this point. */
static weft_status levels_meet(weft_comm *world, const struct tuner_levels *levels, uint32_t me)
{
    uint8_t out = 0, in = 0;
    for (uint32_t distance = 1; distance < levels->nodes; distance *= 2) {
        weft_request *request = NULL;
        int to = (int)levels->leaders[(me + distance) % levels->nodes];
        int from = (int)levels->leaders[(me + levels->nodes - distance) % levels->nodes];
        weft_status status = weft_receive_start(&in, 1, WEFT_U8, from, world, &request);
        if (status == WEFT_OK)
            status = weft_send(&out, 1, WEFT_U8, to, world);
        if (status == WEFT_OK)
            status = weft_wait(&request);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* One node's part of all rounds of all passes: costs[pass x rounds + round]. */
static weft_status take_rounds(weft_context *context, const struct tuner_levels *levels, size_t bytes, char *buffers,
                               struct link_cost *costs)
{
    weft_comm *world = context->world;
    uint32_t me = world->nodes[context->rank], rounds = leaves_rounds(levels->nodes);
    double window = ALL_SECONDS / (PASSES * rounds);
    window = window < WINDOW_LEAST ? WINDOW_LEAST : window > WINDOW_MOST ? WINDOW_MOST : window;
    for (uint32_t at = 0; at < PASSES * rounds; at++) {
        uint32_t partner = leaves_partner(levels->nodes, at % rounds, me);
        weft_status status = levels_meet(world, levels, me);
        struct link_cost cost = {0};
        int peer = (int)levels->leaders[partner];
        if (status == WEFT_OK && partner != me)
            status = tuner_tiny(world, buffers, TINY_ROUNDS, peer, me < partner, &cost);
        if (status == WEFT_OK && partner != me)
            status = tuner_exchange(world, buffers, bytes, peer, me < partner, window, &cost.bytes_per_second);
        if (status != WEFT_OK)
            return status;
        if (partner != me)
            costs[at] = cost;
    }
    return WEFT_OK;
}

/* Rank 0 takes in what every node measured: matrices[pass][a x nodes + b], a < b, and a further one of the best. */
static weft_status levels_collect(weft_context *context, const struct tuner_levels *levels, const struct link_cost *own,
                                  struct link_cost *from, struct link_cost *matrices)
{
    uint32_t n = levels->nodes, rounds = leaves_rounds(n);
    struct link_cost *best = matrices + (size_t)PASSES * n * n;
    for (uint32_t node = 0; node < n; node++) {
        weft_status status = WEFT_OK;
        if (node == 0)
            memcpy(from, own, PASSES * rounds * sizeof *from);
        else
            status =
                weft_receive(from, PASSES * rounds * sizeof *from, WEFT_U8, (int)levels->leaders[node], context->world);
        if (status != WEFT_OK)
            return status;
        for (uint32_t at = 0; at < PASSES * rounds; at++) {
            uint32_t partner = leaves_partner(n, at % rounds, node);
            if (partner <= node)
                continue; /* the lower node's clock counts for both */
            struct link_cost *kept = &best[node * n + partner], *cost = &from[at];
            matrices[(size_t)(at / rounds) * n * n + node * n + partner] = *cost;
            if (kept->bytes_per_second == 0 || cost->latency < kept->latency) {
                kept->latency = cost->latency;
                kept->overhead = cost->overhead;
            }
            if (cost->bytes_per_second > kept->bytes_per_second)
                kept->bytes_per_second = cost->bytes_per_second;
        }
    }
    return WEFT_OK;
}

/* Leaves on which at least two of the matrices agree. */
static void levels_conclude(struct tuner_levels *levels, weft_context *context, const struct simulated_cluster *cluster,
                            const struct link_cost *matrices)
{
    uint32_t n = levels->nodes, found[PASSES + 1][LEAVES_NODES_MOST], leaves[PASSES + 1], believed = PASSES;
    for (uint32_t i = 0; i <= PASSES; i++) {
        const struct leaves_measured measured = {n, matrices + (size_t)i * n * n};
        leaves[i] = leaves_infer(&measured, found[i]);
        if (!leaves[i])
            return; /* no memory: the result of the single link stays */
    }
    for (uint32_t i = 0; i <= PASSES; i++)
        for (uint32_t k = 0; k < i; k++)
            if (leaves[i] > 1 && leaves[k] == leaves[i] && memcmp(found[i], found[k], n * sizeof **found) == 0)
                believed = k;
    bool agreed = false;
    for (uint32_t i = 0; i <= PASSES; i++)
        agreed |= i != believed && leaves[i] == leaves[believed] &&
                  memcmp(found[i], found[believed], n * sizeof **found) == 0;
    if (!agreed) {
        leaves[believed] = 1;
        memset(found[believed], 0, sizeof found[believed]);
    }
    const struct leaves_measured best = {n, matrices + (size_t)believed * n * n};
    struct link_cost costs[2] = {{0}};
    leaves_costs(&best, found[believed], leaves[believed], &costs[0], &costs[1]);
    if (costs[0].bytes_per_second > 0)
        levels_keep(levels, context, cluster, costs, found[believed], leaves[believed]);
}

weft_status tuner_levels_measure(struct tuner_levels *levels, weft_context *context,
                                 const struct simulated_cluster *cluster, struct error *error)
{
    weft_comm *world = context->world;
    uint32_t n = levels->nodes, count = PASSES * leaves_rounds(n);
    double fitting = cluster->far.bandwidth * LARGE_SECONDS;
    size_t bytes = fitting < LARGE_LEAST ? LARGE_LEAST : fitting > LARGE_MOST ? LARGE_MOST : (size_t)fitting;
    bool leads = levels->leaders[world->nodes[context->rank]] == context->rank;
    void *buffers = NULL;
    struct link_cost *costs = NULL, *from = NULL, *matrices = NULL;
    weft_status status = WEFT_OK, sent = WEFT_OK;
    if (leads) {
        status = heap_alloc(context->heap, 2 * bytes, &buffers, error);
        costs = calloc(count, sizeof *costs);
        from = calloc(count, sizeof *from);
        matrices = calloc((size_t)(PASSES + 1) * n * n, sizeof *matrices);
        if (status == WEFT_OK && (!costs || !from || !matrices))
            status = error_memory(error, (size_t)(PASSES + 1) * n * n * sizeof *matrices, "links between nodes");
        if (status == WEFT_OK)
            sent = take_rounds(context, levels, bytes, buffers, costs);
        if (status == WEFT_OK && sent == WEFT_OK)
            sent = context->rank == 0 ? levels_collect(context, levels, costs, from, matrices)
                                      : weft_send(costs, count * sizeof *costs, WEFT_U8, 0, world);
        if (sent != WEFT_OK)
            status = error_set(error, sent, "%s", weft_message(context));
        if (status == WEFT_OK && context->rank == 0)
            levels_conclude(levels, context, cluster, matrices);
    }
    heap_free(context->heap, buffers);
    free(costs);
    free(from);
    free(matrices);
    tuner_forget(context);
    return status;
}

/* ---- telling ---- */

/* From rank 0 down a binomial tree. */
static weft_status levels_spread(weft_comm *world, void *data, size_t bytes)
{
    uint32_t distance = 1, me = world->rank;
    weft_status status = WEFT_OK;
    while (distance < world->size && !(me & distance))
        distance *= 2;
    if (me)
        status = weft_receive(data, bytes, WEFT_U8, (int)(me - distance), world);
    for (distance /= 2; distance && status == WEFT_OK; distance /= 2)
        if (me + distance < world->size)
            status = weft_send(data, bytes, WEFT_U8, (int)(me + distance), world);
    return status;
}

weft_status tuner_levels_distribute(const struct tuner_levels *levels, uint32_t maps, struct tuner *tuner,
                                    weft_context *context, struct error *error)
{
    weft_comm *world = context->world;
    uint32_t n = levels->nodes, *by_node = calloc((size_t)CLUSTER_MAPS * n, sizeof *by_node);
    const char **hosts = host_names(levels, context);
    uint32_t *units[CLUSTER_MAPS] = {by_node, by_node + n};
    weft_status status = WEFT_OK;
    for (uint32_t map = 0; map < maps; map++)
        tuner->units[map] = calloc(world->size, sizeof *tuner->units[map]);
    if (!by_node || !hosts || !tuner->units[maps - 1] || !tuner->units[0])
        status = error_memory(error, (size_t)world->size * maps * sizeof **tuner->units, "the leaves of the world");
    if (status == WEFT_OK && context->rank == 0)
        status = cluster_file_place(&levels->file, hosts, n, units, error);
    weft_status told = status == WEFT_OK ? levels_spread(world, by_node, (size_t)maps * n * sizeof *by_node) : WEFT_OK;
    if (told != WEFT_OK)
        status = error_set(error, told, "%s", weft_message(context));
    for (uint32_t map = 0; status == WEFT_OK && map < maps; map++)
        for (uint32_t rank = 0; rank < world->size; rank++)
            tuner->units[map][rank] = units[map][world->nodes[rank]];
    free(by_node);
    free(hosts);
    tuner_forget(context);
    if (status == WEFT_OK)
        status = comm_number_units(world, error);
    return status;
}
