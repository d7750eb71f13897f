/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a regrouping, and what passes over them. */
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
#define CROWDED_SILENCE  3000000000u /* of a process of this host that would run if it were let */
#define STRANGERS        64          /* connections that have not yet said who they are */
#define ACCEPTED_AT_ONCE 16          /* so that each is heard before others can take its place */

static struct stream_identity identity_of(const struct regroup *regroup)
{
    return (struct stream_identity){regroup->secret, STREAM_REGROUP, regroup->rank, regroup->ranks};
}

struct regroup_line *line_to(struct regroup *regroup, uint32_t rank)
{
    struct regroup_line *found = NULL;
    for (struct regroup_line *line = regroup->lines; line; line = line->next)
        if (line->rank == rank && !line->ended && (!found || (line->open && !found->open)))
            found = line;
    return found;
}

static struct regroup_line *line_add(struct regroup *regroup, int descriptor, uint32_t rank, uint32_t events)
{
    struct regroup_line *line = calloc(1, sizeof *line);
    struct epoll_event event = {.events = events, .data.ptr = line};
    if (!line || epoll_ctl(regroup->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        close(descriptor);
        free(line);
        return NULL;
    }
    line->rank = rank;
    line->stream.descriptor = descriptor;
    line->began = line->heard = clock_now();
    line->next = regroup->lines;
    regroup->lines = line;
    return line;
}

void line_send(struct regroup_line *line, enum regroup_frame kind, const void *payload, size_t size)
{
    if (line->ended)
        return;
    stream_put(&line->stream, (uint16_t)kind, payload, size);
    line->said = clock_now();
    (void)stream_write(&line->stream, NULL);
}

void line_sweep(struct regroup *regroup, bool all)
{
    for (struct regroup_line **place = &regroup->lines, *line; (line = *place) != NULL;) {
        if (!line->ended && !all) {
            place = &line->next;
            continue;
        }
        *place = line->next;
        stream_end(&line->stream);
        free(line);
    }
}

/* The line has ended: what that says of the rank at its other end. */
static void end_line(struct regroup *regroup, struct regroup_line *line, enum standing standing)
{
    line->ended = true;
    line->open = false;
    if (line->rank == REGROUP_NOBODY || line_to(regroup, line->rank))
        return;
    struct mate *mate = &regroup->mates[line->rank];
    mate->standing = standing;
    mate->joined = 0;
    if (regroup->bound == line->rank)
        regroup->bound = REGROUP_NOBODY;
}

/* ---- calling and being called ---- */

void line_call(struct regroup *regroup, uint32_t rank)
{
    char host[ADDRESS_TEXT_BYTES];
    uint16_t port = 0;
    int descriptor = -1;
    struct mate *mate = &regroup->mates[rank];
    if (address_parse(regroup->endpoints[rank].control, host, &port, NULL) != WEFT_OK)
        mate->standing = STANDING_CUT;
    else if (address_call(host, port, &descriptor) != 0)
        mate->standing = errno == ECONNREFUSED ? STANDING_DEAD : STANDING_CUT;
    if (descriptor < 0)
        return;
    struct regroup_line *line = line_add(regroup, descriptor, rank, EPOLLIN | EPOLLOUT);
    if (line)
        line->connecting = true;
}

/* When there are too many who have not said who they are, the oldest goes: a stranger that holds connections open keeps
 * nobody out, and a rank that loses its place calls again. The newest lines come first. */
static void end_oldest_stranger(struct regroup *regroup)
{
    struct regroup_line *oldest = NULL;
    uint32_t strangers = 0;
    for (struct regroup_line *line = regroup->lines; line; line = line->next)
        if (line->rank == REGROUP_NOBODY && !line->ended) {
            oldest = line;
            strangers++;
        }
    if (strangers >= STRANGERS)
        oldest->ended = true;
}

void line_accept_all(struct regroup *regroup)
{
    const struct stream_identity identity = identity_of(regroup);
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int descriptor = accept4(regroup->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (descriptor < 0)
            return;
        address_prepare(descriptor);
        end_oldest_stranger(regroup);
        struct regroup_line *line = line_add(regroup, descriptor, REGROUP_NOBODY, EPOLLIN);
        if (line && stream_begin(&line->stream, descriptor, true, &identity, NULL) != WEFT_OK)
            line->ended = true;
    }
}

/* A call that may have come through by now. */
static void finish_call(struct regroup *regroup, struct regroup_line *line)
{
    int descriptor = line->stream.descriptor, reason = 0;
    switch (address_answered(descriptor, &reason)) {
    case 0:
        return;
    case 1:
        break;
    default:
        end_line(regroup, line, reason == ECONNREFUSED || reason == ECONNRESET ? STANDING_DEAD : STANDING_CUT);
        return;
    }
    const struct stream_identity identity = identity_of(regroup);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
    line->connecting = false;
    line->heard = clock_now();
    address_prepare(descriptor);
    if (epoll_ctl(regroup->epoll, EPOLL_CTL_MOD, descriptor, &event) != 0 ||
        stream_begin(&line->stream, descriptor, false, &identity, NULL) != WEFT_OK)
        end_line(regroup, line, STANDING_UNKNOWN);
}

static void say_alive(const struct regroup *regroup, struct regroup_line *line)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, regroup->epoch);
    buffer_put_u32(&payload, (regroup->bootstrap ? REGROUP_WILLING : 0) | (regroup->quiet ? REGROUP_QUIET : 0));
    line_send(line, REGROUP_ALIVE, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

/* The other end has proved itself. */
static void line_opened(struct regroup *regroup, struct regroup_line *line)
{
    if (line->stream.server) {
        uint32_t rank = line->stream.peer_rank;
        if (rank >= regroup->ranks || rank == regroup->rank) {
            end_line(regroup, line, STANDING_UNKNOWN);
            return;
        }
        line->rank = rank;
        if (regroup->mates[rank].standing != STANDING_LATE) /* it lives after all */
            regroup->mates[rank].standing = STANDING_UNKNOWN;
    }
    line->open = true;
    say_alive(regroup, line);
}

/* ---- frames ---- */

/* A rank of an earlier epoch: it missed the table, or is no longer a member. */
static void correct(struct regroup *regroup, struct regroup_line *line)
{
    if (line->told)
        return;
    line->told = true;
    if (regroup->mates[line->rank].member) {
        line_send(line, REGROUP_TABLE, buffer_begin(&regroup->table), buffer_size(&regroup->table));
        return;
    }
    struct buffer payload = {0};
    buffer_put_text(&payload,
                    "the other ranks have gone on without this one: it did not answer them, or came too late to "
                    "weft_shrink()");
    line_send(line, REGROUP_LEFT_OUT, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

static bool take_alive(struct regroup *regroup, struct regroup_line *line, struct reader reader)
{
    uint32_t epoch = reader_u32(&reader), flags = reader_u32(&reader);
    line->willing = flags & REGROUP_WILLING;
    line->quiet = flags & REGROUP_QUIET;
    line->heard = clock_now();
    if (!reader.bad && epoch < regroup->epoch)
        correct(regroup, line);
    return !reader.bad;
}

static bool take_join(struct regroup *regroup, struct regroup_line *line, struct reader reader)
{
    uint32_t epoch = reader_u32(&reader);
    const uint8_t *bytes = reader_bytes(&reader, sizeof(struct endpoint_info));
    struct mate *mate = &regroup->mates[line->rank];
    if (!bytes)
        return false;
    if (epoch < regroup->epoch || !mate->member)
        return true;
    memcpy(&mate->endpoint, bytes, sizeof mate->endpoint);
    endpoint_info_end_texts(&mate->endpoint);
    mate->joined = epoch + 1;
    mate->standing = STANDING_UNKNOWN;
    if (regroup->bound == line->rank && regroup->rank < line->rank)
        regroup->bound = REGROUP_NOBODY; /* each wants to follow the other: the lower leads */
    if (regroup->bound != REGROUP_NOBODY) {
        struct buffer payload = {0};
        buffer_put_u32(&payload, regroup->bound);
        line_send(line, REGROUP_FOLLOW, buffer_begin(&payload), buffer_size(&payload));
        buffer_free(&payload);
    }
    return true;
}

/* Another rank says that it leads. */
static void take_probe(struct regroup *regroup, struct regroup_line *line)
{
    uint32_t leader = regroup->bound;
    if (!regroup->bootstrap || regroup->decided || leader == line->rank)
        return;
    if (leader == REGROUP_NOBODY && regroup->led_since && regroup->rank < line->rank)
        leader = regroup->rank;
    if (leader == REGROUP_NOBODY && line->rank < regroup->rank) {
        regroup_follow(regroup, line->rank);
        return;
    }
    if (leader == REGROUP_NOBODY)
        return;
    struct buffer payload = {0};
    buffer_put_u32(&payload, leader);
    line_send(line, REGROUP_FOLLOW, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
}

static bool regroup_line_handle(struct regroup *regroup, struct regroup_line *line, const struct frame *frame)
{
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    uint32_t rank;
    switch (frame->kind) {
    case REGROUP_ALIVE:
        return take_alive(regroup, line, reader);
    case REGROUP_JOIN:
        return take_join(regroup, line, reader);
    case REGROUP_PROBE:
        take_probe(regroup, line);
        return true;
    case REGROUP_FOLLOW:
        rank = reader_u32(&reader);
        if (reader.bad || rank >= regroup->ranks)
            return false;
        if (regroup->bootstrap && rank != regroup->rank && regroup->mates[rank].member)
            regroup_follow(regroup, rank);
        return true;
    case REGROUP_TABLE:
        return regroup_adopt(regroup, frame->payload, frame->size);
    case REGROUP_LEFT_OUT:
        reader_text(&reader, message, sizeof message);
        regroup_decide(regroup, WEFT_ERROR_PEER, message);
        return !reader.bad;
    default:
        return false;
    }
}

/* ---- advancing ---- */

static bool regroup_line_handle_frames(struct regroup *regroup, struct regroup_line *line)
{
    struct frame frame;
    int found = 0;
    while (!line->ended && (found = stream_peek(&line->stream, &frame)) == 1) {
        bool good = regroup_line_handle(regroup, line, &frame);
        stream_drop(&line->stream, &frame);
        if (!good)
            return false;
    }
    return found >= 0;
}

static void regroup_line_judge_silence(struct regroup *regroup, struct regroup_line *line, uint64_t now)
{
    uint64_t limit = SILENCE;
    if (now < line->heard + limit)
        return;
    if (line->rank != REGROUP_NOBODY) {
        const struct endpoint_info *endpoint = &regroup->endpoints[line->rank];
        if (strcmp(endpoint->host, regroup->endpoints[regroup->rank].host) == 0 && process_is_well(endpoint->process))
            limit = CROWDED_SILENCE;
    }
    if (now >= line->heard + limit)
        end_line(regroup, line, line->connecting ? STANDING_CUT : STANDING_STUCK);
}

void line_advance(struct regroup *regroup, struct regroup_line *line, uint64_t now)
{
    if (line->connecting)
        finish_call(regroup, line);
    if (!line->ended && !line->connecting) {
        weft_status status = stream_read(&line->stream, NULL);
        if (status == WEFT_OK && !line->open && line->stream.state == STREAM_OPEN) {
            line->heard = now;
            line_opened(regroup, line);
        }
        bool good = !line->open || regroup_line_handle_frames(regroup, line);
        if (status == WEFT_OK)
            status = stream_write(&line->stream, NULL);
        if ((status != WEFT_OK || !good) && !line->ended)
            end_line(regroup, line,
                     line->stream.broken_off                            ? STANDING_CUT
                     : line->stream.state == STREAM_ENDED || line->open ? STANDING_UNKNOWN /* a call will tell */
                                                                        : STANDING_DEAD);
    }
    if (!line->ended)
        regroup_line_judge_silence(regroup, line, now);
    if (line->open && now >= line->said + TICK)
        say_alive(regroup, line);
}
