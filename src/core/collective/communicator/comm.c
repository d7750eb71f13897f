/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/communicator/comm.h"

#include "base/hash.h"
#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *comm_name(uint32_t id, char *text, size_t size)
{
    if (id == COMM_WORLD)
        snprintf(text, size, "world");
    else
        snprintf(text, size, "communicator %u", id);
    return text;
}

/* ---- leaves ---- */

/*
 * Units of the next level in order of first appearance. one_of[unit] is a world rank of each of `count` units; on
 * return, of each unit of the next level. Returns their number.
 */
static uint32_t comm_group_units(const uint32_t *unit_of_rank, uint32_t *one_of, uint32_t count, uint32_t *above)
{
    uint32_t groups = 0;
    for (uint32_t unit = 0; unit < count; unit++) {
        uint32_t group = 0;
        while (group < groups && unit_of_rank[one_of[group]] != unit_of_rank[one_of[unit]])
            group++;
        if (group == groups)
            one_of[groups++] = one_of[unit]; /* groups is at most unit: only entries already read are overwritten */
        above[unit] = group;
    }
    return groups;
}

weft_status comm_number_units(struct weft_comm *comm, struct error *error)
{
    const struct tuner *tuner = &comm->context->tuner;
    uint32_t count = comm->node_count, *one_of = malloc(count * sizeof *one_of);
    if (!one_of)
        return error_memory(error, count * sizeof *one_of, "the leaves of a communicator");
    for (uint32_t r = comm->size; r-- > 0;)
        one_of[comm->nodes[r]] = comm->world[r];
    for (uint32_t level = 0; level < SHAPE_LEVELS && tuner->units[level] && count > 1; level++) {
        uint32_t *above = malloc(count * sizeof *above);
        if (!above) {
            free(one_of);
            return error_memory(error, count * sizeof *above, "the leaves of a communicator");
        }
        count = comm_group_units(tuner->units[level], one_of, count, above);
        if (count > 1)
            comm->above[level] = above;
        else
            free(above);
    }
    free(one_of);
    return WEFT_OK;
}

/* ---- the public functions ---- */

int weft_comm_rank(const weft_comm *comm)
{
    return (int)comm->rank;
}

weft_context *weft_comm_context(const weft_comm *comm)
{
    return comm ? comm->context : NULL;
}

int weft_comm_first_rank(const weft_comm *comm, int rank)
{
    if (rank < 0 || (uint32_t)rank >= comm->size || comm->retired)
        return -1;
    return (int)comm->context->first[comm->world[rank]];
}

int weft_comm_size(const weft_comm *comm)
{
    return (int)comm->size;
}

int weft_comm_local_rank(const weft_comm *comm)
{
    return (int)comm->local_rank;
}

int weft_comm_local_size(const weft_comm *comm)
{
    return (int)comm->local_size;
}

int weft_comm_node(const weft_comm *comm)
{
    return (int)comm->nodes[comm->rank];
}

int weft_comm_nodes(const weft_comm *comm)
{
    return (int)comm->node_count;
}

int weft_comm_node_of(const weft_comm *comm, int rank)
{
    return rank < 0 || (uint32_t)rank >= comm->size ? -1 : (int)comm->nodes[rank];
}

const char *weft_comm_host(const weft_comm *comm, int rank)
{
    return rank < 0 || (uint32_t)rank >= comm->size || comm->retired ? NULL
                                                                     : comm->context->endpoints[comm->world[rank]].host;
}

weft_status comm_check_present(const weft_comm *comm, struct error *error)
{
    if (comm->retired)
        return error_set(
            error, WEFT_ERROR_STATE,
            "%s is from before a failure; weft_world() is the communicator of the surviving ranks, and others "
            "are made from it",
            comm->name);
    return WEFT_OK;
}

weft_status weft_comm_set_reproducible(weft_comm *comm, bool reproducible)
{
    if (!comm)
        return context_missing("weft_comm_set_reproducible()", "communicator");
    progress_enter(comm->context);
    comm->reproducible = reproducible;
    comm->schedules.last = NULL;
    progress_leave(comm->context);
    return WEFT_OK;
}

weft_status weft_comm_set_time_limit(weft_comm *comm, double seconds)
{
    struct error error;
    error_clear(&error);
    if (!comm)
        return context_missing("weft_comm_set_time_limit()", "communicator");
    if (!(seconds >= 0)) {
        error_set(&error, WEFT_ERROR_ARGUMENT, "a time limit of %g seconds is not possible; 0 means the context's",
                  seconds);
        return context_note(comm->context, &error);
    }
    progress_enter(comm->context);
    comm->time_limit = seconds;
    progress_leave(comm->context);
    return WEFT_OK;
}

weft_status weft_comm_set_algorithm(weft_comm *comm, const char *collective_text, const char *algorithm_text)
{
    struct error error;
    enum collective collective;
    const struct algorithm *algorithm = NULL;
    error_clear(&error);
    weft_status status = WEFT_OK;
    if (!comm)
        return context_missing("weft_comm_set_algorithm()", "communicator");
    if (!collective_text)
        status = error_set(&error, WEFT_ERROR_ARGUMENT, "weft_comm_set_algorithm() was given no collective");
    else
        status = collective_parse(collective_text, &collective, &error);
    if (status == WEFT_OK && algorithm_text) {
        algorithm = algorithm_find(collective, algorithm_text, &error);
        if (!algorithm)
            status = WEFT_ERROR_ARGUMENT;
    }
    if (algorithm) {
        /* Checked for the smallest block: a call that exceeds a size limit reports it itself. */
        struct schedule_key key = {.collective = (uint8_t)collective, .reproducible = comm->reproducible};
        struct schedule_shape shape = schedule_shape_of(comm, &key);
        if (collective == COLLECTIVE_SENDRECEIVE)
            shape.peer = comm->size > 1;
        const char *reason = algorithm_refuses(algorithm, &shape);
        if (reason)
            status = error_set(&error, WEFT_ERROR_ARGUMENT, "%s cannot do %s on %s: %s", algorithm_text,
                               collective_text, comm->name, reason);
    }
    if (status != WEFT_OK)
        return context_note(comm->context, &error);
    progress_enter(comm->context);
    comm->override[collective] = algorithm;
    comm->loaded.chosen[collective] = NULL;
    comm->schedules.last = NULL;
    progress_leave(comm->context);
    return WEFT_OK;
}

const char *weft_comm_algorithm(weft_comm *comm, const char *collective_text, size_t count, weft_type type)
{
    struct error error;
    struct schedule_entry *entry = NULL;
    struct call call = {.count = count, .type = type, .op = WEFT_SUM};
    uint64_t bytes = 0;
    error_clear(&error);
    weft_status status = WEFT_OK;
    if (!comm) {
        context_missing("weft_comm_algorithm()", "communicator");
        return NULL;
    }
    if (!collective_text)
        status = error_set(&error, WEFT_ERROR_ARGUMENT, "weft_comm_algorithm() was given no collective");
    else
        status = collective_parse(collective_text, &call.collective, &error);
    if (status == WEFT_OK && __builtin_mul_overflow(count, weft_type_size(type), &bytes))
        status = error_set(&error, WEFT_ERROR_ARGUMENT, "weft_comm_algorithm(): %zu elements of %s overflow", count,
                           weft_type_name(type));
    call.output = &call; /* not the input's address: out of place */
    if (call.collective == COLLECTIVE_SENDRECEIVE)
        call.peer = comm->size > 1;
    if (status == WEFT_OK) {
        progress_enter(comm->context);
        status = schedule_cache_find(comm, &call, bytes, &entry, &error);
        progress_leave(comm->context);
    }
    if (status != WEFT_OK) {
        context_note(comm->context, &error);
        return NULL;
    }
    return entry->schedule->algorithm;
}

/* Room for the piece after the last one, or at the beginning of the ring, that leaves the last one alone. */
static bool staging_fits(const struct staging *staging, uint64_t bytes, uint64_t *first)
{
    *first = staging->end;
    if (bytes <= staging->bytes - staging->end)
        return true;
    *first = 0;
    return bytes <= staging->first;
}

static weft_status staging_grow(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes,
                                struct error *error)
{
    uint64_t size = usual;
    if (size < 2 * bytes)
        size = 2 * bytes;
    if (size < staging->bytes + bytes) /* three times the largest piece is enough for any order of sizes */
        size = staging->bytes + bytes;
    void *ring = NULL;
    weft_status status = heap_alloc(heap, size, &ring, error);
    if (status != WEFT_OK)
        return status;
    *staging = (struct staging){.ring = ring, .bytes = size, .outgrown = staging->ring};
    return WEFT_OK;
}

weft_status staging_take(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes, char **place,
                         struct error *error)
{
    uint64_t first;
    bytes = (bytes + 127) & ~(uint64_t)127;
    heap_free(heap, staging->outgrown);
    staging->outgrown = NULL;
    if (!staging_fits(staging, bytes, &first)) {
        weft_status status = staging_grow(staging, heap, usual, bytes, error);
        if (status != WEFT_OK)
            return status;
        first = 0;
    }
    staging->first = first;
    staging->end = first + bytes;
    *place = staging->ring + first;
    return WEFT_OK;
}

void staging_free(struct staging *staging, struct heap *heap)
{
    heap_free(heap, staging->outgrown);
    heap_free(heap, staging->ring);
    *staging = (struct staging){0};
}
