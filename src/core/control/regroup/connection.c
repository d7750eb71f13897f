/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a regrouping, and the frames on them. */
#include "core/control/regroup/internal/state.h"

#include "base/clock.h"
#include "core/control/wire/address.h"
#include "core/control/wire/process_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK             40000000u   /* ns between signs of life */
#define SILENCE          500000000u  /* ns without one: it is stopped, or out of reach */
#define CROWDED_SILENCE  3000000000u /* of a runnable process of this host that does not get a processor */
#define STRANGERS        64          /* connections that are not yet authenticated */
#define ACCEPTED_AT_ONCE 16          /* so that each gets time to authenticate before others can take its place */

static struct stream_identity identity_of(const struct regroup *regroup)
{
    return (struct stream_identity){regroup->secret, STREAM_REGROUP, regroup->rank, regroup->ranks};
}

struct regroup_connection *regroup_connection_to(struct regroup *regroup, uint32_t rank)
{
    struct regroup_connection *found = NULL;
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        if (connection->rank == rank && !connection->ended && (!found || (connection->open && !found->open)))
            found = connection;
    return found;
}

static struct regroup_connection *connection_add(struct regroup *regroup, int descriptor, uint32_t rank,
                                                 uint32_t events)
{
    struct regroup_connection *connection = calloc(1, sizeof *connection);
    struct epoll_event event = {.events = events, .data.ptr = connection};
    if (!connection || epoll_ctl(regroup->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        close(descriptor);
        free(connection);
        return NULL;
    }
    connection->rank = rank;
    connection->stream.descriptor = descriptor;
    connection->began = connection->heard = clock_now();
    connection->next = regroup->connections;
    regroup->connections = connection;
    return connection;
}

void regroup_connection_send(struct regroup_connection *connection, enum regroup_frame kind, const void *payload,
                             size_t size)
{
    if (connection->ended)
        return;
    stream_put(&connection->stream, (uint16_t)kind, payload, size);
    connection->said = clock_now();
    (void)stream_write(&connection->stream, NULL);
}

void regroup_connection_sweep(struct regroup *regroup, bool all)
{
    for (struct regroup_connection **place = &regroup->connections, *connection; (connection = *place) != NULL;) {
        if (!connection->ended && !all) {
            place = &connection->next;
            continue;
        }
        *place = connection->next;
        stream_end(&connection->stream);
        free(connection);
    }
}

/* The connection has ended: update the state of the rank at its other end. */
static void connection_end(struct regroup *regroup, struct regroup_connection *connection,
                           enum regroup_peer_state state)
{
    connection->ended = true;
    connection->open = false;
    if (connection->rank == REGROUP_NONE || regroup_connection_to(regroup, connection->rank))
        return;
    struct regroup_peer *peer = &regroup->peers[connection->rank];
    peer->state = state;
    peer->joined = 0;
    peer->waiting = false;
    if (regroup->bound == connection->rank)
        regroup->bound = REGROUP_NONE;
}

/* ---- calling and being called ---- */

void regroup_connection_begin(struct regroup *regroup, uint32_t rank)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    int descriptor = -1;
    struct regroup_peer *peer = &regroup->peers[rank];
    if (address_parse(regroup->endpoints[rank].control, host, &port, NULL) != WEFT_OK)
        peer->state = REGROUP_PEER_CUT;
    else if (address_connect_begin(host, port, &descriptor) != 0)
        peer->state = errno == ECONNREFUSED ? REGROUP_PEER_DEAD : REGROUP_PEER_CUT;
    if (descriptor < 0)
        return;
    struct regroup_connection *connection = connection_add(regroup, descriptor, rank, EPOLLIN | EPOLLOUT);
    if (connection)
        connection->connecting = true;
}

/*
 * When there are too many unauthenticated connections, end the oldest: a stranger cannot keep ranks out, and a rank
 * that loses its connection connects again. The list begins with the newest.
 */
static void connection_end_oldest_stranger(struct regroup *regroup)
{
    struct regroup_connection *oldest = NULL;
    uint32_t strangers = 0;
    for (struct regroup_connection *connection = regroup->connections; connection; connection = connection->next)
        if (connection->rank == REGROUP_NONE && !connection->ended) {
            oldest = connection;
            strangers++;
        }
    if (strangers >= STRANGERS)
        oldest->ended = true;
}

void regroup_connection_accept_all(struct regroup *regroup)
{
    const struct stream_identity identity = identity_of(regroup);
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int descriptor = accept4(regroup->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor < 0)
            return;
        address_prepare(descriptor);
        connection_end_oldest_stranger(regroup);
        struct regroup_connection *connection = connection_add(regroup, descriptor, REGROUP_NONE, EPOLLIN);
        if (connection && stream_begin(&connection->stream, descriptor, true, &identity, NULL) != WEFT_OK)
            connection->ended = true;
    }
}

/* A call that may have come through by now. */
static void connection_call_finish(struct regroup *regroup, struct regroup_connection *connection)
{
    int descriptor = connection->stream.descriptor, reason = 0;
    switch (address_connect_result(descriptor, &reason)) {
    case 0:
        return;
    case 1:
        break;
    default:
        connection_end(regroup, connection,
                       reason == ECONNREFUSED || reason == ECONNRESET ? REGROUP_PEER_DEAD : REGROUP_PEER_CUT);
        return;
    }
    const struct stream_identity identity = identity_of(regroup);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    connection->connecting = false;
    connection->heard = clock_now();
    address_prepare(descriptor);
    if (epoll_ctl(regroup->epoll, EPOLL_CTL_MOD, descriptor, &event) != 0 ||
        stream_begin(&connection->stream, descriptor, false, &identity, NULL) != WEFT_OK)
        connection_end(regroup, connection, REGROUP_PEER_UNKNOWN);
}

static void connection_send_alive(const struct regroup *regroup, struct regroup_connection *connection)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, regroup->epoch);
    buffer_put_u32(&payload, (regroup->agreeing ? REGROUP_WILLING : 0) | (regroup->quiet ? REGROUP_QUIET : 0) |
                                 (regroup->is_new ? REGROUP_NEW : 0));
    regroup_connection_send(connection, REGROUP_ALIVE, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* The other end is authenticated. */
static void connection_opened(struct regroup *regroup, struct regroup_connection *connection)
{
    if (connection->stream.server && connection->stream.peer_rank == REGROUP_NONE) { /* the launcher */
        connection->open = true;
        return;
    }
    if (connection->stream.server) {
        uint32_t rank = connection->stream.peer_rank;
        if (rank == regroup->rank || rank >= REGROUP_RANKS_MOST || !regroup_make_room(regroup, rank + 1)) {
            connection_end(regroup, connection, REGROUP_PEER_UNKNOWN);
            return;
        }
        connection->rank = rank;
        if (regroup->peers[rank].state != REGROUP_PEER_LATE) /* it lives after all */
            regroup->peers[rank].state = REGROUP_PEER_UNKNOWN;
    }
    connection->open = true;
    connection_send_alive(regroup, connection);
}

/* ---- frames ---- */

static void connection_turn_away(struct regroup_connection *connection, const char *message)
{
    struct buffer payload = {0};
    buffer_put_text(&payload, message);
    regroup_connection_send(connection, REGROUP_LEFT_OUT, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* A rank of an earlier epoch: it missed the table, or is no longer a member. */
static void connection_correct(struct regroup *regroup, struct regroup_connection *connection)
{
    if (connection->told)
        return;
    connection->told = true;
    if (regroup->peers[connection->rank].member) {
        regroup_connection_send(connection, REGROUP_TABLE, buffer_begin(&regroup->table), buffer_size(&regroup->table));
        return;
    }
    connection_turn_away(connection,
                         "the other ranks have continued without this one: it did not answer them, or came too "
                         "late to weft_shrink()");
}

static bool connection_alive_handle(struct regroup *regroup, struct regroup_connection *connection,
                                    struct reader reader)
{
    uint32_t epoch = reader_u32(&reader), flags = reader_u32(&reader);
    connection->willing = flags & REGROUP_WILLING;
    connection->quiet = flags & REGROUP_QUIET;
    connection->heard = clock_now();
    const bool waits = (flags & REGROUP_NEW) && !regroup->peers[connection->rank].member;
    if (!reader.bad && epoch < regroup->epoch && !waits)
        connection_correct(regroup, connection);
    return !reader.bad;
}

static bool connection_join_handle(struct regroup *regroup, struct regroup_connection *connection, struct reader reader)
{
    uint32_t epoch = reader_u32(&reader);
    const uint8_t *bytes = reader_bytes(&reader, sizeof(struct endpoint_info));
    struct regroup_peer *peer = &regroup->peers[connection->rank];
    if (!bytes)
        return false;
    if (!peer->member && epoch <= regroup->epoch) /* its leader died before others had that table */
        connection_correct(regroup, connection);
    if (epoch < regroup->epoch || !peer->member)
        return true;
    memcpy(&peer->endpoint, bytes, sizeof peer->endpoint);
    endpoint_info_end_texts(&peer->endpoint);
    peer->joined = epoch + 1;
    peer->state = REGROUP_PEER_UNKNOWN;
    if (regroup->bound == connection->rank && regroup->rank < connection->rank)
        regroup->bound = REGROUP_NONE; /* each wants to follow the other: the lower leads */
    if (regroup->bound != REGROUP_NONE) {
        struct buffer payload = {0};
        buffer_put_u32(&payload, regroup->bound);
        regroup_connection_send(connection, REGROUP_FOLLOW, buffer_begin(&payload), buffer_size(&payload));
        buffer_free(&payload);
    }
    return true;
}

/* A newcomer follows this rank. */
static bool connection_newcomer_handle(struct regroup *regroup, struct regroup_connection *connection,
                                       struct reader reader)
{
    const uint8_t *here = reader_bytes(&reader, sizeof(struct endpoint_info));
    const uint8_t *next = reader_bytes(&reader, sizeof(struct endpoint_info));
    struct regroup_peer *peer = &regroup->peers[connection->rank];
    struct endpoint_info *endpoint = &regroup->endpoints[connection->rank];
    if (!here || !next)
        return false;
    if (peer->member) /* it has not heard of that yet */
        return true;
    for (uint32_t r = connection->rank + 1; r < regroup->ranks; r++)
        if (regroup->peers[r].member) {
            regroup_connection_send(connection, REGROUP_OVERTAKEN, NULL, 0);
            return true;
        }
    memcpy(endpoint, here, sizeof *endpoint);
    memcpy(&peer->endpoint, next, sizeof peer->endpoint);
    endpoint_info_end_texts(endpoint);
    endpoint_info_end_texts(&peer->endpoint);
    peer->waiting = true;
    peer->state = REGROUP_PEER_UNKNOWN;
    return true;
}

/* The launcher asks for ranks to leave. A rank does not release itself: it asks the lowest of several. */
static bool connection_release_handle(struct regroup *regroup, struct regroup_connection *connection,
                                      struct reader reader)
{
    while (reader.left > 0 && !reader.bad) {
        const uint32_t rank = reader_u32(&reader);
        if (!reader.bad && rank < regroup->ranks && rank != regroup->rank)
            regroup->peers[rank].leaving = true;
    }
    regroup_connection_send(connection, REGROUP_RELEASE, NULL, 0);
    return !reader.bad;
}

/* Another rank says that it leads. */
static void connection_probe_handle(struct regroup *regroup, struct regroup_connection *connection)
{
    uint32_t leader = regroup->bound;
    if (leader == connection->rank) /* it ignored the last JOIN: it had not adopted the table yet */
        connection->joined = false;
    if (!regroup->agreeing || regroup->decided || leader == connection->rank)
        return;
    if (leader == REGROUP_NONE && regroup->led_since && regroup->rank < connection->rank)
        leader = regroup->rank;
    if (connection->rank < regroup->rank && (leader == REGROUP_NONE || connection->rank < leader)) {
        regroup->peers[connection->rank].state = REGROUP_PEER_UNKNOWN; /* it is not gone after all */
        regroup_follow(regroup, connection->rank);
        return;
    }
    if (leader == REGROUP_NONE)
        return;
    struct buffer payload = {0};
    buffer_put_u32(&payload, leader);
    regroup_connection_send(connection, REGROUP_FOLLOW, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

static bool connection_frame_handle(struct regroup *regroup, struct regroup_connection *connection,
                                    const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t rank;
    if (connection->rank == REGROUP_NONE)
        return frame->kind == REGROUP_RELEASE && connection_release_handle(regroup, connection, reader);
    switch (frame->kind) {
    case REGROUP_ALIVE:
        return connection_alive_handle(regroup, connection, reader);
    case REGROUP_JOIN:
        return connection_join_handle(regroup, connection, reader);
    case REGROUP_NEWCOMER:
        return connection_newcomer_handle(regroup, connection, reader);
    case REGROUP_PROBE:
        connection_probe_handle(regroup, connection);
        return true;
    case REGROUP_FOLLOW:
        rank = reader_u32(&reader);
        if (reader.bad || rank >= regroup->ranks)
            return false;
        /* Who points to a higher rank has given this one up; it will hear from it. */
        if (regroup->agreeing && rank < regroup->rank && regroup->peers[rank].member)
            regroup_follow(regroup, rank);
        return true;
    case REGROUP_TABLE:
        return regroup_adopt(regroup, frame->payload, frame->size);
    case REGROUP_LEFT_OUT:
        reader_text(&reader, message, sizeof message);
        regroup_decide(regroup, WEFT_ERROR_PEER, message);
        return !reader.bad;
    case REGROUP_OVERTAKEN:
        regroup->overtaken = regroup->is_new;
        regroup_decide(regroup, WEFT_ERROR_PEER, "a rank that was started after this one has joined before it");
        return regroup->is_new;
    default:
        return false;
    }
}

/* ---- advancing ---- */

static bool connection_frames_handle(struct regroup *regroup, struct regroup_connection *connection)
{
    struct frame frame;
    int found = 0;
    while (!connection->ended && (found = stream_peek(&connection->stream, &frame)) == 1) {
        bool good = connection_frame_handle(regroup, connection, &frame);
        stream_drop(&connection->stream, &frame);
        if (!good)
            return false;
    }
    return found >= 0;
}

static void connection_silence_check(struct regroup *regroup, struct regroup_connection *connection, uint64_t now)
{
    uint64_t limit = SILENCE;
    if (now < connection->heard + limit)
        return;
    if (connection->rank != REGROUP_NONE) {
        const struct endpoint_info *endpoint = &regroup->endpoints[connection->rank];
        if (strcmp(endpoint->host, regroup->endpoints[regroup->rank].host) == 0 && process_is_well(endpoint->process))
            limit = CROWDED_SILENCE;
    }
    if (now >= connection->heard + limit)
        connection_end(regroup, connection, connection->connecting ? REGROUP_PEER_CUT : REGROUP_PEER_STUCK);
}

void regroup_connection_advance(struct regroup *regroup, struct regroup_connection *connection, uint64_t now)
{
    if (connection->connecting)
        connection_call_finish(regroup, connection);
    if (!connection->ended && !connection->connecting) {
        weft_status status = stream_read(&connection->stream, NULL);
        if (status == WEFT_OK && !connection->open && connection->stream.state == STREAM_OPEN) {
            connection->heard = now;
            connection_opened(regroup, connection);
        }
        bool good = !connection->open || connection_frames_handle(regroup, connection);
        if (status == WEFT_OK)
            status = stream_write(&connection->stream, NULL);
        if ((status != WEFT_OK || !good) && !connection->ended)
            connection_end(regroup, connection,
                           connection->stream.broken_off ? REGROUP_PEER_CUT
                           : connection->stream.state == STREAM_ENDED || connection->open
                               ? REGROUP_PEER_UNKNOWN /* the next connection attempt finds out */
                               : REGROUP_PEER_DEAD);
    }
    if (!connection->ended)
        connection_silence_check(regroup, connection, now);
    if (connection->open && connection->rank != REGROUP_NONE && now >= connection->said + TICK)
        connection_send_alive(regroup, connection);
}
