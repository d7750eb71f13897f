/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/rendezvous/internal/joiners.h"

#include "base/clock.h"
#include "core/control/rendezvous/internal/wire.h"
#include "core/control/wire/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING_SECONDS 10 /* for the first bytes, and for taking the last ones */
#define JOINERS_SPARE    64 /* connections beyond the number of ranks: other programs and refused ranks */
#define ACCEPTED_AT_ONCE 16 /* so that each gets time to authenticate before others can take its place */
#define PIECE_BYTES      65536
#define FRAME_ROOM       2048 /* bytes of a frame apart from its entry for each rank: the longest is a message */

uint32_t joiners_frame_most(uint32_t ranks, uint32_t rank_bytes)
{
    uint64_t most = FRAME_ROOM + (uint64_t)ranks * rank_bytes;
    return most < STREAM_FRAME_MOST ? (uint32_t)most : STREAM_FRAME_MOST;
}

weft_status joiners_open(struct joiners *joiners, uint32_t ranks, uint32_t rank_bytes, const uint8_t *secret,
                         const struct joiners_rules *rules, void *context, struct error *error)
{
    *joiners = (struct joiners){.rules = rules, .context = context, .secret = secret, .ranks = ranks};
    joiners->frame_most = joiners_frame_most(ranks, rank_bytes);
    joiners->bringer = calloc(ranks, sizeof *joiners->bringer);
    return joiners->bringer ? WEFT_OK : error_memory(error, ranks * sizeof *joiners->bringer, "the rendezvous");
}

void joiners_count(struct stream_counts *sum, const struct stream_counts *more)
{
    sum->sent += more->sent;
    sum->received += more->received;
    sum->bytes += more->bytes;
}

struct stream_counts joiners_counts(const struct joiners *joiners)
{
    struct stream_counts sum = joiners->counts;
    for (uint32_t i = 0; i < joiners->count; i++)
        joiners_count(&sum, &joiners->joined[i].stream.counts);
    return sum;
}

/* Count the traffic since the last call. */
static void account(struct joiners *joiners, struct joiner *joiner)
{
    uint32_t handled = joiner->stream.counts.sent + joiner->stream.counts.received;
    joiners->handled += handled - joiner->handled;
    joiner->handled = handled;
}

static void joiner_remove(struct joiners *joiners, uint32_t index)
{
    struct joiner *joiner = &joiners->joined[index];
    if (joiner->authenticated && !joiner->leaving)
        joiners->rules->leave(joiners->context, joiner);
    account(joiners, joiner);
    joiners_count(&joiners->counts, &joiner->stream.counts);
    stream_end(&joiner->stream);
    joiners->joined[index] = joiners->joined[--joiners->count];
}

void joiners_close(struct joiners *joiners)
{
    while (joiners->count > 0) {
        joiners->joined[joiners->count - 1].leaving = true; /* there is no reader left */
        joiner_remove(joiners, joiners->count - 1);
    }
    free(joiners->joined);
    free(joiners->bringer);
    buffer_free(&joiners->answer);
    *joiners = (struct joiners){0};
}

static struct joiner *joiners_find(const struct joiners *joiners, uint32_t number)
{
    for (uint32_t i = 0; i < joiners->count; i++)
        if (joiners->joined[i].number == number)
            return &joiners->joined[i];
    return NULL;
}

/*
 * Make room for one more joiner: a connection that is held open cannot keep ranks out, and a rank that loses its
 * connection connects again.
 */
static bool joiners_make_room(struct joiners *joiners)
{
    if (joiners->count >= 2 * joiners->ranks + JOINERS_SPARE) {
        uint32_t oldest = joiners->count;
        for (uint32_t i = 0; i < joiners->count; i++)
            if (!joiners->joined[i].authenticated &&
                (oldest == joiners->count || joiners->joined[i].deadline < joiners->joined[oldest].deadline))
                oldest = i;
        if (oldest == joiners->count)
            return false;
        joiner_remove(joiners, oldest);
    }
    return ARRAY_RESERVE(joiners->joined, joiners->room, joiners->count + 1, "joining ranks", NULL) == WEFT_OK;
}

void joiners_accept(struct joiners *joiners, int listener, bool local)
{
    const struct stream_identity identity = {.secret = joiners->secret, .purpose = STREAM_RENDEZVOUS};
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (local && !address_is_of_same_user(fd)) {
            close(fd);
            continue;
        }
        if (!local)
            address_prepare(fd);
        if (!joiners_make_room(joiners)) {
            close(fd);
            return;
        }
        struct joiner *joiner = &joiners->joined[joiners->count++];
        *joiner = (struct joiner){.number = ++joiners->last_number,
                                  .local = local,
                                  .deadline = clock_now() + GREETING_SECONDS * 1000000000ull};
        if (stream_begin(&joiner->stream, fd, true, &identity, NULL) != WEFT_OK)
            joiner_remove(joiners, joiners->count - 1);
        else
            joiner->stream.frame_most = joiners->frame_most;
    }
}

void joiners_poll(const struct joiners *joiners, struct pollfd *polls)
{
    for (uint32_t i = 0; i < joiners->count; i++) {
        const struct joiner *joiner = &joiners->joined[i];
        bool write = stream_wants_write(&joiner->stream) || joiner->answer_left > 0 || joiner->leaving;
        polls[i] = (struct pollfd){joiner->stream.descriptor, (short)(POLLIN | (write ? POLLOUT : 0)), 0};
    }
}

uint64_t joiners_deadline(const struct joiners *joiners, uint64_t latest)
{
    for (uint32_t i = 0; i < joiners->count; i++)
        if ((!joiners->joined[i].authenticated || joiners->joined[i].leaving) && joiners->joined[i].deadline < latest)
            latest = joiners->joined[i].deadline;
    return latest;
}

/* A joiner that holds the secret sent an unexpected frame. */
static bool refuse_frame(struct joiners *joiners, const struct joiner *joiner)
{
    char message[JOINERS_MESSAGE_BYTES];
    snprintf(message, sizeof message,
             "rank %u on host %s sent malformed endpoint info: its connection was ended; a program error, or another "
             "build of Weft",
             joiner->stream.peer_rank, joiner->stream.peer_host);
    if (joiners->rules->refuse)
        joiners->rules->refuse(joiners->context, message);
    return false;
}

/* Receive from a joiner. False: it is to be removed. */
static bool joiners_hear(struct joiners *joiners, struct joiner *joiner)
{
    struct error reason = {0};
    enum stream_state before = joiner->stream.state;
    weft_status heard = stream_read(&joiner->stream, &reason);
    if (joiner->leaving)
        return heard == WEFT_OK;
    if (joiner->stream.state == STREAM_REFUSED && joiners->rules->refuse)
        joiners->rules->refuse(joiners->context, reason.text);
    if (joiner->stream.state == STREAM_OPEN && before != STREAM_OPEN) {
        joiner->authenticated = true;
        account(joiners, joiner);
        joiners->rules->authenticated(joiners->context, joiner);
    }
    struct frame frame;
    int found = 0;
    while (!joiner->leaving && joiner->authenticated && (found = stream_peek(&joiner->stream, &frame)) == 1) {
        bool good = joiners->rules->take(joiners->context, joiner, &frame);
        stream_drop(&joiner->stream, &frame);
        account(joiners, joiner);
        if (!good)
            return refuse_frame(joiners, joiner);
    }
    return found >= 0 ? heard == WEFT_OK : refuse_frame(joiners, joiner);
}

/* Send a joiner's pending data. False: it is leaving and everything is sent, or it is gone. */
static bool joiners_tell(struct joiners *joiners, struct joiner *joiner)
{
    while (joiner->answer_left > 0 && buffer_size(&joiner->stream.out) < PIECE_BYTES) {
        size_t piece = joiner->answer_left < PIECE_BYTES ? joiner->answer_left : PIECE_BYTES;
        const uint8_t *end = buffer_begin(&joiners->answer) + buffer_size(&joiners->answer);
        buffer_put(&joiner->stream.out, end - joiner->answer_left, piece);
        joiner->answer_left -= piece;
        if (stream_write(&joiner->stream, NULL) != WEFT_OK)
            return false;
        if (stream_wants_write(&joiner->stream))
            break;
    }
    if (stream_write(&joiner->stream, NULL) != WEFT_OK)
        return false;
    if (joiner->leaving && joiner->answer_left == 0 && !stream_wants_write(&joiner->stream)) {
        shutdown(joiner->stream.descriptor, SHUT_WR);
        return false;
    }
    return true;
}

void joiners_serve(struct joiners *joiners, const struct pollfd *polls, uint32_t count)
{
    uint64_t now = clock_now();
    for (uint32_t i = count; i-- > 0;) { /* backwards: removal moves the last joiner, already seen, into the gap */
        struct joiner *joiner = &joiners->joined[i];
        bool stays = true;
        if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
            stays = joiners_hear(joiners, joiner);
        if (stays)
            stays = joiners_tell(joiners, joiner);
        account(joiners, joiner);
        if (stays && (!joiner->authenticated || joiner->leaving) && now >= joiner->deadline)
            stays = false;
        if (!stays)
            joiner_remove(joiners, i);
    }
}

void joiners_end_others(struct joiners *joiners)
{
    for (uint32_t i = joiners->count; i-- > 0;)
        if (!joiners->joined[i].leaving)
            joiner_remove(joiners, i);
}

bool joiners_check(const struct joiners *joiners, const struct joiner *joiner, char message[JOINERS_MESSAGE_BYTES])
{
    const struct stream *stream = &joiner->stream;
    if (stream->peer_ranks != joiners->ranks)
        snprintf(message, JOINERS_MESSAGE_BYTES,
                 "rank %u on host %s expects %u ranks, but the job has %u; start all ranks with the same "
                 "number",
                 stream->peer_rank, stream->peer_host, stream->peer_ranks, joiners->ranks);
    else if (stream->peer_rank >= joiners->ranks)
        snprintf(message, JOINERS_MESSAGE_BYTES,
                 "a process on host %s says it is rank %u, but the job has ranks 0 to %u", stream->peer_host,
                 stream->peer_rank, joiners->ranks - 1);
    else
        return true;
    return false;
}

bool joiners_bring(struct joiners *joiners, const struct joiner *joiner, uint32_t rank,
                   char message[JOINERS_MESSAGE_BYTES])
{
    uint32_t before = joiners->bringer[rank];
    const struct joiner *other = before == JOINERS_SELF ? NULL : joiners_find(joiners, before);
    if (before == JOINERS_NOBODY) {
        joiners->bringer[rank] = joiner ? joiner->number : JOINERS_SELF;
        joiners->held++;
        return true;
    }
    char host[STREAM_HOST_BYTES];
    snprintf(message, JOINERS_MESSAGE_BYTES,
             "two processes say they are rank %u of %u, one on host %s, one on host %s; give each a number of its own",
             rank, joiners->ranks, other ? other->stream.peer_host : address_host_name(host, sizeof host),
             joiner->stream.peer_host);
    return false;
}

void joiners_withdraw(struct joiners *joiners, uint32_t rank)
{
    joiners->held -= joiners->bringer[rank] != JOINERS_NOBODY;
    joiners->bringer[rank] = JOINERS_NOBODY;
}

void joiners_dismiss(struct joiners *joiners, bool answered)
{
    uint64_t deadline = clock_now() + GREETING_SECONDS * 1000000000ull;
    for (uint32_t i = 0; i < joiners->count; i++) {
        struct joiner *joiner = &joiners->joined[i];
        if (!joiner->authenticated || joiner->visits || joiner->leaving)
            continue;
        joiner->leaving = true;
        joiner->deadline = deadline;
        joiner->answer_left = answered ? buffer_size(&joiners->answer) : 0;
        joiner->stream.counts.sent += answered;
    }
}

void joiners_fail(struct joiners *joiners, weft_status status, const char *message)
{
    struct buffer text = {0};
    buffer_put_u32(&text, (uint32_t)status);
    buffer_put_text(&text, message);
    for (uint32_t i = 0; i < joiners->count; i++)
        if (joiners->joined[i].authenticated && !joiners->joined[i].visits && !joiners->joined[i].leaving)
            stream_put(&joiners->joined[i].stream, RENDEZVOUS_FAILURE, buffer_begin(&text), buffer_size(&text));
    buffer_free(&text);
    joiners_dismiss(joiners, false);
}
