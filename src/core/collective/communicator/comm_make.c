/* SPDX-License-Identifier: Apache-2.0 */
/* Making communicators. */
#include "core/collective/communicator/context.h"

#include "base/hash.h"
#include "core/collective/internal/execution.h"
#include "core/collective/internal/request.h"

#include <stdlib.h>
#include <string.h>

/* A rank's contribution to making a communicator. */
struct introduction {
    int32_t color, key;
    uint32_t next_id;
    uint32_t status; /* weft_status: whether it is able to make one */
    uint64_t block;  /* heap offset of its control lines */
};

/* A rank of the communicator to be. */
struct seat {
    int32_t key;
    uint32_t place; /* among the founders */
};

/* The ranks that take part in making a communicator, and why. */
struct founders {
    const uint32_t *members; /* world ranks */
    uint32_t count;
    weft_comm *parent; /* NULL for the world */
    enum call_purpose purpose;
    struct call_subset subset; /* of CALL_SUBSET */
    const uint32_t *ranks;     /* of CALL_SUBSET: the members by their numbers in `parent` */
    uint32_t index;            /* of CALL_SUBSET: this rank's place among them */
};

static int comm_make_by_key(const void *left, const void *right)
{
    const struct seat *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* ---- memory ---- */

static weft_status comm_make_allocate(weft_context *context, uint32_t size, struct weft_comm **result,
                                      struct error *error)
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
    comm->local_peers = calloc(size, sizeof *comm->local_peers);
    comm->local_peers_world = calloc(size, sizeof *comm->local_peers_world);
    comm->sent = calloc(size, sizeof *comm->sent);
    comm->received = calloc(size, sizeof *comm->received);
    comm->sources = calloc(size, sizeof *comm->sources);
    comm->targets = calloc(size + 1, sizeof *comm->targets); /* every rank's output, and staging */
    if (!comm->world || !comm->nodes || !comm->blocks || !comm->bases || !comm->local_peers ||
        !comm->local_peers_world || !comm->sent || !comm->received || !comm->sources || !comm->targets) {
        comm_discard(comm);
        return error_memory(error, size * 10 * sizeof(uint64_t), "a communicator");
    }
    *result = comm;
    return WEFT_OK;
}

/* ---- asking ---- */

/* Number the nodes of these world ranks in order of first appearance. */
static weft_status number_nodes(struct weft_comm *comm, struct error *error)
{
    const struct endpoint_info *endpoints = comm->context->endpoints;
    uint32_t *first = malloc(comm->size * sizeof *first); /* a world rank of each node */
    if (!first)
        return error_memory(error, comm->size * sizeof *first, "the nodes of a communicator");
    for (uint32_t r = 0; r < comm->size; r++) {
        uint32_t node = 0;
        while (node < comm->node_count &&
               strcmp(endpoints[first[node]].machine, endpoints[comm->world[r]].machine) != 0)
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

/* Fill in the communicator from the introductions. seats[0..size) are the ranks, in order. */
static weft_status comm_make_settle(struct weft_comm *comm, const uint32_t *members,
                                    const struct introduction *introductions, const struct seat *seats,
                                    struct error *error)
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
        if (!shm_reaches(context->shm, world))
            continue;
        comm->bases[r] = shm_peer_base(context->shm, world);
        comm->blocks[r] = (struct shared_block *)(comm->bases[r] + introduction->block);
        if (world != context->rank) {
            comm->local_peers[comm->local_peer_count] = r;
            comm->local_peers_world[comm->local_peer_count++] = world;
        }
    }
    comm->blocks[comm->rank] = comm->mine;
    comm->bases[comm->rank] = heap_base(context->heap);
    if (comm->id > COMM_IDS)
        return error_set(error, WEFT_ERROR_STATE, "more than %u communicators have been made in this job", COMM_IDS);
    context->next_id = comm->id + 1;
    comm_name(comm->id, comm->name, sizeof comm->name);
    weft_status status = number_nodes(comm, error);
    return status == WEFT_OK ? comm_number_units(comm, error) : status;
}

/* One message of weft_comm_subset(): the entries of members [first, first + count). */
static weft_status comm_make_pass(const struct founders *founders, uint32_t from, uint32_t to, struct introduction *all,
                                  uint32_t first, uint32_t count)
{
    bool sends = from == founders->index;
    const struct call call = {.collective = COLLECTIVE_SENDRECEIVE,
                              .purpose = CALL_SUBSET,
                              .input = sends ? all + first : NULL,
                              .output = sends ? NULL : all + first,
                              .count = count * sizeof *all,
                              .type = WEFT_U8,
                              .root = founders->ranks[from],
                              .peer = founders->ranks[to],
                              .subset = &founders->subset};
    return request_run(founders->parent, &call);
}

/* Up a binomial tree to the first member, and down again. all[index] is this rank's; the others' are filled in. */
static weft_status introduce_subset(const struct founders *founders, struct introduction *all)
{
    const uint32_t index = founders->index, count = founders->count;
    weft_status status = WEFT_OK;
    uint32_t step = 1;
    for (; step < count && !(index & step) && status == WEFT_OK; step *= 2)
        if (index + step < count)
            status = comm_make_pass(founders, index + step, index, all, index + step,
                                    count - index - step < step ? count - index - step : step);
    if (index > 0 && status == WEFT_OK)
        status = comm_make_pass(founders, index, index - step, all, index, count - index < step ? count - index : step);
    if (index > 0 && status == WEFT_OK)
        status = comm_make_pass(founders, index - step, index, all, 0, count);
    for (step /= 2; step > 0 && status == WEFT_OK; step /= 2)
        if (index + step < count)
            status = comm_make_pass(founders, index, index + step, all, 0, count);
    return status;
}

/* All-gather the introductions. The world has no operations yet: its ranks use the control plane. */
static weft_status introduce(weft_context *context, const struct founders *founders, const struct introduction *mine,
                             struct introduction *all, struct error *error)
{
    if (!founders->parent)
        return control_exchange(context->control, hash_text("world", 0), founders->members, founders->count, mine,
                                sizeof *mine, all, context->rendezvous_limit, error);
    weft_status status;
    if (founders->purpose == CALL_SUBSET) {
        all[founders->index] = *mine;
        status = introduce_subset(founders, all);
    } else {
        const struct call call = {.collective = COLLECTIVE_ALLGATHER,
                                  .purpose = founders->purpose,
                                  .input = mine,
                                  .output = all,
                                  .count = sizeof *mine,
                                  .type = WEFT_U8};
        status = request_run(founders->parent, &call);
    }
    /* The context has the message already. */
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(context));
}

/* Check that all are able to make it: all ranks get it, or none. */
static weft_status check_able(const weft_context *context, const struct founders *founders,
                              const struct introduction *introductions, struct error *error)
{
    char name[128];
    for (uint32_t i = 0; i < founders->count; i++)
        if (introductions[i].status != WEFT_OK && error->status == WEFT_OK)
            return error_set(error, (weft_status)introductions[i].status, "%s has no memory for a communicator",
                             context_rank_name(context, founders->members[i], name, sizeof name));
    return error->status;
}

/* ---- making ---- */

/* Make the communicator of the founders with this rank's color: at least this one. */
static weft_status comm_make_member(weft_context *context, const struct founders *founders,
                                    const struct introduction *introductions, int color, void **block,
                                    weft_comm **result, struct error *error)
{
    uint32_t size = 0;
    struct weft_comm *comm = NULL;
    struct seat *seats = calloc(founders->count, sizeof *seats);
    weft_status status =
        seats ? WEFT_OK : error_memory(error, founders->count * sizeof *seats, "the ranks of a communicator");
    for (uint32_t i = 0; status == WEFT_OK && i < founders->count; i++)
        if (introductions[i].color == color)
            seats[size++] = (struct seat){introductions[i].key, i};
    if (status == WEFT_OK) {
        qsort(seats, size, sizeof *seats, comm_make_by_key);
        status = comm_make_allocate(context, size, &comm, error);
    }
    if (status == WEFT_OK) {
        comm->mine = *block;
        *block = NULL;
        status = comm_make_settle(comm, founders->members, introductions, seats, error);
    }
    free(seats);
    if (status != WEFT_OK) {
        comm_discard(comm);
        return status;
    }
    comm->next = context->comms;
    context->comms = comm;
    *result = comm;
    return WEFT_OK;
}

/* Other ranks wait for this one, or already have their communicator: fail the job. */
static weft_status fail_all(weft_context *context, struct error *error)
{
    progress_enter(context);
    progress_fail(context, error);
    progress_round(context);
    progress_leave(context);
    return error->status;
}

/*
 * Gather the founders' introductions, and make the communicator of those with this rank's color, unless it is negative.
 */
static weft_status comm_found(weft_context *context, const struct founders *founders, int color, int key,
                              weft_comm **result, struct error *error)
{
    void *block = NULL;
    weft_comm *comm = NULL;
    progress_enter(context);
    comm_reclaim(context);
    progress_leave(context);
    struct introduction *introductions = calloc(founders->count, sizeof *introductions);
    if (!introductions) {
        error_memory(error, founders->count * sizeof *introductions, "a communicator");
        return fail_all(context, error);
    }
    struct introduction mine = {.color = color, .key = key, .next_id = context->next_id};
    mine.status = (uint32_t)heap_alloc(context->heap, sizeof(struct shared_block), &block, error);
    if (mine.status == WEFT_OK)
        mine.block = heap_offset(context->heap, block, sizeof(struct shared_block));
    struct error refused;
    error_clear(&refused);
    weft_status status = introduce(context, founders, &mine, introductions, &refused);
    if (status != WEFT_OK)
        *error = refused;
    else
        status = check_able(context, founders, introductions, error);
    if (status == WEFT_OK && color >= 0) {
        status = comm_make_member(context, founders, introductions, color, &block, &comm, error);
        if (status != WEFT_OK && status != WEFT_ERROR_STATE)
            fail_all(context, error);
    }
    heap_free(context->heap, block);
    free(introductions);
    if (status == WEFT_OK)
        *result = comm;
    return status;
}

weft_status comm_open_world(weft_context *context, struct error *error)
{
    uint32_t *members = malloc(context->ranks * sizeof *members);
    if (!members)
        return error_memory(error, context->ranks * sizeof *members, "the world");
    for (uint32_t r = 0; r < context->ranks; r++)
        members[r] = r;
    context->next_id = COMM_WORLD;
    weft_comm *world = NULL;
    const struct founders founders = {.members = members, .count = context->ranks};
    weft_status status = comm_found(context, &founders, 0, (int)context->rank, &world, error);
    free(members);
    if (status == WEFT_OK)
        context->world = world;
    return status;
}

/* ---- the public functions ---- */

/* Check that neither `comm` nor `result` is NULL; the message names `function`. */
static weft_status comm_make_check_given(const weft_comm *comm, weft_comm **result, const char *function)
{
    return comm && result ? WEFT_OK : context_missing(function, comm ? "place for the communicator" : "communicator");
}

static weft_status comm_make(const struct founders *founders, int color, int key, weft_comm **result)
{
    weft_comm *parent = founders->parent;
    weft_context *context = parent->context;
    struct error error;
    error_clear(&error);
    weft_status status = context_status(context);
    if (status != WEFT_OK)
        return context_report(context, status);
    status = comm_check_ungrouped(parent, &error);
    if (status == WEFT_OK)
        status = comm_check_present(parent, &error);
    if (status == WEFT_OK)
        status = comm_found(context, founders, color, key, result, &error);
    return status == WEFT_OK ? WEFT_OK : context_note(context, &error);
}

static weft_status comm_make_divide(weft_comm *comm, enum call_purpose purpose, int color, int key, weft_comm **result)
{
    const struct founders founders = {.members = comm->world, .count = comm->size, .parent = comm, .purpose = purpose};
    return comm_make(&founders, color, key, result);
}

weft_status weft_comm_split(weft_comm *comm, int color, int key, weft_comm **result)
{
    if (comm_make_check_given(comm, result, "weft_comm_split()") != WEFT_OK)
        return WEFT_ERROR_ARGUMENT;
    return comm_make_divide(comm, CALL_SPLIT, color < 0 ? -1 : color, key, result);
}

weft_status weft_comm_duplicate(weft_comm *comm, weft_comm **result)
{
    if (comm_make_check_given(comm, result, "weft_comm_duplicate()") != WEFT_OK)
        return WEFT_ERROR_ARGUMENT;
    return comm_make_divide(comm, CALL_DUPLICATE, 0, (int)comm->rank, result);
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

/* Number this subset among those of these ranks: all of them have made equally many. */
static weft_status number_subset(weft_comm *comm, const uint32_t *members, uint32_t count, struct call_subset *subset,
                                 struct error *error)
{
    subset->members = hash_bytes(members, count * sizeof *members, 0);
    uint32_t i = 0;
    while (i < comm->subset_count && comm->subsets[i].members != subset->members)
        i++;
    if (i == comm->subset_count) {
        weft_status status = ARRAY_RESERVE(comm->subsets, comm->subset_room, i + 1, "a subset", error);
        if (status != WEFT_OK)
            return status;
        comm->subsets[comm->subset_count++] = (struct comm_subset){subset->members, 0};
    }
    subset->number = ++comm->subsets[i].made;
    return WEFT_OK;
}

weft_status weft_comm_subset(weft_comm *comm, const int *ranks, int count, weft_comm **result)
{
    struct error error;
    error_clear(&error);
    if (comm_make_check_given(comm, result, "weft_comm_subset()") != WEFT_OK)
        return WEFT_ERROR_ARGUMENT;
    if (check_subset(comm, ranks, count, &error) != WEFT_OK)
        return context_note(comm->context, &error);
    uint32_t *members = malloc(2 * (size_t)count * sizeof *members), *numbers = members + count;
    if (!members) {
        error_memory(&error, 2 * (size_t)count * sizeof *members, "a subset");
        return context_note(comm->context, &error);
    }
    struct founders founders = {
        .members = members, .count = (uint32_t)count, .parent = comm, .purpose = CALL_SUBSET, .ranks = numbers};
    for (int i = 0; i < count; i++) {
        numbers[i] = (uint32_t)ranks[i];
        members[i] = comm->world[ranks[i]];
        if (numbers[i] == comm->rank)
            founders.index = (uint32_t)i;
    }
    weft_status status = number_subset(comm, members, founders.count, &founders.subset, &error);
    status =
        status == WEFT_OK ? comm_make(&founders, 0, (int)founders.index, result) : context_note(comm->context, &error);
    free(members);
    return status;
}
