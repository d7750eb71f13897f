/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The joining side: holds the endpoint info of its subtree until it is complete, passes it up, and passes the table
 * down. One loop; connect.c has found the parent.
 */
#include "base/clock.h"
#include "core/control/rendezvous/internal/client_state.h"
#include "core/control/rendezvous/internal/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_SECONDS  2.0  /* limit for the ranks of a node to wait for each other before they report to the server */
#define LEVEL_SECONDS 0.25 /* see join_end_of() */
#define SERVER_GRACE  6.0  /* an ancestor reports which ranks are missing, and ranks may join it later than this one */

/* The number of dependent messages handled so far. */
static uint32_t join_chain_here(const struct rendezvous *rendezvous)
{
    const struct stream_counts *up = &rendezvous->up.counts, *former = &rendezvous->counts;
    return rendezvous->chain + rendezvous->joiners.handled + up->sent + up->received + former->sent + former->received;
}

static void join_chain_note(struct rendezvous *rendezvous, uint32_t chain)
{
    if (chain < RENDEZVOUS_CHAIN_MOST && chain > join_chain_here(rendezvous))
        rendezvous->chain += chain - join_chain_here(rendezvous);
}

void rendezvous_session(const uint8_t secret[SECRET_BYTES], const uint8_t draw[SECRET_BYTES],
                        uint8_t session[SECRET_BYTES])
{
    (void)secret_sign(secret, draw, SECRET_BYTES, session);
}

/* ---- ends ---- */

/* This rank's rendezvous has failed, and with it those of its subtree. */
static void join_fail(struct rendezvous *rendezvous, weft_status status, const char *message)
{
    if (rendezvous->over)
        return;
    rendezvous->over = true;
    rendezvous->status = error_set(&rendezvous->error, status, "%s", message);
    joiners_fail(&rendezvous->joiners, status, message);
}

/* Fail the round for all: the parent reports it to all ranks, this one included. */
static void join_complain(struct rendezvous *rendezvous, weft_status status, const char *message)
{
    if (rendezvous->above == PARENT_NONE) {
        join_fail(rendezvous, status, message);
    } else if (rendezvous->complaint == WEFT_OK) {
        rendezvous->complaint = status;
        snprintf(rendezvous->complaint_text, sizeof rendezvous->complaint_text, "%s", message);
    }
}

/* The table has arrived: the rest of `reader` after its chain. Keep the endpoint info, and pass it down. */
static void join_deliver(struct rendezvous *rendezvous, struct reader reader)
{
    struct rendezvous_result *result = rendezvous->result;
    struct buffer *answer = &rendezvous->joiners.answer;
    const uint8_t *rest = reader.bytes;
    size_t rest_size = reader.left;
    reader_bytes(&reader, 8);
    const uint8_t *draw = reader_bytes(&reader, SECRET_BYTES);
    result->blobs = malloc(reader.left);
    if (!result->blobs) {
        join_fail(rendezvous, WEFT_ERROR_MEMORY, "a rank has no memory for the endpoint info of all ranks");
        return;
    }
    memcpy(result->blobs, reader.bytes, reader.left);
    memcpy(result->draw, draw, SECRET_BYTES);
    rendezvous_session(rendezvous->client.secret, draw, result->session);
    result->chain = join_chain_here(rendezvous);
    rendezvous->over = true;
    if (rendezvous->joiners.count == 0)
        return;
    frame_put(answer, RENDEZVOUS_TABLE, NULL, 4 + rest_size);
    buffer_put_u32(answer, result->chain + rendezvous->joiners.count);
    buffer_put(answer, rest, rest_size);
    if (answer->failed)
        joiners_fail(&rendezvous->joiners, WEFT_ERROR_MEMORY,
                     "a rank had no memory to pass on the endpoint info of all ranks");
    else
        joiners_dismiss(&rendezvous->joiners, true);
}

/* The root has all endpoint info. */
static void join_table_make(struct rendezvous *rendezvous)
{
    struct buffer table = {0};
    uint8_t draw[SECRET_BYTES];
    struct error reason = {0};
    if (secret_random(draw, sizeof draw, &reason) != WEFT_OK) {
        join_fail(rendezvous, reason.status, reason.text);
        return;
    }
    buffer_put_u32(&table, rendezvous->client.ranks);
    buffer_put_u32(&table, rendezvous->size);
    buffer_put(&table, draw, sizeof draw);
    buffer_put(&table, rendezvous->endpoints, (size_t)rendezvous->client.ranks * rendezvous->size);
    if (table.failed)
        join_fail(rendezvous, WEFT_ERROR_MEMORY, "the rendezvous has no memory for the endpoint info of all ranks");
    else
        join_deliver(rendezvous, (struct reader){buffer_begin(&table), buffer_size(&table), false});
    buffer_free(&table);
}

/* ---- from below ---- */

static void join_seat(void *context, struct joiner *joiner)
{
    struct rendezvous *rendezvous = context;
    char message[JOINERS_MESSAGE_BYTES];
    if (!joiners_check(&rendezvous->joiners, joiner, message))
        join_complain(rendezvous, WEFT_ERROR_RENDEZVOUS, message);
    if (!joiner->local)
        return;
    struct buffer address = {0};
    buffer_put_text(&address, rendezvous->address);
    stream_put(&joiner->stream, RENDEZVOUS_ADDRESS, buffer_begin(&address), buffer_size(&address));
    buffer_free(&address);
}

/* A rank leaves again; append it to `gone` if the parent knows it. */
static void join_withdraw(struct rendezvous *rendezvous, uint32_t rank, struct buffer *gone)
{
    joiners_withdraw(&rendezvous->joiners, rank);
    if (!rendezvous->passed[rank])
        return;
    rendezvous->passed[rank] = false;
    rendezvous->passed_count--;
    buffer_put_u32(gone, rank);
}

/* Send a frame to the parent, and free its payload. */
static void join_send_up(struct rendezvous *rendezvous, uint16_t kind, struct buffer *payload)
{
    stream_put(&rendezvous->up, kind, buffer_begin(payload), buffer_size(payload));
    rendezvous->up.out.failed |= payload->failed;
    buffer_free(payload);
}

static void join_withdrawn_send(struct rendezvous *rendezvous, struct buffer *gone)
{
    if (buffer_size(gone) > 0)
        join_send_up(rendezvous, RENDEZVOUS_WITHDRAWN, gone);
}

static void join_leave(void *context, struct joiner *joiner)
{
    struct rendezvous *rendezvous = context;
    struct buffer gone = {0};
    if (rendezvous->placed || rendezvous->over) /* all had joined: the control plane will detect it */
        return;
    for (uint32_t rank = 0; rank < rendezvous->client.ranks; rank++)
        if (rendezvous->joiners.bringer[rank] == joiner->number)
            join_withdraw(rendezvous, rank, &gone);
    join_withdrawn_send(rendezvous, &gone);
}

static bool join_endpoints_take(struct rendezvous *rendezvous, struct joiner *joiner, struct reader reader)
{
    uint32_t chain = reader_u32(&reader), size = reader_u32(&reader);
    char message[JOINERS_MESSAGE_BYTES], host[STREAM_HOST_BYTES];
    if (reader.bad || size == 0 || size > RENDEZVOUS_BLOB_MOST || reader.left == 0 || reader.left % (4 + size))
        return false;
    join_chain_note(rendezvous, chain);
    if (size != rendezvous->size) {
        snprintf(
            message, sizeof message,
            "rank %u on host %s sends endpoint info of %u bytes and rank %u on host %s of %u; install the same build "
            "of Weft on both",
            joiner->stream.peer_rank, joiner->stream.peer_host, size, rendezvous->client.rank,
            address_host_name(host, sizeof host), rendezvous->size);
        join_complain(rendezvous, WEFT_ERROR_RENDEZVOUS, message);
        return true;
    }
    while (reader.left > 0) {
        uint32_t rank = reader_u32(&reader);
        const uint8_t *endpoint = reader_bytes(&reader, size);
        if (rank >= rendezvous->client.ranks || rendezvous->joiners.bringer[rank] == joiner->number)
            return false;
        if (joiners_bring(&rendezvous->joiners, joiner, rank, message))
            memcpy(rendezvous->endpoints + (size_t)rank * size, endpoint, size);
        else
            join_complain(rendezvous, WEFT_ERROR_RENDEZVOUS, message);
    }
    return true;
}

static bool join_take_withdrawn(struct rendezvous *rendezvous, struct joiner *joiner, struct reader reader)
{
    struct buffer gone = {0};
    bool good = true;
    while (reader.left > 0 && good) {
        uint32_t rank = reader_u32(&reader);
        good = !reader.bad && rank < rendezvous->client.ranks;
        if (good && !rendezvous->placed && rendezvous->joiners.bringer[rank] == joiner->number)
            join_withdraw(rendezvous, rank, &gone);
    }
    join_withdrawn_send(rendezvous, &gone);
    return good;
}

static bool join_take(void *context, struct joiner *joiner, const struct frame *frame)
{
    struct rendezvous *rendezvous = context;
    struct reader reader = {frame->payload, frame->size, false};
    struct error reason = {0};
    switch (frame->kind) {
    case RENDEZVOUS_ENDPOINTS:
        return join_endpoints_take(rendezvous, joiner, reader);
    case RENDEZVOUS_WITHDRAWN:
        return join_take_withdrawn(rendezvous, joiner, reader);
    case RENDEZVOUS_FAILURE:
        (void)rendezvous_read_failure(frame, &reason);
        join_complain(rendezvous, reason.status, reason.text);
        return true;
    default:
        return false;
    }
}

static const struct joiners_rules rules = {join_seat, join_take, join_leave, NULL};

/* ---- from above ---- */

/* The parent's message is not usable. */
static void join_failure_take(struct rendezvous *rendezvous)
{
    char message[JOINERS_MESSAGE_BYTES];
    snprintf(message, sizeof message, "host %s (%s), the rendezvous, sent something other than a table of %u ranks",
             rendezvous->up.peer_host, rendezvous->up.peer_address, rendezvous->client.ranks);
    join_fail(rendezvous, WEFT_ERROR_RENDEZVOUS, message);
}

/* All have joined: this leader's place in the tree of leaders. */
static void join_place_take(struct rendezvous *rendezvous, struct reader reader)
{
    uint32_t chain = reader_u32(&reader), below = reader_u32(&reader), children = 0;
    reader_text(&reader, rendezvous->parent, sizeof rendezvous->parent);
    while (!reader.bad && reader.left > 0 && children < TREE_ARITY) {
        rendezvous->child[children] = reader_u32(&reader);
        reader_text(&reader, rendezvous->child_host[children], sizeof rendezvous->child_host[children]);
        children++;
    }
    bool root = !*rendezvous->parent;
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port;
    if (!root && address_parse(rendezvous->parent, host, &port, NULL) != WEFT_OK)
        reader.bad = true;
    uint32_t ranks = rendezvous->client.ranks;
    if (reader.bad || reader.left > 0 || below > ranks || below < rendezvous->joiners.held ||
        (root && below != ranks)) {
        join_failure_take(rendezvous);
        return;
    }
    join_chain_note(rendezvous, chain);
    rendezvous->placed = true;
    rendezvous->expected = below;
    rendezvous->passed_count = 0;
    memset(rendezvous->passed, 0, ranks * sizeof *rendezvous->passed);
    rendezvous->deadline = clock_after(rendezvous->client.limit_seconds);
    struct error reason = {0};
    if (root) {
        rendezvous->above = PARENT_NONE;
        joiners_count(&rendezvous->counts, &rendezvous->up.counts);
        stream_end(&rendezvous->up);
        rendezvous->up = (struct stream){.descriptor = -1};
    } else if (rendezvous_find_parent(rendezvous, &reason) != WEFT_OK) {
        join_fail(rendezvous, reason.status, reason.text);
    }
}

static void join_table_take(struct rendezvous *rendezvous, struct reader reader)
{
    uint32_t chain = reader_u32(&reader);
    struct reader rest = reader;
    uint32_t ranks = reader_u32(&reader), size = reader_u32(&reader);
    reader_bytes(&reader, SECRET_BYTES);
    if (reader.bad || ranks != rendezvous->client.ranks || size != rendezvous->size ||
        reader.left != (size_t)ranks * size) {
        join_failure_take(rendezvous);
        return;
    }
    join_chain_note(rendezvous, chain);
    join_deliver(rendezvous, rest);
}

static void join_parent_frame_take(struct rendezvous *rendezvous, const struct frame *frame)
{
    struct error reason = {0};
    const struct reader reader = {frame->payload, frame->size, false};
    if (frame->kind == RENDEZVOUS_FAILURE) {
        (void)rendezvous_read_failure(frame, &reason);
        join_fail(rendezvous, reason.status, reason.text);
    } else if (frame->kind == RENDEZVOUS_PLACE && rendezvous->above == PARENT_SERVER) {
        join_place_take(rendezvous, reader);
    } else if (frame->kind == RENDEZVOUS_TABLE && rendezvous->above != PARENT_SERVER) {
        join_table_take(rendezvous, reader);
    } else {
        join_failure_take(rendezvous);
    }
}

/* The connection to the parent ended before the result. */
static void join_parent_lost(struct rendezvous *rendezvous, enum stream_state before, const struct error *reason)
{
    const struct rendezvous_client *client = &rendezvous->client;
    const struct stream *up = &rendezvous->up;
    char message[JOINERS_MESSAGE_BYTES];
    struct error failure = {0};
    if (up->state != STREAM_ENDED) {
        join_fail(rendezvous, reason->status, reason->text);
    } else if (before != STREAM_OPEN) {
        /* Closed during the handshake: the server of an earlier round was just ending. Try again. */
        if (rendezvous_find_again(rendezvous, &failure) != WEFT_OK)
            join_fail(rendezvous, failure.status, failure.text);
    } else if (rendezvous->above == PARENT_SERVER) {
        snprintf(message, sizeof message,
                 "the rendezvous at %s (host %s) was closed before all %u ranks had joined; has the "
                 "launcher or rank 0, which serves it, ended?",
                 client->addresses, up->peer_host, client->ranks);
        join_fail(rendezvous, WEFT_ERROR_RENDEZVOUS, message);
    } else {
        snprintf(message, sizeof message,
                 "the rank on host %s through which rank %u joins ended before all %u ranks had joined; look for its "
                 "error above",
                 up->peer_host, client->rank, client->ranks);
        join_fail(rendezvous, WEFT_ERROR_PEER, message);
    }
}

static void join_parent_receive(struct rendezvous *rendezvous)
{
    struct error reason = {0};
    struct frame frame;
    struct stream *up = &rendezvous->up;
    enum stream_state before = up->state;
    weft_status status = stream_read(up, &reason);
    int found = 0;
    /* A place moves this rank to another connection: the rest of the former one is ignored. */
    while (!rendezvous->over && (found = stream_peek(up, &frame)) == 1) {
        if (frame.kind == RENDEZVOUS_PLACE)
            up->counts.received++;
        join_parent_frame_take(rendezvous, &frame);
        if (frame.kind == RENDEZVOUS_PLACE)
            return;
        stream_drop(up, &frame);
    }
    if (rendezvous->over)
        return;
    if (found < 0)
        join_failure_take(rendezvous);
    else if (status != WEFT_OK)
        join_parent_lost(rendezvous, before, &reason);
}

/* ---- upwards ---- */

/* Whether a rank has joined but has not been passed up. */
static bool join_is_pending(const struct rendezvous *rendezvous, uint32_t rank)
{
    return rendezvous->joiners.bringer[rank] != JOINERS_NOBODY && !rendezvous->passed[rank];
}

static void join_endpoints_pass(struct rendezvous *rendezvous)
{
    struct buffer payload = {0};
    uint32_t size = rendezvous->size, ranks = rendezvous->client.ranks;
    buffer_put_u32(&payload, join_chain_here(rendezvous) + 1);
    buffer_put_u32(&payload, size);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (join_is_pending(rendezvous, rank)) {
            buffer_put_u32(&payload, rank);
            buffer_put(&payload, rendezvous->endpoints + (size_t)rank * size, size);
        }
    join_send_up(rendezvous, RENDEZVOUS_ENDPOINTS, &payload);
}

/*
 * Send the server the numbers of the ranks that have joined. Others connect to this rank, unless all have joined
 * already.
 */
static void join_numbers_pass(struct rendezvous *rendezvous, const char *host)
{
    struct buffer payload = {0};
    struct error reason = {0};
    uint32_t ranks = rendezvous->client.ranks;
    if (rendezvous->far < 0 && rendezvous->joiners.held < ranks &&
        rendezvous_listen_far(rendezvous, host, &reason) != WEFT_OK) {
        join_fail(rendezvous, reason.status, reason.text);
        return;
    }
    buffer_put_u32(&payload, join_chain_here(rendezvous) + 1);
    buffer_put_u32(&payload, rendezvous->size);
    buffer_put_text(&payload, rendezvous->here);
    for (uint32_t rank = 0, count; rank < ranks; rank += count + 1) {
        for (count = 0; rank + count < ranks && join_is_pending(rendezvous, rank + count); count++)
            ;
        if (count == 0)
            continue;
        buffer_put_u32(&payload, rank);
        buffer_put_u32(&payload, count);
    }
    join_send_up(rendezvous, RENDEZVOUS_JOIN, &payload);
}

/* Pass up what can be passed now. */
static void join_pass(struct rendezvous *rendezvous, const char *host)
{
    uint32_t held = rendezvous->joiners.held;
    bool whole = held >= rendezvous->expected;
    if (rendezvous->over)
        return;
    if (rendezvous->above == PARENT_NONE) {
        if (whole)
            join_table_make(rendezvous);
        return;
    }
    if (rendezvous->up.state != STREAM_OPEN)
        return;
    if (rendezvous->complaint != WEFT_OK) {
        struct buffer text = {0};
        buffer_put_u32(&text, (uint32_t)rendezvous->complaint);
        buffer_put_text(&text, rendezvous->complaint_text);
        join_send_up(rendezvous, RENDEZVOUS_FAILURE, &text);
        rendezvous->complaint = WEFT_OK;
    }
    if (held == rendezvous->passed_count || !(whole || (!rendezvous->placed && clock_now() >= rendezvous->hold)))
        return;
    if (rendezvous->above == PARENT_SERVER)
        join_numbers_pass(rendezvous, host);
    else
        join_endpoints_pass(rendezvous);
    for (uint32_t rank = 0; rank < rendezvous->client.ranks; rank++)
        rendezvous->passed[rank] = rendezvous->joiners.bringer[rank] != JOINERS_NOBODY;
    rendezvous->passed_count = held;
}

/* ---- the loop ---- */

/* The time limit has passed. */
static void join_too_late(struct rendezvous *rendezvous)
{
    const struct rendezvous_client *client = &rendezvous->client;
    char message[JOINERS_MESSAGE_BYTES];
    uint32_t late = 0;
    while (rendezvous->placed && late < TREE_ARITY && rendezvous->child[late] != TREE_NONE &&
           rendezvous->joiners.bringer[rendezvous->child[late]] != JOINERS_NOBODY)
        late++;
    const char *host = rendezvous->placed && late < TREE_ARITY ? rendezvous->child_host[late] : "";
    if (rendezvous->placed && late < TREE_ARITY && rendezvous->child[late] != TREE_NONE)
        snprintf(message, sizeof message,
                 "rank %u%s%s has not sent its endpoint info to rank %u within %g s; is there a network or a firewall "
                 "between them?",
                 rendezvous->child[late], *host ? " on host " : "", host, client->rank, client->limit_seconds);
    else
        snprintf(message, sizeof message,
                 "rank %u has waited for the other ranks at %s (host %s) for %g s without an answer", client->rank,
                 rendezvous->placed ? rendezvous->parent : client->addresses, rendezvous->up.peer_host,
                 client->limit_seconds);
    if (rendezvous->above != PARENT_LEADER || rendezvous->late || rendezvous->up.state != STREAM_OPEN) {
        join_fail(rendezvous, WEFT_ERROR_TIMEOUT, message);
    } else {
        rendezvous->late = true;
        join_complain(rendezvous, WEFT_ERROR_TIMEOUT, message);
    }
}

/*
 * The time limit. A rank that waits for its children gives up earlier the smaller its subtree, so that the first to
 * give up is the one that misses a child; a rank that waits for the result allows time for it.
 */
static uint64_t join_end_of(const struct rendezvous *rendezvous)
{
    double more = SERVER_GRACE;
    if (rendezvous->placed && !rendezvous->late && rendezvous->joiners.held < rendezvous->expected) {
        more = 0;
        for (uint32_t below = rendezvous->expected; below > 1; below /= TREE_ARITY)
            more += LEVEL_SECONDS;
    }
    return rendezvous->deadline + (uint64_t)(more * 1e9);
}

/* Wait for an event, and handle it. */
static weft_status join_turn(struct rendezvous *rendezvous, struct pollfd **polls, struct error *error)
{
    enum { LOCAL, FAR, STOP, UP, JOINERS };
    struct joiners *joiners = &rendezvous->joiners;
    uint32_t count = joiners->count;
    struct pollfd *grown = realloc(*polls, (JOINERS + count) * sizeof **polls);
    if (!grown)
        return error_memory(error, (JOINERS + count) * sizeof **polls, "the rendezvous");
    *polls = grown;
    bool over = rendezvous->over;
    int up = over ? -1 : rendezvous->up.descriptor;
    grown[LOCAL] = (struct pollfd){over ? -1 : rendezvous->local, POLLIN, 0};
    /* Other leaders may know their places earlier: what they send is not for the server. */
    grown[FAR] = (struct pollfd){over || !rendezvous->placed ? -1 : rendezvous->far, POLLIN, 0};
    grown[STOP] = (struct pollfd){rendezvous->client.stop, POLLIN, 0};
    grown[UP] = (struct pollfd){up, (short)(POLLIN | (stream_wants_write(&rendezvous->up) ? POLLOUT : 0)), 0};
    joiners_poll(joiners, grown + JOINERS);
    uint64_t end = join_end_of(rendezvous);
    uint64_t now = clock_now(), next = joiners_deadline(joiners, over ? now + 60000000000ull : end);
    if (!over && !rendezvous->placed && joiners->held > rendezvous->passed_count && rendezvous->hold > now &&
        rendezvous->hold < next)
        next = rendezvous->hold;
    if (poll(grown, JOINERS + count, next > now ? (int)((next - now) / 1000000) + 1 : 0) < 0 && errno != EINTR)
        return error_system(error, "cannot wait for the rendezvous at %s", rendezvous->client.addresses);
    if (grown[STOP].revents)
        return error_set(error, WEFT_ERROR_STATE, "the rendezvous at %s was stopped", rendezvous->client.addresses);
    if (grown[UP].revents & (POLLIN | POLLHUP | POLLERR))
        join_parent_receive(rendezvous);
    joiners_serve(joiners, grown + JOINERS, count);
    if (grown[LOCAL].revents)
        joiners_accept(joiners, rendezvous->local, true);
    if (grown[FAR].revents)
        joiners_accept(joiners, rendezvous->far, false);
    if (!rendezvous->over && clock_now() >= join_end_of(rendezvous))
        join_too_late(rendezvous);
    return WEFT_OK;
}

/* Until there is a result and all children have it. */
static weft_status join_poll(struct rendezvous *rendezvous, const char *host, struct error *error)
{
    struct pollfd *polls = NULL;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        struct error reason = {0};
        join_pass(rendezvous, host);
        if (!rendezvous->over && rendezvous->above != PARENT_NONE && stream_write(&rendezvous->up, &reason) != WEFT_OK)
            join_fail(rendezvous, reason.status, reason.text);
        if (rendezvous->over)
            joiners_end_others(&rendezvous->joiners);
        if (rendezvous->over && rendezvous->joiners.count == 0)
            break;
        status = join_turn(rendezvous, &polls, error);
    }
    free(polls);
    if (status == WEFT_OK && rendezvous->status != WEFT_OK)
        status = error_set(error, rendezvous->status, "%s", rendezvous->error.text);
    return status;
}

/* Run this rank's part until the end. */
static weft_status join_take_part(struct rendezvous *rendezvous, const char *host, const void *blob, uint32_t size,
                                  struct rendezvous_result *result, struct error *error)
{
    const struct rendezvous_client *client = &rendezvous->client;
    struct rendezvous_result answer = {0};
    weft_status status =
        joiners_open(&rendezvous->joiners, client->ranks, 4 + size, client->secret, &rules, rendezvous, error);
    rendezvous->endpoints = calloc(client->ranks, size);
    rendezvous->passed = calloc(client->ranks, sizeof *rendezvous->passed);
    if (status == WEFT_OK && (!rendezvous->endpoints || !rendezvous->passed))
        status = error_memory(error, (size_t)client->ranks * size, "the endpoint info of all ranks");
    if (status != WEFT_OK)
        return status;
    rendezvous->result = &answer;
    if (client->rank < client->ranks && joiners_bring(&rendezvous->joiners, NULL, client->rank, NULL))
        memcpy(rendezvous->endpoints + (size_t)client->rank * size, blob, size); /* otherwise the server will object */
    double hold = client->limit_seconds / 8 < HOLD_SECONDS ? client->limit_seconds / 8 : HOLD_SECONDS;
    rendezvous->hold = clock_after(hold);
    status = join_poll(rendezvous, host, error);
    answer.counts = joiners_counts(&rendezvous->joiners);
    joiners_count(&answer.counts, &rendezvous->up.counts);
    joiners_count(&answer.counts, &rendezvous->counts);
    if (status != WEFT_OK)
        free(answer.blobs);
    else
        *result = answer;
    return status;
}

weft_status rendezvous_join(struct rendezvous *rendezvous, const char *host, const void *blob, uint32_t size,
                            struct rendezvous_result *result, struct error *error)
{
    rendezvous->size = size;
    rendezvous->up.frame_most = joiners_frame_most(rendezvous->client.ranks, size);
    return join_take_part(rendezvous, host ? host : rendezvous->address, blob, size, result, error);
}

weft_status rendezvous_gather(struct rendezvous *rendezvous, const uint8_t *secret, const char *parent,
                              const void *blob, uint32_t size, struct rendezvous_result *result, struct error *error)
{
    weft_status status = WEFT_OK;
    rendezvous->size = size;
    rendezvous->client.secret = secret;
    rendezvous->above = PARENT_NONE;
    rendezvous->deadline = clock_after(rendezvous->client.limit_seconds);
    if (parent) {
        snprintf(rendezvous->parent, sizeof rendezvous->parent, "%s", parent);
        status = rendezvous_find_parent(rendezvous, error);
    }
    return status == WEFT_OK ? join_take_part(rendezvous, NULL, blob, size, result, error) : status;
}
