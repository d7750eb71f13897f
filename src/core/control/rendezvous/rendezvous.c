/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous's server. The joining side is core/control/rendezvous/join.c. */
#include "core/control/rendezvous/rendezvous.h"

#include "base/clock.h"
#include "core/control/rendezvous/internal/joiners.h"
#include "core/control/rendezvous/internal/wire.h"
#include "core/control/wire/tree.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_SECONDS 10.0 /* for a visitor to take its answer */

struct round {
    const struct rendezvous_server *server;
    struct joiners joiners;
    uint32_t chain;                      /* the longest chain reported by joiners, above the messages handled here */
    uint32_t size;                       /* bytes of an endpoint info, as reported by the joiner that brings rank 0 */
    uint64_t deadline;                   /* of the round; 0: no rank has joined yet */
    uint32_t finished;                   /* rounds that are over, well or not */
    char refused[JOINERS_MESSAGE_BYTES]; /* the last refusal, for the message about a missing rank */
    weft_status status;                  /* the reason why the round ended, until it has been reported */
    struct error error;
    struct buffer members; /* of the running job; empty: nobody has left them */
};

static void rendezvous_report(const struct round *round, const char *message)
{
    if (round->server->report)
        round->server->report(round->server->context, message);
}

/* The next round can begin. */
static void rendezvous_finish(struct round *round)
{
    memset(round->joiners.bringer, 0, round->joiners.ranks * sizeof *round->joiners.bringer);
    round->joiners.held = 0;
    round->size = round->chain = 0;
    round->deadline = 0;
    round->finished++;
    round->refused[0] = '\0';
}

/* The round has failed: report it to all that have joined, and to the caller. */
static void rendezvous_fail(struct round *round, weft_status status, const char *message)
{
    joiners_fail(&round->joiners, status, message);
    rendezvous_finish(round);
    rendezvous_report(round, message);
    round->status = error_set(&round->error, status, "%s", message);
}

/* A joiner has proved that it belongs to the job: check that its view of the job agrees. */
static void rendezvous_seat(void *context, struct joiner *joiner)
{
    struct round *round = context;
    char message[JOINERS_MESSAGE_BYTES];
    joiner->visits = joiner->stream.peer_rank == RENDEZVOUS_VISITOR;
    if (joiner->visits)
        joiner->stream.frame_most = STREAM_FRAME_MOST;
    else if (!joiners_check(&round->joiners, joiner, message))
        rendezvous_fail(round, WEFT_ERROR_RENDEZVOUS, message);
    else if (round->deadline == 0)
        round->deadline = clock_after(round->server->limit_seconds);
}

static void rendezvous_refuse(void *context, const char *message)
{
    struct round *round = context;
    snprintf(round->refused, sizeof round->refused, "%s", message);
    rendezvous_report(round, message);
}

static void rendezvous_forget(struct round *round, struct joiner *joiner, uint32_t rank)
{
    if (round->joiners.bringer[rank] != joiner->number)
        return;
    joiners_withdraw(&round->joiners, rank);
    joiner->brought--;
}

static void rendezvous_leave(void *context, struct joiner *joiner)
{
    struct round *round = context;
    for (uint32_t rank = 0; joiner->brought > 0 && rank < round->joiners.ranks; rank++)
        rendezvous_forget(round, joiner, rank);
}

static uint32_t rendezvous_chain_here(const struct round *round)
{
    return round->chain + round->joiners.handled;
}

/* A joiner brings ranks. */
static bool take_come(struct round *round, struct joiner *joiner, struct reader reader)
{
    uint32_t chain = reader_u32(&reader), size = reader_u32(&reader);
    char address[JOINERS_ADDRESS_BYTES], message[JOINERS_MESSAGE_BYTES];
    reader_text(&reader, address, sizeof address);
    if (reader.bad || size == 0 || size > RENDEZVOUS_BLOB_MOST || reader.left == 0 || reader.left % 8)
        return false;
    if (chain < RENDEZVOUS_CHAIN_MOST && chain > rendezvous_chain_here(round))
        round->chain += chain - rendezvous_chain_here(round);
    if (round->size && round->size != size) {
        snprintf(message, sizeof message,
                 "rank %u on host %s sends endpoint info of %u bytes and others %u; install the same build of "
                 "Weft on all hosts",
                 joiner->stream.peer_rank, joiner->stream.peer_host, size, round->size);
        rendezvous_fail(round, WEFT_ERROR_RENDEZVOUS, message);
        return true;
    }
    round->size = size;
    memcpy(joiner->address, address, sizeof joiner->address);
    while (reader.left > 0) {
        uint32_t first = reader_u32(&reader), count = reader_u32(&reader);
        if (count == 0 || first >= round->joiners.ranks || count > round->joiners.ranks - first)
            return false;
        if (joiner->brought == 0 || first < joiner->first)
            joiner->first = first;
        for (uint32_t rank = first; rank < first + count; rank++) {
            if (round->joiners.bringer[rank] == joiner->number)
                return false;
            if (!joiners_bring(&round->joiners, joiner, rank, message)) {
                rendezvous_fail(round, WEFT_ERROR_RENDEZVOUS, message);
                return true;
            }
            joiner->brought++;
        }
    }
    return true;
}

static bool rendezvous_take_withdrawn(struct round *round, struct joiner *joiner, struct reader reader)
{
    while (reader.left > 0) {
        uint32_t rank = reader_u32(&reader);
        if (reader.bad || rank >= round->joiners.ranks)
            return false;
        rendezvous_forget(round, joiner, rank);
    }
    return true;
}

/* ---- visitors ---- */

/* The last frame for a visitor. */
static void answer_visitor(struct joiner *visitor, const void *bytes, size_t size)
{
    stream_put(&visitor->stream, RENDEZVOUS_MEMBERS, bytes, size);
    visitor->waits = false;
    visitor->leaving = true;
    visitor->deadline = clock_after(ANSWER_SECONDS);
}

static void answer_waiting(struct round *round)
{
    struct joiners *joiners = &round->joiners;
    for (uint32_t i = 0; i < joiners->count && buffer_size(&round->members) > 0; i++)
        if (joiners->joined[i].waits)
            answer_visitor(&joiners->joined[i], buffer_begin(&round->members), buffer_size(&round->members));
}

static bool take_from_visitor(struct round *round, struct joiner *visitor, const struct frame *frame)
{
    if (frame->kind == RENDEZVOUS_GET_MEMBERS) {
        visitor->waits = true;
    } else if (frame->kind == RENDEZVOUS_PUT_MEMBERS) {
        buffer_free(&round->members);
        buffer_put(&round->members, frame->payload, frame->size);
        answer_visitor(visitor, NULL, 0);
        if (round->server->members_left)
            round->server->members_left(round->server->context, frame->payload, frame->size);
    } else if (frame->kind == RENDEZVOUS_OVERTAKEN) {
        struct reader reader = {frame->payload, frame->size, false};
        const uint32_t rank = reader_u32(&reader);
        if (reader.bad)
            return false;
        if (round->server->overtaken)
            round->server->overtaken(round->server->context, rank);
        answer_visitor(visitor, NULL, 0);
    } else {
        return false;
    }
    answer_waiting(round);
    return true;
}

/* ---- the round ---- */

static bool rendezvous_take(void *context, struct joiner *joiner, const struct frame *frame)
{
    struct round *round = context;
    struct reader reader = {frame->payload, frame->size, false};
    char message[JOINERS_MESSAGE_BYTES];
    if (joiner->visits)
        return take_from_visitor(round, joiner, frame);
    switch (frame->kind) {
    case RENDEZVOUS_JOIN:
        return take_come(round, joiner, reader);
    case RENDEZVOUS_WITHDRAWN:
        return rendezvous_take_withdrawn(round, joiner, reader);
    case RENDEZVOUS_FAILURE: {
        weft_status status = stream_failure(reader_u32(&reader));
        reader_text(&reader, message, sizeof message);
        if (reader.bad)
            return false;
        rendezvous_fail(round, status, *message ? message : "a rank gave up the rendezvous");
        return true;
    }
    default:
        return false;
    }
}

static const struct joiners_rules rules = {rendezvous_seat, rendezvous_take, rendezvous_leave, rendezvous_refuse};

static int by_first_rank(const void *a, const void *b)
{
    const struct joiner *const *left = a, *const *right = b;
    return (*left)->first < (*right)->first ? -1 : (*left)->first > (*right)->first;
}

/* Send a joiner (numbered in order of lowest ranks) its place in the tree. */
static void give_place(const struct round *round, struct joiner *const *order, uint32_t count, uint32_t index,
                       uint32_t below)
{
    struct buffer place = {0};
    uint32_t parent = tree_place_parent(index);
    buffer_put_u32(&place, rendezvous_chain_here(round) + index + 1);
    buffer_put_u32(&place, below);
    buffer_put_text(&place, parent == TREE_NONE ? "" : order[parent]->address);
    for (uint32_t k = 0; k < TREE_ARITY && tree_place_child(index, k) < count; k++) {
        const struct stream *child = &order[tree_place_child(index, k)]->stream;
        buffer_put_u32(&place, child->peer_rank);
        buffer_put_text(&place, child->peer_host);
    }
    stream_put(&order[index]->stream, RENDEZVOUS_PLACE, buffer_begin(&place), buffer_size(&place));
    buffer_free(&place);
}

/* All have joined: each joiner that brings ranks gets its place in the tree. */
static void rendezvous_complete(struct round *round)
{
    struct joiners *joiners = &round->joiners;
    struct joiner **order = calloc(joiners->count, sizeof *order);
    uint32_t *below = calloc(joiners->count, sizeof *below), count = 0;
    if (!order || !below) {
        free(order);
        free(below);
        rendezvous_fail(round, WEFT_ERROR_MEMORY, "the rendezvous has no memory for the tree of its ranks");
        return;
    }
    for (uint32_t i = 0; i < joiners->count; i++)
        if (!joiners->joined[i].leaving && joiners->joined[i].brought > 0)
            order[count++] = &joiners->joined[i];
    qsort(order, count, sizeof *order, by_first_rank);
    for (uint32_t i = count; i-- > 0;) { /* children have higher places than their parents */
        below[i] += order[i]->brought;
        if (i > 0)
            below[tree_place_parent(i)] += below[i];
    }
    for (uint32_t i = 0; i < count; i++)
        give_place(round, order, count, i, below[i]);
    free(order);
    free(below);
    joiners_dismiss(joiners, false);
    rendezvous_finish(round);
    if (round->server->complete)
        round->server->complete(round->server->context);
}

/* The host of a rank that is missing, if that is known. */
static const char *rendezvous_host_of(const struct round *round, uint32_t rank)
{
    const struct rendezvous_server *server = round->server;
    for (uint32_t i = 0; i < round->joiners.count; i++) {
        const struct joiner *joiner = &round->joiners.joined[i];
        if (joiner->authenticated && !joiner->leaving && joiner->stream.peer_rank == rank)
            return joiner->stream.peer_host;
    }
    return server->host_of ? server->host_of(server->context, rank) : NULL;
}

/* The time limit has passed: the message names the missing ranks. */
static void rendezvous_too_late(struct round *round)
{
    const struct rendezvous_server *server = round->server;
    char list[256] = "";
    uint32_t missing = 0, named = 0;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        if (round->joiners.bringer[rank] != JOINERS_NOBODY)
            continue;
        missing++;
        const char *host = rendezvous_host_of(round, rank);
        size_t used = strlen(list);
        if (named < 8 && sizeof list - used > 96) {
            snprintf(list + used, sizeof list - used, host ? "%s%u (host %s)" : "%s%u", used ? ", " : "", rank, host);
            named++;
        }
    }
    char more[32] = "", message[900];
    if (missing > named)
        snprintf(more, sizeof more, " and %u more", missing - named);
    snprintf(message, sizeof message, "rank%s %s%s of %u %s not come to the rendezvous within %g s%s%s",
             missing == 1 ? "" : "s", list, more, server->ranks, missing == 1 ? "has" : "have", server->limit_seconds,
             *round->refused ? "; " : "; look for its error above, or raise the limit", round->refused);
    rendezvous_fail(round, WEFT_ERROR_TIMEOUT, message);
}

/* Wait for an event and handle it. *stopped is set if the caller asked to stop. */
static weft_status rendezvous_turn(struct round *round, int listener, struct pollfd **polls, bool *stopped,
                                   struct error *error)
{
    struct joiners *joiners = &round->joiners;
    uint32_t count = joiners->count;
    struct pollfd *grown = realloc(*polls, (count + 2) * sizeof **polls);
    if (!grown)
        return error_memory(error, (count + 2) * sizeof **polls, "the rendezvous");
    *polls = grown;
    grown[0] = (struct pollfd){listener, POLLIN, 0};
    grown[1] = (struct pollfd){round->server->stop, POLLIN, 0};
    joiners_poll(joiners, grown + 2);
    uint64_t now = clock_now();
    uint64_t next = joiners_deadline(joiners, round->deadline ? round->deadline : now + 60000000000ull);
    if (poll(grown, count + 2, next > now ? (int)((next - now) / 1000000) + 1 : 0) < 0 && errno != EINTR)
        return error_system(error, "the rendezvous cannot wait for the ranks");
    *stopped = grown[1].revents != 0;
    round->status = WEFT_OK;
    joiners_serve(joiners, grown + 2, count);
    if (grown[0].revents)
        joiners_accept(joiners, listener, false);
    if (joiners->held == joiners->ranks)
        rendezvous_complete(round);
    else if (round->deadline && clock_now() >= round->deadline)
        rendezvous_too_late(round);
    return round->status == WEFT_OK ? WEFT_OK : error_set(error, round->status, "%s", round->error.text);
}

weft_status rendezvous_serve(int listener, const struct rendezvous_server *server, struct error *error)
{
    struct round round = {.server = server};
    struct pollfd *polls = NULL;
    bool stopped = false, over = false;
    weft_status outcome = joiners_open(&round.joiners, server->ranks, 8, server->secret, &rules, &round, error);
    if (outcome != WEFT_OK)
        return outcome;
    buffer_put(&round.members, server->members, server->members_size);
    while (!stopped && !(over && round.joiners.count == 0)) {
        struct error reason = {0};
        weft_status status = rendezvous_turn(&round, listener, &polls, &stopped, &reason);
        if (status != WEFT_OK && outcome == WEFT_OK && !server->again)
            outcome = error_set(error, status, "%s", reason.text);
        over = !server->again && (status != WEFT_OK || round.finished > 0);
        /* After the end, ranks that were not waiting are not waited for. */
        if (over)
            joiners_end_others(&round.joiners);
    }
    if (server->counts)
        *server->counts = joiners_counts(&round.joiners);
    joiners_close(&round.joiners);
    buffer_free(&round.members);
    free(polls);
    return outcome;
}
