/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/comm.h"

#include "base/hash.h"
#include "collective/context.h"
#include "collective/execution.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD_ID 1u

/* What each rank says when a communicator is made. */
struct introduction {
    int32_t color, key;
    uint32_t next_id;
    uint64_t block; /* heap offset of its control lines */
};

/* A rank of the communicator to be. */
struct seat {
    int32_t key;
    uint32_t place; /* among those who were asked */
};

char *comm_name(uint32_t id, char *text, size_t size)
{
    if (id == WORLD_ID)
        snprintf(text, size, "world");
    else
        snprintf(text, size, "communicator %u", id);
    return text;
}

static int by_key(const void *left, const void *right)
{
    const struct seat *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* ---- nodes ---- */

/* Number the nodes of these world ranks in order of first appearance. */
static weft_status number_nodes(struct weft_comm *comm, struct error *error)
{
    const struct card *cards = comm->context->cards;
    uint32_t *first = malloc(comm->size * sizeof *first); /* a world rank of each node */
    if (!first)
        return error_memory(error, comm->size * sizeof *first, "the nodes of a communicator");
    for (uint32_t r = 0; r < comm->size; r++) {
        uint32_t node = 0;
        while (node < comm->node_count && strcmp(cards[first[node]].machine, cards[comm->world[r]].machine) != 0)
            node++;
        if (node == comm->node_count)
            first[comm->node_count++] = comm->world[r];
        comm->nodes[r] = node;
    }
    free(first);
    for (uint32_t r = 0; r < comm->size; r++) {
        if (comm->nodes[r] != comm->nodes[comm->rank])
            continue;
        comm->local_rank += r < comm->rank;
        comm->local_size++;
    }
    return WEFT_OK;
}

/* Units of the next level in order of first appearance, for `count` units of which `one_of` names a world rank; turns
 * `one_of` into one of each of those, and returns how many. */
static uint32_t group_units(const uint32_t *unit_of_rank, uint32_t *one_of, uint32_t count, uint32_t *above)
{
    uint32_t groups = 0;
    for (uint32_t unit = 0; unit < count; unit++) {
        uint32_t group = 0;
        while (group < groups && unit_of_rank[one_of[group]] != unit_of_rank[one_of[unit]])
            group++;
        if (group == groups)
            one_of[groups++] = one_of[unit]; /* groups is at most unit: what is overwritten was looked at */
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
        count = group_units(tuner->units[level], one_of, count, above);
        if (count > 1)
            comm->above[level] = above;
        else
            free(above);
    }
    free(one_of);
    return WEFT_OK;
}

/* ---- making ---- */

/* Plans, and what near ranks see. */
static void release_memory(struct weft_comm *comm)
{
    struct heap *heap = comm->context->heap;
    plan_cache_free(&comm->plans);
    schedules_free(&comm->schedules);
    staging_free(&comm->staging, heap);
    heap_free(heap, comm->mine);
    comm->mine = NULL;
}

void comm_retire(struct weft_comm *comm)
{
    release_memory(comm);
    comm->retired = true;
    comm->near_count = 0;
    if (comm == comm->context->world)
        comm->context->world = NULL;
}

void comm_discard(struct weft_comm *comm)
{
    if (!comm)
        return;
    for (struct weft_comm **link = &comm->context->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
    release_memory(comm);
    free(comm->world);
    free(comm->nodes);
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        free(comm->above[level]);
    free(comm->blocks);
    free(comm->bases);
    free(comm->near_ranks);
    free(comm->near_world);
    free(comm->sent);
    free(comm->received);
    free(comm->subsets);
    free(comm->sources);
    free(comm->targets);
    free(comm);
}

static weft_status allocate(weft_context *context, uint32_t size, struct weft_comm **result, struct error *error)
{
    struct weft_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return error_memory(error, sizeof *comm, "a communicator");
    comm->context = context;
    comm->size = size;
    comm->world = calloc(size, sizeof *comm->world);
    comm->nodes = calloc(size, sizeof *comm->nodes);
    comm->blocks = calloc(size, sizeof *comm->blocks);
    comm->bases = calloc(size, sizeof *comm->bases);
    comm->near_ranks = calloc(size, sizeof *comm->near_ranks);
    comm->near_world = calloc(size, sizeof *comm->near_world);
    comm->sent = calloc(size, sizeof *comm->sent);
    comm->received = calloc(size, sizeof *comm->received);
    comm->sources = calloc(size, sizeof *comm->sources);
    comm->targets = calloc(size + 1, sizeof *comm->targets); /* every rank's output, and staging */
    if (!comm->world || !comm->nodes || !comm->blocks || !comm->bases || !comm->near_ranks || !comm->near_world ||
        !comm->sent || !comm->received || !comm->sources || !comm->targets) {
        comm_discard(comm);
        return error_memory(error, size * 10 * sizeof(uint64_t), "a communicator");
    }
    *result = comm;
    return WEFT_OK;
}

/* Fill in what the introductions tell. seats[0..size) are the ranks, in order. */
static weft_status settle(struct weft_comm *comm, const uint32_t *members, const struct introduction *introductions,
                          const struct seat *seats, struct error *error)
{
    weft_context *context = comm->context;
    for (uint32_t r = 0; r < comm->size; r++) {
        const struct introduction *introduction = &introductions[seats[r].place];
        uint32_t world = members[seats[r].place];
        comm->world[r] = world;
        if (world == context->rank)
            comm->rank = r;
        if (introduction->next_id > comm->id)
            comm->id = introduction->next_id;
        if (!near_reaches(context->near, world))
            continue;
        comm->bases[r] = near_base(context->near, world);
        comm->blocks[r] = (struct near_block *)(comm->bases[r] + introduction->block);
        if (world != context->rank) {
            comm->near_ranks[comm->near_count] = r;
            comm->near_world[comm->near_count++] = world;
        }
    }
    comm->blocks[comm->rank] = comm->mine;
    comm->bases[comm->rank] = heap_base(context->heap);
    if (comm->id >= COMM_MESSAGES)
        return error_set(error, WEFT_ERROR_STATE, "more than %u communicators have been made in this job",
                         COMM_MESSAGES - 1);
    context->next_id = comm->id + 1;
    comm_name(comm->id, comm->name, sizeof comm->name);
    weft_status status = number_nodes(comm, error);
    return status == WEFT_OK ? comm_number_units(comm, error) : status;
}

/*
 * Ask `members` (world ranks) who will be in it, and make the communicator of those who name this rank's color, which
 * must not be negative for one to be made.
 */
static weft_status comm_meet(weft_context *context, uint64_t exchange, const uint32_t *members, uint32_t count,
                             int color, int key, weft_comm **result, struct error *error)
{
    void *block = NULL;
    struct weft_comm *comm = NULL;
    struct introduction *introductions = calloc(count, sizeof *introductions);
    struct seat *seats = calloc(count, sizeof *seats);
    weft_status status = WEFT_OK;
    if (!introductions || !seats)
        status = error_memory(error, count * (sizeof *introductions + sizeof *seats), "a communicator");
    if (status == WEFT_OK)
        status = heap_alloc(context->heap, sizeof(struct near_block), &block, error);
    struct introduction mine = {.color = color, .key = key, .next_id = context->next_id};
    if (status == WEFT_OK) {
        mine.block = heap_offset(context->heap, block, sizeof(struct near_block));
        status = control_exchange(context->control, exchange, members, count, &mine, sizeof mine, introductions,
                                  context->meeting_limit, error);
    }
    uint32_t size = 0;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++)
        if (introductions[i].color == color)
            seats[size++] = (struct seat){introductions[i].key, i};
    if (status == WEFT_OK && color >= 0) {
        qsort(seats, size, sizeof *seats, by_key);
        status = allocate(context, size, &comm, error);
    }
    if (comm) {
        comm->mine = block;
        block = NULL;
        status = settle(comm, members, introductions, seats, error);
    }
    heap_free(context->heap, block);
    free(introductions);
    free(seats);
    if (status != WEFT_OK) {
        comm_discard(comm);
        return status;
    }
    if (comm) {
        comm->next = context->comms;
        context->comms = comm;
    }
    *result = comm;
    return WEFT_OK;
}

weft_status comm_open_world(weft_context *context, struct error *error)
{
    uint32_t *members = malloc(context->ranks * sizeof *members);
    if (!members)
        return error_memory(error, context->ranks * sizeof *members, "the world");
    for (uint32_t r = 0; r < context->ranks; r++)
        members[r] = r;
    context->next_id = WORLD_ID;
    weft_comm *world = NULL;
    weft_status status =
        comm_meet(context, hash_text("world", 0), members, context->ranks, 0, (int)context->rank, &world, error);
    free(members);
    if (status == WEFT_OK)
        context->world = world;
    return status;
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
                                                                     : comm->context->cards[comm->world[rank]].host;
}

weft_status comm_check_present(const weft_comm *comm, struct error *error)
{
    if (comm->retired)
        return error_set(
            error, WEFT_ERROR_STATE,
            "%s is of before a failure; weft_world() is the communicator of the surviving ranks, and others "
            "are made from it",
            comm->name);
    return WEFT_OK;
}

static weft_status check_state(const weft_comm *comm, struct error *error)
{
    if (comm->context->grouping)
        return error_set(error, WEFT_ERROR_STATE,
                         "communicators cannot be made or freed between weft_group_start() and weft_group_end()");
    return WEFT_OK;
}

static weft_status make(weft_comm *comm, uint64_t exchange, const uint32_t *members, uint32_t count, int color, int key,
                        weft_comm **result)
{
    struct error error;
    error_clear(&error);
    weft_status status = context_status(comm->context);
    if (status != WEFT_OK)
        return status;
    status = check_state(comm, &error);
    if (status == WEFT_OK)
        status = comm_check_present(comm, &error);
    if (status == WEFT_OK)
        status = comm_meet(comm->context, exchange, members, count, color, key, result, &error);
    return status == WEFT_OK ? WEFT_OK : context_note(comm->context, &error);
}

weft_status weft_comm_split(weft_comm *comm, int color, int key, weft_comm **result)
{
    if (!comm || !result)
        return context_missing("weft_comm_split()", comm ? "place for the communicator" : "communicator");
    uint64_t exchange = hash_number(++comm->made, hash_number(comm->id, hash_text("split", 0)));
    return make(comm, exchange, comm->world, comm->size, color < 0 ? -1 : color, key, result);
}

weft_status weft_comm_duplicate(weft_comm *comm, weft_comm **result)
{
    if (!comm || !result)
        return context_missing("weft_comm_duplicate()", comm ? "place for the communicator" : "communicator");
    return weft_comm_split(comm, 0, (int)comm->rank, result);
}

static weft_status check_subset(const weft_comm *comm, const int *ranks, int count, struct error *error)
{
    bool included = false;
    if (!ranks || count < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a subset needs at least one rank; %d were given", count);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || (uint32_t)ranks[i] >= comm->size)
            return error_set(error, WEFT_ERROR_ARGUMENT, "rank %d of a subset is not among ranks 0 to %u", ranks[i],
                             comm->size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[i] == ranks[j])
                return error_set(error, WEFT_ERROR_ARGUMENT, "rank %d is twice in a subset", ranks[i]);
        included |= (uint32_t)ranks[i] == comm->rank;
    }
    if (!included)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "rank %u is not in the subset that it makes; only its ranks call weft_comm_subset()",
                         comm->rank);
    return WEFT_OK;
}

/* The number of an exchange among these ranks, another one each time. */
static weft_status subset_exchange(weft_comm *comm, const uint32_t *members, size_t count, uint64_t *exchange,
                                   struct error *error)
{
    uint64_t hash = hash_bytes(members, count * sizeof *members, hash_number(comm->id, hash_text("subset", 0)));
    uint32_t i = 0;
    while (i < comm->subset_count && comm->subsets[i].members != hash)
        i++;
    if (i == comm->subset_count) {
        struct comm_subset *more = realloc(comm->subsets, (i + 1) * sizeof *more);
        if (!more)
            return error_memory(error, (i + 1) * sizeof *more, "a subset");
        comm->subsets = more;
        comm->subsets[comm->subset_count++] = (struct comm_subset){hash, 0};
    }
    *exchange = hash_number(++comm->subsets[i].made, hash);
    return WEFT_OK;
}

weft_status weft_comm_subset(weft_comm *comm, const int *ranks, int count, weft_comm **result)
{
    struct error error;
    error_clear(&error);
    if (!comm || !result)
        return context_missing("weft_comm_subset()", comm ? "place for the communicator" : "communicator");
    if (check_subset(comm, ranks, count, &error) != WEFT_OK)
        return context_note(comm->context, &error);
    uint32_t *members = malloc((size_t)count * sizeof *members);
    if (!members) {
        error_memory(&error, (size_t)count * sizeof *members, "a subset");
        return context_note(comm->context, &error);
    }
    int place = 0;
    for (int i = 0; i < count; i++) {
        members[i] = comm->world[ranks[i]];
        if ((uint32_t)ranks[i] == comm->rank)
            place = i;
    }
    uint64_t exchange = 0;
    weft_status status = subset_exchange(comm, members, (size_t)count, &exchange, &error);
    status = status == WEFT_OK ? make(comm, exchange, members, (uint32_t)count, 0, place, result)
                               : context_note(comm->context, &error);
    free(members);
    return status;
}

static bool is_busy(const weft_comm *comm)
{
    for (const struct weft_request *message = comm->context->messages; message; message = message->next)
        if (message->comm == comm)
            return true;
    return comm->head != NULL;
}

weft_status weft_comm_free(weft_comm *comm)
{
    struct error error;
    error_clear(&error);
    if (!comm)
        return WEFT_OK;
    weft_context *context = comm->context;
    if (check_state(comm, &error) != WEFT_OK)
        return context_note(context, &error);
    if (comm == context->world) {
        error_set(&error, WEFT_ERROR_ARGUMENT, "the world is freed by weft_finalize(), not by weft_comm_free()");
        return context_note(context, &error);
    }
    if (comm->retired) { /* nobody knows it any more */
        comm_discard(comm);
        return WEFT_OK;
    }
    progress_enter(context);
    bool busy = is_busy(comm);
    progress_leave(context);
    if (context_status(context) == WEFT_OK && busy) {
        error_set(&error, WEFT_ERROR_STATE, "%s has operations in flight; wait for them before it is freed",
                  comm->name);
        return context_note(context, &error);
    }
    /* Nobody's control lines go before everybody is done with them. */
    uint8_t nothing = 0, *ignored = malloc(comm->size);
    weft_status status = context_status(context);
    if (status == WEFT_OK && !ignored)
        status = error_memory(&error, comm->size, "freeing a communicator");
    if (status == WEFT_OK)
        status = control_exchange(context->control, hash_number(comm->id, hash_text("free", 0)), comm->world,
                                  comm->size, &nothing, 1, ignored, context->meeting_limit, &error);
    free(ignored);
    if (error.status != WEFT_OK)
        context_note(context, &error);
    if (status != WEFT_OK)
        return status; /* its memory stays until the end, since others may still look at it */
    progress_enter(context);
    for (uint32_t i = 0; i < CONTEXT_TRANSPORTS; i++) {
        struct transport *transport = context->transports[i];
        if (transport)
            transport->forget(transport, comm->id);
        if (transport)
            transport->forget(transport, comm->id | COMM_MESSAGES);
    }
    progress_leave(context);
    comm_discard(comm);
    return WEFT_OK;
}

weft_status weft_comm_set_reproducible(weft_comm *comm, bool reproducible)
{
    if (!comm)
        return context_missing("weft_comm_set_reproducible()", "communicator");
    progress_enter(comm->context);
    comm->reproducible = reproducible;
    comm->plans.last = NULL;
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
        /* Asked about the smallest block: a limit of size is told by the call that passes it. */
        struct plan_key key = {.collective = (uint8_t)collective, .reproducible = comm->reproducible};
        struct plan_shape shape = plan_shape_of(comm, &key);
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
    comm->schedules.chosen[collective] = NULL;
    comm->plans.last = NULL;
    progress_leave(comm->context);
    return WEFT_OK;
}

const char *weft_comm_algorithm(weft_comm *comm, const char *collective_text, size_t count, weft_type type)
{
    struct error error;
    struct plan_entry *entry = NULL;
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
    call.output = &call; /* somewhere else than the input: out of place */
    if (call.collective == COLLECTIVE_SENDRECEIVE)
        call.peer = comm->size > 1;
    if (status == WEFT_OK) {
        progress_enter(comm->context);
        status = plan_cache_find(comm, &call, bytes, &entry, &error);
        progress_leave(comm->context);
    }
    if (status != WEFT_OK) {
        context_note(comm->context, &error);
        return NULL;
    }
    return entry->plan->algorithm;
}
