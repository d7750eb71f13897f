/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuner's links: rank 0 measures with one near and one far peer and distributes the result. Near links are stored
 * between runs, the best of several (topology/links); the levels above nodes are stored for each set of hosts
 * (levels.c), and measured again when one measured link contradicts them, because a cable may have been changed.
 */
#include "core/collective/tuner/tuner.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/topology/links.h"
#include "core/topology/machine.h"
#include "core/transport/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_ROUNDS        100
#define LARGE_BYTES        (1u << 20)
#define LARGE_ROUNDS       4
#define COPY_BYTES         (256u << 10)
#define NEAR_LATENCY_SHARE 0.4
#define NEAR_PLAUSIBLE     2e-6 /* seconds of a tiny message; slower: a busy machine was measured, not its link */
#define NO_PEER            UINT32_MAX

/* Of a link between nodes. */
#define FAR_ROUNDS      20
#define STREAM_MESSAGES 16
#define OVERHEAD_LEAST  0.05 /* of the time of a tiny message, at each end */
#define OVERHEAD_MOST   0.45
#define SAMPLE_BYTES    (64u << 10)
#define MESSAGE_SECONDS 2e-3  /* time of a large message, about */
#define WINDOW_SECONDS  15e-3 /* of messages both ways; ... */
#define WARM_SHARE      0.3   /* ... this part of it is not counted */

/* Rank 0's message to all ranks: which ranks measure which links, and the values known so far. */
struct agreement {
    uint32_t near_peer, far_peer; /* NO_PEER: nothing to measure */
    uint32_t all_pairs;           /* nodes are to be measured pair by pair */
    uint32_t maps;                /* levels of units above nodes that are known */
    struct simulated_cluster cluster;
    char source[sizeof((struct tuner){0}).source];
};

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* ---- measuring ---- */

static weft_status tuner_ping(weft_comm *world, void *buffer, size_t bytes, int rounds, int peer, bool first,
                              double *seconds)
{
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        uint64_t began = clock_now();
        weft_status status =
            first ? weft_send(buffer, bytes, WEFT_U8, peer, world) : weft_receive(buffer, bytes, WEFT_U8, peer, world);
        if (status == WEFT_OK)
            status = first ? weft_receive(buffer, bytes, WEFT_U8, peer, world)
                           : weft_send(buffer, bytes, WEFT_U8, peer, world);
        if (status != WEFT_OK)
            return status;
        double took = (double)(clock_now() - began) * 0.5e-9;
        if (took < best)
            best = took;
    }
    *seconds = best;
    return WEFT_OK;
}

/* The time of a message is the overhead at both ends plus the latency between. The ratio through memory was measured
 * once.
 */
static weft_status measure_near(weft_comm *world, int peer, bool first, struct link_cost *cost, struct error *error)
{
    weft_context *context = world->context;
    void *buffer = NULL;
    double tiny = 0, large = 0;
    weft_status status = heap_alloc(context->heap, LARGE_BYTES, &buffer, error);
    if (status != WEFT_OK)
        return status;
    status = tuner_ping(world, buffer, 8, TINY_ROUNDS, peer, first, &tiny);
    if (status == WEFT_OK)
        status = tuner_ping(world, buffer, LARGE_BYTES, LARGE_ROUNDS, peer, first, &large);
    heap_free(context->heap, buffer);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(context));
    cost->latency = tiny * NEAR_LATENCY_SHARE;
    cost->overhead = tiny * (1 - NEAR_LATENCY_SHARE) / 2;
    cost->bytes_per_second = large > tiny ? LARGE_BYTES / (large - tiny) : LARGE_BYTES / large;
    return WEFT_OK;
}

/*
 * Both send and receive as long as each message of the first announces another one. Bytes that at first fill buffers on
 * the way, or pass as a burst, do not count.
 */
weft_status tuner_exchange(weft_comm *world, char *buffers, size_t bytes, int peer, bool first, double window,
                           double *rate)
{
    uint64_t began = clock_now(), counted = began;
    size_t moved = 0;
    char *in = buffers, *out = buffers + bytes;
    bool warm = false;
    for (bool more = true; more;) {
        weft_request *request = NULL;
        double passed = (double)(clock_now() - began) * 1e-9;
        out[0] = passed < window;
        weft_status status = weft_receive_start(in, bytes, WEFT_U8, peer, world, &request);
        if (status == WEFT_OK)
            status = weft_send(out, bytes, WEFT_U8, peer, world);
        if (status == WEFT_OK)
            status = weft_wait(&request);
        if (status != WEFT_OK)
            return status;
        more = first ? out[0] : in[0];
        moved += bytes;
        if (!warm && more && passed > window * WARM_SHARE) {
            warm = true;
            counted = clock_now();
            moved = 0;
        }
    }
    *rate = (double)moved / ((double)(clock_now() - counted) * 1e-9);
    return WEFT_OK;
}

/* `count` tiny messages in a row, then an answer: the best time of `rounds`. */
static weft_status links_stream(weft_comm *world, void *buffer, int count, int rounds, int peer, bool first,
                                double *seconds)
{
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        uint64_t began = clock_now();
        weft_status status = WEFT_OK;
        for (int k = 0; k < count && status == WEFT_OK; k++)
            status = first ? weft_send(buffer, 8, WEFT_U8, peer, world) : weft_receive(buffer, 8, WEFT_U8, peer, world);
        if (status == WEFT_OK)
            status = first ? weft_receive(buffer, 8, WEFT_U8, peer, world) : weft_send(buffer, 8, WEFT_U8, peer, world);
        if (status != WEFT_OK)
            return status;
        double took = (double)(clock_now() - began) * 1e-9;
        if (took < best)
            best = took;
    }
    *seconds = best;
    return WEFT_OK;
}

weft_status tuner_tiny(weft_comm *world, void *buffer, int rounds, int peer, bool first, struct link_cost *cost)
{
    double one = 0, many = 0;
    weft_status status = tuner_ping(world, buffer, 8, rounds, peer, first, &one);
    if (status == WEFT_OK)
        status = links_stream(world, buffer, STREAM_MESSAGES, rounds / 2, peer, first, &many);
    double each = (many - 2 * one) / (STREAM_MESSAGES - 1);
    cost->overhead = clamp(each, one * OVERHEAD_LEAST, one * OVERHEAD_MOST);
    cost->latency = one - 2 * cost->overhead;
    return status;
}

/* The first estimate of the rate only determines the message size: many must fit into the window. */
static weft_status measure_far(weft_comm *world, int peer, bool first, struct link_cost *cost, struct error *error)
{
    weft_context *context = world->context;
    void *buffer = NULL;
    double large = 0, agreed = 0, rate = 0;
    weft_status status = heap_alloc(context->heap, 2 * LARGE_BYTES, &buffer, error);
    if (status != WEFT_OK)
        return status;
    status = tuner_tiny(world, buffer, FAR_ROUNDS, peer, first, cost);
    if (status == WEFT_OK)
        status = tuner_ping(world, buffer, SAMPLE_BYTES, LARGE_ROUNDS, peer, first, &large);
    if (status == WEFT_OK) {
        agreed = large;
        status = first ? weft_send(&agreed, 1, WEFT_F64, peer, world) : weft_receive(&agreed, 1, WEFT_F64, peer, world);
    }
    size_t bytes = agreed > 0 ? (size_t)clamp(SAMPLE_BYTES / agreed * MESSAGE_SECONDS, SAMPLE_BYTES, LARGE_BYTES) : 0;
    if (status == WEFT_OK)
        status = tuner_exchange(world, buffer, bytes, peer, first, WINDOW_SECONDS, &rate);
    heap_free(context->heap, buffer);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(context));
    cost->bytes_per_second = rate;
    return WEFT_OK;
}

/* Bytes a second that one core copies within its cache. */
static double measure_copy(void)
{
    char *memory = calloc(2, COPY_BYTES);
    double best = 1e9;
    if (!memory)
        return 0;
    for (int i = 0; i < 8; i++) {
        uint64_t began = clock_now();
        copy_bytes(memory, memory + COPY_BYTES, COPY_BYTES, false);
        double took = (double)(clock_now() - began) * 1e-9;
        if (took < best)
            best = took;
    }
    free(memory);
    return COPY_BYTES / best;
}

/* Under load a measurement may be off by orders of magnitude: it is limited to the range of such links. */
static struct link_parameters near_parameters(const struct link_cost *cost)
{
    return (struct link_parameters){.latency = clamp(cost->latency, 30e-9, 500e-9),
                                    .overhead = clamp(cost->overhead, 20e-9, 500e-9),
                                    .bandwidth = clamp(cost->bytes_per_second, 2e9, 100e9)};
}

struct link_parameters tuner_far_parameters(const struct link_cost *cost)
{
    return (struct link_parameters){.latency = clamp(cost->latency, 500e-9, 1e-3),
                                    .overhead = clamp(cost->overhead, 100e-9, 20e-6),
                                    .bandwidth = clamp(cost->bytes_per_second, 1e6, 200e9)};
}

/* ---- agreeing ---- */

/* The number of nodes on rank 0's machine: with containers or namespaces there are several, which share its cores. */
static uint32_t nodes_sharing(const weft_context *context, const struct tuner_levels *levels)
{
    uint32_t count = 0;
    for (uint32_t node = 0; node < levels->nodes; node++)
        count += context_same_kernel(&context->endpoints[levels->leaders[node]], &context->endpoints[0]);
    return count;
}

/* The values that rank 0 has without measuring. */
static void links_survey(weft_context *context, const struct tuner_levels *levels, bool given,
                         struct agreement *agreement, char *kind, size_t size)
{
    struct machine *machine = NULL;
    struct links links;
    snprintf(kind, size, "unknown");
    if (machine_discover_processors(&machine, NULL) == WEFT_OK) {
        machine_kind(machine, kind, size);
        if (machine->cache_count)
            agreement->cluster.cache_bytes = context->streaming_bytes;
    }
    machine_free(machine);
    agreement->cluster.cores = context->cores;
    agreement->cluster.sharing = nodes_sharing(context, levels);
    double copied = measure_copy();
    agreement->cluster.copy_bandwidth = clamp(copied, 5e9, 200e9);
    agreement->cluster.memory_bandwidth = agreement->cluster.copy_bandwidth * 0.4;
    for (uint32_t r = context->ranks; r-- > 1;)
        *(shm_reaches(context->shm, r) ? &agreement->near_peer : &agreement->far_peer) = r;
    char key[LINK_KEY_BYTES];
    snprintf(key, sizeof key, LINKS_KEY_NEAR, kind);
    links_load(NULL, &links, NULL);
    const struct link_entry *kept = links_find(&links, LINK_NEAR, key);
    if (kept) {
        agreement->cluster.near = near_parameters(&kept->cost);
        snprintf(agreement->source, sizeof agreement->source, "links measured earlier on this kind of machine");
    }
    if ((kept && kept->samples >= LINKS_SAMPLES) || context->progress.crowded)
        agreement->near_peer = NO_PEER; /* known well, or more ranks than cores, which would disturb the measurement */
    links_free(&links);
    if (given) {
        agreement->cluster = tuner_cluster_of(&levels->file);
        agreement->near_peer = agreement->far_peer = NO_PEER;
        snprintf(agreement->source, sizeof agreement->source, "as the cluster file '%.80s' says", levels->file.name);
    }
}

void tuner_forget(weft_context *context)
{
    progress_enter(context);
    for (uint32_t r = 0; r < context->ranks; r++)
        context->world->sent[r] = context->world->received[r] = 0;
    operation_log_clear(context->log);
    progress_leave(context);
}

/* A cache that cannot be read or written costs a measurement next time, nothing else. */
static void links_keep(weft_context *context, const char *kind, struct agreement *agreement,
                       const struct link_cost *near, const struct link_cost *far)
{
    struct links links;
    char key[LINK_KEY_BYTES];
    links_load(NULL, &links, NULL);
    if (near) {
        snprintf(key, sizeof key, LINKS_KEY_NEAR, kind);
        links_improve(&links, LINK_NEAR, key, near, NULL);
        const struct link_entry *best = links_find(&links, LINK_NEAR, key);
        agreement->cluster.near = near_parameters(best ? &best->cost : near);
    }
    if (far) {
        snprintf(key, sizeof key, LINKS_KEY_FAR, context->transports[CONTEXT_FABRIC]->name, kind);
        links_put(&links, LINK_FAR, key, far, NULL);
    }
    links_save(&links, NULL, NULL);
    links_free(&links);
}

/* Measure with the named peers; rank 0 stores the results, and checks them against the values that it knew. */
static weft_status links_measure(weft_context *context, struct tuner_levels *levels, struct agreement *agreement,
                                 const char *kind, struct error *error)
{
    bool first = context->rank == 0;
    struct link_cost near = {0}, far = {0};
    weft_status status = WEFT_OK;
    bool near_here = agreement->near_peer != NO_PEER && (first || agreement->near_peer == context->rank);
    bool far_here = agreement->far_peer != NO_PEER && (first || agreement->far_peer == context->rank);
    if (near_here)
        status = measure_near(context->world, first ? (int)agreement->near_peer : 0, first, &near, error);
    if (status == WEFT_OK && far_here)
        status = measure_far(context->world, first ? (int)agreement->far_peer : 0, first, &far, error);
    tuner_forget(context);
    if (status != WEFT_OK || !first)
        return status;
    near_here = near_here && near.latency + 2 * near.overhead < NEAR_PLAUSIBLE;
    links_keep(context, kind, agreement, near_here ? &near : NULL, far_here ? &far : NULL);
    if (near_here)
        snprintf(agreement->source, sizeof agreement->source, "links measured by rank 0");
    if (!far_here)
        return WEFT_OK;
    snprintf(agreement->source, sizeof agreement->source, "links measured earlier among these hosts");
    if (tuner_levels_contradict(levels, &far)) {
        snprintf(agreement->source, sizeof agreement->source, "links measured by rank 0");
        agreement->all_pairs = levels->measurable;
        tuner_levels_flat(levels, context, &agreement->cluster, &far);
    }
    return WEFT_OK;
}

/* The simulation's levels above nodes follow rank 0's description of the network. */
static void adopt_levels(const struct tuner_levels *levels, struct agreement *agreement)
{
    const struct simulated_cluster known = tuner_cluster_of(&levels->file);
    if (levels->file.level_count < 2)
        return;
    agreement->maps = cluster_file_maps(&levels->file);
    if (agreement->all_pairs)
        snprintf(agreement->source, sizeof agreement->source, "links measured between all pairs of %u nodes",
                 levels->nodes);
    agreement->cluster.far = known.far;
    memcpy(agreement->cluster.above, known.above, sizeof known.above);
}

/* Distribute rank 0's agreement. */
static weft_status links_agree(weft_context *context, const char *what, struct agreement *agreement,
                               struct error *error)
{
    struct agreement *all = NULL;
    weft_status status = context_allgather(context, what, agreement, sizeof *agreement, (void **)&all, error);
    if (status == WEFT_OK)
        *agreement = all[0];
    free(all);
    return status;
}

weft_status tuner_open(struct tuner *tuner, weft_context *context, const char *topology, struct error *error)
{
    struct agreement agreement = {.near_peer = NO_PEER, .far_peer = NO_PEER, .cluster = tuner_default_cluster()};
    struct tuner_levels levels;
    char kind[LINK_KEY_BYTES - 64] = "";
    snprintf(agreement.source, sizeof agreement.source, "numbers of a common machine");
    tuner->cluster = agreement.cluster; /* for the measurements themselves, which are messages */
    weft_status status = tuner_levels_open(&levels, context, topology, error);
    if (status == WEFT_OK && context->rank == 0)
        links_survey(context, &levels, topology != NULL, &agreement, kind, sizeof kind);
    if (status == WEFT_OK)
        status = links_agree(context, "tuner", &agreement, error);
    bool measures = agreement.near_peer != NO_PEER || agreement.far_peer != NO_PEER;
    if (status == WEFT_OK && measures)
        status = links_measure(context, &levels, &agreement, kind, error);
    if (status == WEFT_OK && measures && levels.nodes > 1) /* on one node only the prices remain to be distributed */
        status = links_agree(context, "tuner measured", &agreement, error);
    if (status == WEFT_OK && agreement.all_pairs)
        status = tuner_levels_measure(&levels, context, &agreement.cluster, error);
    if (context->rank == 0)
        adopt_levels(&levels, &agreement);
    if (status == WEFT_OK && (measures || levels.nodes > 1))
        status = links_agree(context, "tuner levels", &agreement, error);
    tuner->cluster = agreement.cluster;
    memcpy(tuner->source, agreement.source, sizeof tuner->source);
    if (status == WEFT_OK && agreement.maps)
        status = tuner_levels_distribute(&levels, agreement.maps, tuner, context, error);
    tuner_levels_close(&levels);
    return status;
}

void tuner_keep(struct tuner *tuner, const uint32_t *kept, uint32_t count)
{
    for (int map = 0; map < SHAPE_LEVELS; map++)
        for (uint32_t r = 0; tuner->units[map] && r < count; r++)
            tuner->units[map][r] = tuner->units[map][kept[r]];
}

void tuner_close(struct tuner *tuner)
{
    for (uint32_t map = 0; map < SHAPE_LEVELS; map++)
        free(tuner->units[map]);
    memset(tuner->units, 0, sizeof tuner->units);
}
