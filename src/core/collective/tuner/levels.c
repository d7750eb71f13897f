/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The levels above nodes: given by the user, stored by an earlier run on the same hosts, or measured. One rank of each
 * node measures with one of every other node, in rounds in which all are busy at once (core/topology/leaves.h). A pass
 * over all rounds is repeated, so that load is detected, until a further one confirms what was found.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "core/collective/communicator/context.h"
#include "core/topology/leaves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES_MOST   6
#define IDLE_SHARE    0.8 /* of the rate of a pair by itself: reached when all pairs are busy, if the machine is idle */
#define TINY_ROUNDS   10
#define LARGE_SECONDS 2e-3 /* time of a large message, about */
#define LARGE_LEAST   (64u << 10)
#define LARGE_MOST    (1u << 20)
#define PASS_SECONDS  0.12 /* of all rounds of a pass, about; ... */
#define WINDOW_LEAST  10e-3
#define WINDOW_MOST   40e-3 /* ... and of one */
#define METHOD        3     /* of the method of measuring: results stored by another version are ignored */
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

/* One node's part of all rounds of a pass: costs[round]. */
static weft_status take_rounds(weft_context *context, const struct tuner_levels *levels, size_t bytes, char *buffers,
                               struct link_cost *costs)
{
    weft_comm *world = context->world;
    uint32_t me = world->nodes[context->rank], rounds = leaves_rounds(levels->nodes);
    double window = PASS_SECONDS / rounds;
    window = window < WINDOW_LEAST ? WINDOW_LEAST : window > WINDOW_MOST ? WINDOW_MOST : window;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t partner = leaves_partner(levels->nodes, round, me);
        weft_status status = levels_meet(world, levels, me);
        struct link_cost cost = {0};
        int peer = (int)levels->leaders[partner];
        if (status == WEFT_OK && partner != me)
            status = tuner_tiny(world, buffers, TINY_ROUNDS, peer, me < partner, &cost);
        if (status == WEFT_OK && partner != me)
            status = tuner_exchange(world, buffers, bytes, peer, me < partner, window, &cost.bytes_per_second);
        if (status != WEFT_OK)
            return status;
        costs[round] = cost;
    }
    return WEFT_OK;
}

/* Rank 0 takes in what every node measured in a pass: matrix[a x nodes + b], a < b. */
static weft_status levels_collect(weft_context *context, const struct tuner_levels *levels, const struct link_cost *own,
                                  struct link_cost *from, struct link_cost *matrix)
{
    uint32_t n = levels->nodes, rounds = leaves_rounds(n);
    for (uint32_t node = 0; node < n; node++) {
        weft_status status = WEFT_OK;
        if (node == 0)
            memcpy(from, own, rounds * sizeof *from);
        else
            status = weft_receive(from, rounds * sizeof *from, WEFT_U8, (int)levels->leaders[node], context->world);
        if (status != WEFT_OK)
            return status;
        for (uint32_t round = 0; round < rounds; round++) {
            uint32_t partner = leaves_partner(n, round, node);
            if (partner > node) /* the lower node's clock counts for both */
                matrix[node * n + partner] = from[round];
        }
    }
    return WEFT_OK;
}

/* Measuring, and what rank 0 concludes from the passes so far. */
struct levels_passes {
    double alone; /* bytes a second of a pair by itself */
    size_t bytes; /* of a large message */
    void *buffers;
    struct link_cost *costs, *from; /* of this node and of another one in each round */
    struct link_cost *pass, *best;  /* [a x nodes + b], a < b: the last pass, and the best of all */
    uint32_t count, leaves, leaf[LEAVES_NODES_MOST];
};

static bool is_grouping(const struct levels_passes *passes, uint32_t nodes, uint32_t leaves, const uint32_t *leaf)
{
    return passes->leaves == leaves && memcmp(passes->leaf, leaf, nodes * sizeof *leaf) == 0;
}

/*
 * Take in a pass; true if there is to be another. There is none after one that changes nothing and says the same by
 * itself, if the machine was idle enough: some pair was nearly as fast as by itself. Without memory nothing is found.
 */
static bool levels_conclude(struct levels_passes *passes, uint32_t nodes)
{
    const struct leaves_measured pass = {nodes, passes->pass}, best = {nodes, passes->best};
    uint32_t before[LEAVES_NODES_MOST], by_itself[LEAVES_NODES_MOST];
    const uint32_t leaves_before = passes->leaves, leaves_by_itself = leaves_infer(&pass, by_itself);
    memcpy(before, passes->leaf, sizeof before);
    leaves_combine(&pass, passes->best);
    passes->leaves = leaves_infer(&best, passes->leaf);
    passes->count++;
    if (!passes->leaves)
        return false;
    double fastest = 0;
    for (uint32_t i = 0; i < nodes * nodes; i++)
        fastest = passes->best[i].bytes_per_second > fastest ? passes->best[i].bytes_per_second : fastest;
    const bool same = is_grouping(passes, nodes, leaves_before, before),
               confirmed = leaves_by_itself && is_grouping(passes, nodes, leaves_by_itself, by_itself);
    if (passes->count < PASSES_MOST)
        return !same || !confirmed || fastest <= passes->alone * IDLE_SHARE;
    if (!same) { /* load changed the result to the end: none can be believed */
        passes->leaves = 1;
        memset(passes->leaf, 0, sizeof passes->leaf);
    }
    return false;
}

/* A pass, and whether there is to be another: rank 0 decides and tells the other nodes. */
static weft_status levels_pass(weft_context *context, const struct tuner_levels *levels, struct levels_passes *passes,
                               bool *again)
{
    const uint32_t rounds = leaves_rounds(levels->nodes);
    uint8_t more = 0;
    weft_status status = take_rounds(context, levels, passes->bytes, passes->buffers, passes->costs);
    if (status == WEFT_OK && context->rank != 0) {
        status = weft_send(passes->costs, rounds * sizeof *passes->costs, WEFT_U8, 0, context->world);
        if (status == WEFT_OK)
            status = weft_receive(&more, 1, WEFT_U8, 0, context->world);
    } else if (status == WEFT_OK) {
        status = levels_collect(context, levels, passes->costs, passes->from, passes->pass);
        more = status == WEFT_OK && levels_conclude(passes, levels->nodes);
        for (uint32_t node = 1; node < levels->nodes && status == WEFT_OK; node++)
            status = weft_send(&more, 1, WEFT_U8, (int)levels->leaders[node], context->world);
    }
    *again = more;
    return status;
}

static weft_status levels_passes_open(struct levels_passes *passes, const weft_context *context, uint32_t nodes,
                                      struct error *error)
{
    const size_t pairs = (size_t)nodes * nodes;
    weft_status status = heap_alloc(context->heap, 2 * passes->bytes, &passes->buffers, error);
    passes->costs = calloc(nodes, sizeof *passes->costs);
    passes->from = calloc(nodes, sizeof *passes->from);
    passes->pass = calloc(pairs, sizeof *passes->pass);
    passes->best = calloc(pairs, sizeof *passes->best);
    if (status == WEFT_OK && (!passes->costs || !passes->from || !passes->pass || !passes->best))
        status = error_memory(error, pairs * sizeof *passes->best, "links between nodes");
    return status;
}

static void levels_passes_close(struct levels_passes *passes, const weft_context *context)
{
    heap_free(context->heap, passes->buffers);
    free(passes->costs);
    free(passes->from);
    free(passes->pass);
    free(passes->best);
}

weft_status tuner_levels_measure(struct tuner_levels *levels, weft_context *context,
                                 const struct simulated_cluster *cluster, struct error *error)
{
    const double alone = cluster->far.bandwidth, fitting = alone * LARGE_SECONDS;
    struct levels_passes passes = {.alone = alone,
                                   .bytes = fitting < LARGE_LEAST  ? LARGE_LEAST
                                            : fitting > LARGE_MOST ? LARGE_MOST
                                                                   : (size_t)fitting};
    weft_status status = WEFT_OK, sent = WEFT_OK;
    if (levels->leaders[context->world->nodes[context->rank]] == context->rank) {
        status = levels_passes_open(&passes, context, levels->nodes, error);
        for (bool again = status == WEFT_OK; again && sent == WEFT_OK;)
            sent = levels_pass(context, levels, &passes, &again);
        if (sent != WEFT_OK)
            status = error_set(error, sent, "%s", weft_message(context));
    }
    if (status == WEFT_OK && context->rank == 0 && passes.leaves) {
        const struct leaves_measured best = {levels->nodes, passes.best};
        struct link_cost between[2] = {{0}};
        leaves_costs(&best, passes.leaf, passes.leaves, &between[0], &between[1]);
        if (between[0].bytes_per_second > 0)
            levels_keep(levels, context, cluster, between, passes.leaf, passes.leaves);
    }
    levels_passes_close(&passes, context);
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
