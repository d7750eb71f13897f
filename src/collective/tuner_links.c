/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tuner knows of links: rank 0 measures with one near and one far peer and tells all. Near links are kept
 * between runs (topology/links); far links are measured anew, since a cable may have been changed, and kept for others
 * to read.
 */
#include "collective/tuner.h"

#include "base/clock.h"
#include "collective/context.h"
#include "topology/links.h"
#include "topology/machine.h"
#include "transport/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_ROUNDS    100
#define FAR_ROUNDS     20
#define LARGE_BYTES    (1u << 20)
#define LARGE_ROUNDS   4
#define COPY_BYTES     (256u << 10)
#define NEAR_PLAUSIBLE 2e-6 /* seconds of a tiny message; slower: a busy machine was measured, not its link */
#define NOBODY         UINT32_MAX
#define LINK_KEY_NEAR  "near/%s"
#define LINK_KEY_FAR   "%s/%s"

/* What rank 0 tells all: who measures what, and what is known so far. */
struct agreement {
    uint32_t near_peer, far_peer; /* NOBODY: nothing to measure */
    struct simulated_cluster cluster;
    char source[sizeof((struct tuner){0}).source];
};

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

/* ---- measuring ---- */

/* Best time of one message of `bytes` there and back, halved; both ranks call it. */
static weft_status ping(weft_comm *world, void *buffer, size_t bytes, int rounds, int peer, bool first, double *seconds)
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

/* A message takes overhead at both ends and latency between: how a round trip divides was measured once. */
static weft_status measure_link(weft_comm *world, int peer, bool first, bool near, struct link_cost *cost,
                                struct error *error)
{
    weft_context *context = world->context;
    void *buffer = NULL;
    double tiny = 0, large = 0;
    weft_status status = heap_alloc(context->heap, LARGE_BYTES, &buffer, error);
    if (status != WEFT_OK)
        return status;
    status = ping(world, buffer, 8, near ? TINY_ROUNDS : FAR_ROUNDS, peer, first, &tiny);
    if (status == WEFT_OK)
        status = ping(world, buffer, LARGE_BYTES, LARGE_ROUNDS, peer, first, &large);
    heap_free(context->heap, buffer);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(context));
    double latency_share = near ? 0.4 : 0.8;
    cost->latency = tiny * latency_share;
    cost->overhead = tiny * (1 - latency_share) / 2;
    cost->bytes_per_second = large > tiny ? LARGE_BYTES / (large - tiny) : LARGE_BYTES / large;
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

/* Measured under load, a number may be off by orders of magnitude: it is kept within what such links can have. */
static struct link_parameters near_parameters(const struct link_cost *cost)
{
    return (struct link_parameters){.latency = clamp(cost->latency, 30e-9, 500e-9),
                                    .overhead = clamp(cost->overhead, 20e-9, 500e-9),
                                    .bandwidth = clamp(cost->bytes_per_second, 2e9, 100e9)};
}

static struct link_parameters far_parameters(const struct link_cost *cost)
{
    return (struct link_parameters){.latency = clamp(cost->latency, 500e-9, 1e-3),
                                    .overhead = clamp(cost->overhead, 100e-9, 20e-6),
                                    .bandwidth = clamp(cost->bytes_per_second, 1e6, 200e9)};
}

/* ---- agreeing ---- */

/* What rank 0 knows without measuring. */
static void survey(weft_context *context, struct agreement *agreement, char *kind, size_t size)
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
    double copied = measure_copy();
    agreement->cluster.copy_bandwidth = clamp(copied, 5e9, 200e9);
    agreement->cluster.memory_bandwidth = agreement->cluster.copy_bandwidth * 0.4;
    agreement->near_peer = agreement->far_peer = NOBODY;
    for (uint32_t r = context->ranks; r-- > 1;)
        *(near_reaches(context->near, r) ? &agreement->near_peer : &agreement->far_peer) = r;
    char key[LINK_KEY_BYTES];
    snprintf(key, sizeof key, LINK_KEY_NEAR, kind);
    links_load(NULL, &links, NULL);
    const struct link_cost *kept = links_find(&links, LINK_NEAR, key);
    if (kept) {
        agreement->cluster.near = near_parameters(kept);
        agreement->near_peer = NOBODY;
        snprintf(agreement->source, sizeof agreement->source, "links measured earlier on this kind of machine");
    }
    if (context->progress.crowded)
        agreement->near_peer = NOBODY; /* a busy machine would be measured, not its links */
    links_free(&links);
}

/* The measurements were no operations of the user's: numbers and log begin anew. */
static void forget(weft_context *context)
{
    progress_enter(context);
    for (uint32_t r = 0; r < context->ranks; r++)
        context->world->sent[r] = context->world->received[r] = 0;
    operation_log_clear(context->log);
    progress_leave(context);
}

/* Measure with the peers that were named; rank 0 keeps the results. */
static weft_status measure(weft_context *context, struct agreement *agreement, const char *kind, struct error *error)
{
    bool first = context->rank == 0;
    struct link_cost near = {0}, far = {0};
    char key[LINK_KEY_BYTES];
    weft_status status = WEFT_OK;
    bool near_here = agreement->near_peer != NOBODY && (first || agreement->near_peer == context->rank);
    bool far_here = agreement->far_peer != NOBODY && (first || agreement->far_peer == context->rank);
    if (near_here)
        status = measure_link(context->world, first ? (int)agreement->near_peer : 0, first, true, &near, error);
    if (status == WEFT_OK && far_here)
        status = measure_link(context->world, first ? (int)agreement->far_peer : 0, first, false, &far, error);
    forget(context);
    if (status != WEFT_OK || !first)
        return status;
    /* A cache that cannot be read or written costs a measurement next time, nothing else. */
    struct links links;
    links_load(NULL, &links, NULL);
    near_here = near_here && near.latency + 2 * near.overhead < NEAR_PLAUSIBLE;
    if (near_here) {
        agreement->cluster.near = near_parameters(&near);
        snprintf(key, sizeof key, LINK_KEY_NEAR, kind);
        links_put(&links, LINK_NEAR, key, &near, NULL);
    }
    if (far_here) {
        agreement->cluster.far = far_parameters(&far);
        snprintf(key, sizeof key, LINK_KEY_FAR, context->transports[CONTEXT_FABRIC]->name, kind);
        links_put(&links, LINK_FAR, key, &far, NULL);
    }
    links_save(&links, NULL, NULL);
    links_free(&links);
    snprintf(agreement->source, sizeof agreement->source, "links measured by rank 0%s%s", near_here ? " near" : "",
             far_here ? " far" : "");
    return WEFT_OK;
}

weft_status tuner_open(struct tuner *tuner, weft_context *context, struct error *error)
{
    struct agreement agreement = {.near_peer = NOBODY, .far_peer = NOBODY, .cluster = tuner_default_cluster()};
    struct agreement *all = NULL;
    char kind[LINK_KEY_BYTES - 64] = "";
    snprintf(agreement.source, sizeof agreement.source, "numbers of a common machine");
    tuner->cluster = agreement.cluster; /* for the measurements themselves, which are messages */
    if (context->rank == 0)
        survey(context, &agreement, kind, sizeof kind);
    weft_status status = context_tell_all(context, "tuner", &agreement, sizeof agreement, (void **)&all, error);
    if (status == WEFT_OK && (all[0].near_peer != NOBODY || all[0].far_peer != NOBODY)) {
        agreement = all[0];
        free(all);
        all = NULL;
        status = measure(context, &agreement, kind, error);
        if (status == WEFT_OK)
            status = context_tell_all(context, "tuner measured", &agreement, sizeof agreement, (void **)&all, error);
    }
    if (status != WEFT_OK)
        return status;
    tuner->cluster = all[0].cluster;
    memcpy(tuner->source, all[0].source, sizeof tuner->source);
    free(all);
    return WEFT_OK;
}
