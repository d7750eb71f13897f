/* SPDX-License-Identifier: Apache-2.0 */
/* The side that serves. The side that comes is rendezvous_join.c. */
#include "control/rendezvous.h"

#include "base/clock.h"
#include "control/address.h"
#include "control/rendezvous_wire.h"
#include "control/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING_SECONDS 10 /* for the first bytes, and for taking the last ones */
#define GUESTS_SPARE     64 /* connections beyond the number of ranks: strangers and refused ones */
#define ACCEPTED_AT_ONCE 16 /* so that each is heard before others can take its place */
#define PIECE_BYTES      65536

/* A connection: a rank, or who may become one. */
struct guest {
    struct stream stream;
    uint64_t deadline; /* for its greeting, then for taking what it is sent */
    uint8_t *blob;
    uint32_t size;
    size_t table_left; /* bytes of the table still to be put into the stream */
    bool seated;       /* its rank is taken by it */
    bool leaving;      /* has been told the outcome: close when all is sent */
};

struct round {
    const struct rendezvous_server *server;
    struct guest *guests;
    uint32_t count, room;
    uint32_t seated, complete;
    uint64_t deadline;   /* of the round; 0: nobody has come yet */
    uint32_t finished;   /* rounds that are over, well or not */
    struct buffer table; /* the answer, once all have come; kept until the next round's */
    char refused[512];   /* the last refusal, for the sentence about a missing rank */
};

static void report(const struct round *round, const char *sentence)
{
    if (round->server->report)
        round->server->report(round->server->context, sentence);
}

static void guest_remove(struct round *round, uint32_t index)
{
    struct guest *guest = &round->guests[index];
    if (guest->seated && !guest->leaving) {
        round->seated--;
        round->complete -= guest->blob != NULL;
    }
    stream_end(&guest->stream);
    free(guest->blob);
    round->guests[index] = round->guests[--round->count];
}

static struct guest *guest_of_rank(struct round *round, uint32_t rank)
{
    for (uint32_t i = 0; i < round->count; i++)
        if (round->guests[i].seated && !round->guests[i].leaving && round->guests[i].stream.peer_rank == rank)
            return &round->guests[i];
    return NULL;
}

/* Everybody who is waiting leaves with what is in its stream or in the table; the next round can begin. */
static void dismiss(struct round *round, size_t table_bytes)
{
    uint64_t deadline = clock_now() + GREETING_SECONDS * 1000000000ull;
    for (uint32_t i = 0; i < round->count; i++) {
        struct guest *guest = &round->guests[i];
        if (!guest->seated || guest->leaving)
            continue;
        guest->leaving = true;
        guest->deadline = deadline;
        guest->table_left = table_bytes;
    }
    round->seated = round->complete = 0;
    round->deadline = 0;
    round->finished++;
    round->refused[0] = '\0';
}

/* The round has failed: tell all who have come, and the caller. */
static weft_status fail(struct round *round, weft_status status, const char *sentence, struct error *error)
{
    struct buffer text = {0};
    buffer_put_u32(&text, (uint32_t)status);
    buffer_put_text(&text, sentence);
    for (uint32_t i = 0; i < round->count; i++)
        if (round->guests[i].seated && !round->guests[i].leaving)
            stream_put(&round->guests[i].stream, RENDEZVOUS_FAILURE, buffer_begin(&text), buffer_size(&text));
    buffer_free(&text);
    dismiss(round, 0);
    report(round, sentence);
    return error_set(error, status, "%s", sentence);
}

/* A guest has proved that it belongs to the job: does what it says fit? */
static weft_status seat(struct round *round, struct guest *guest, struct error *error)
{
    const struct stream *stream = &guest->stream;
    uint32_t rank = stream->peer_rank, ranks = round->server->ranks;
    struct guest *other = guest_of_rank(round, rank);
    char sentence[512] = "";
    if (stream->peer_ranks != ranks)
        snprintf(sentence, sizeof sentence,
                 "rank %u on host %s was told that the job has %u ranks, but it has %u; start all ranks with the same "
                 "number",
                 rank, stream->peer_host, stream->peer_ranks, ranks);
    else if (rank >= ranks)
        snprintf(sentence, sizeof sentence, "a process on host %s says it is rank %u, but the job has ranks 0 to %u",
                 stream->peer_host, rank, ranks - 1);
    else if (other)
        snprintf(
            sentence, sizeof sentence,
            "two processes say they are rank %u of %u, one on host %s, one on host %s; give each a number of its own",
            rank, ranks, other->stream.peer_host, stream->peer_host);
    guest->seated = true;
    round->seated++;
    if (*sentence)
        return fail(round, WEFT_ERROR_RENDEZVOUS, sentence, error);
    if (round->deadline == 0)
        round->deadline = clock_now() + (uint64_t)(round->server->limit_seconds * 1e9);
    return WEFT_OK;
}

/* All have come: write the table. */
static weft_status complete(struct round *round, struct error *error)
{
    uint32_t ranks = round->server->ranks, size = guest_of_rank(round, 0)->size;
    uint8_t draw[SECRET_BYTES];
    weft_status status = secret_random(draw, sizeof draw, error);
    if (status != WEFT_OK)
        return fail(round, status, "the meeting got no random bytes from the operating system", error);
    /* Whoever has not taken the former round's table by now is gone: its rank has come anew. */
    for (uint32_t i = 0; i < round->count; i++)
        round->guests[i].table_left = 0;
    buffer_consume(&round->table, buffer_size(&round->table));
    frame_put(&round->table, RENDEZVOUS_TABLE, NULL, 8 + SECRET_BYTES + (size_t)ranks * size);
    buffer_put_u32(&round->table, ranks);
    buffer_put_u32(&round->table, size);
    buffer_put(&round->table, draw, sizeof draw);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct guest *guest = guest_of_rank(round, rank);
        if (guest->size != size) {
            char sentence[512];
            snprintf(sentence, sizeof sentence,
                     "rank %u on host %s brings a card of %u bytes and rank 0 on host %s one of %u; install the same "
                     "build of "
                     "Weft on both",
                     rank, guest->stream.peer_host, guest->size, guest_of_rank(round, 0)->stream.peer_host, size);
            return fail(round, WEFT_ERROR_RENDEZVOUS, sentence, error);
        }
        buffer_put(&round->table, guest->blob, size);
    }
    if (round->table.failed)
        return fail(round, WEFT_ERROR_MEMORY, "the meeting has no memory for the cards of all ranks", error);
    dismiss(round, buffer_size(&round->table));
    return WEFT_OK;
}

/* The sentence about those who have not come, in time. */
static weft_status too_late(struct round *round, struct error *error)
{
    const struct rendezvous_server *server = round->server;
    char list[256] = "";
    uint32_t missing = 0, named = 0;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        const struct guest *guest = guest_of_rank(round, rank);
        if (guest && guest->blob)
            continue;
        missing++;
        const char *host = guest             ? guest->stream.peer_host
                           : server->host_of ? server->host_of(server->context, rank)
                                             : NULL;
        size_t used = strlen(list);
        if (named < 8 && sizeof list - used > 96) {
            snprintf(list + used, sizeof list - used, host ? "%s%u (host %s)" : "%s%u", used ? ", " : "", rank, host);
            named++;
        }
    }
    char more[32] = "", sentence[900];
    if (missing > named)
        snprintf(more, sizeof more, " and %u more", missing - named);
    snprintf(sentence, sizeof sentence, "rank%s %s%s of %u %s not come to the meeting within %g s%s%s",
             missing == 1 ? "" : "s", list, more, server->ranks, missing == 1 ? "has" : "have", server->limit_seconds,
             *round->refused ? "; " : "; look for its error above, or raise the limit", round->refused);
    return fail(round, WEFT_ERROR_TIMEOUT, sentence, error);
}

/* A guest that holds the secret sends something else than its card. */
static bool refuse_card(struct round *round, const struct guest *guest)
{
    snprintf(round->refused, sizeof round->refused,
             "rank %u on host %s sent something that is no card: its connection was ended; a program error, or another "
             "build of Weft",
             guest->stream.peer_rank, guest->stream.peer_host);
    report(round, round->refused);
    return false;
}

/* Take what a guest has sent. False: it is to be removed. */
static bool hear(struct round *round, struct guest *guest, weft_status *status, struct error *error)
{
    struct error reason = {0};
    enum stream_state before = guest->stream.state;
    weft_status heard = stream_read(&guest->stream, &reason);
    if (guest->leaving)
        return heard == WEFT_OK;
    if (heard != WEFT_OK && guest->stream.state == STREAM_REFUSED) {
        snprintf(round->refused, sizeof round->refused, "%.500s", reason.text);
        report(round, reason.text);
    }
    if (heard != WEFT_OK)
        return false;
    if (guest->stream.state == STREAM_OPEN && before != STREAM_OPEN)
        *status = seat(round, guest, error);
    struct frame frame;
    int found = 0;
    while (!guest->leaving && (found = stream_peek(&guest->stream, &frame)) == 1) {
        if (frame.kind != RENDEZVOUS_CARD || frame.size == 0 || guest->blob)
            return refuse_card(round, guest);
        guest->blob = malloc(frame.size);
        if (!guest->blob)
            return false;
        memcpy(guest->blob, frame.payload, frame.size);
        guest->size = frame.size;
        frame_drop(&guest->stream.in, &frame);
        round->complete++;
    }
    return found >= 0 || refuse_card(round, guest);
}

/* Send a guest what it is owed. False: all is sent to one who leaves, or it is gone. */
static bool tell(struct round *round, struct guest *guest)
{
    while (guest->table_left > 0 && buffer_size(&guest->stream.out) < PIECE_BYTES) {
        size_t piece = guest->table_left < PIECE_BYTES ? guest->table_left : PIECE_BYTES;
        const uint8_t *end = buffer_begin(&round->table) + buffer_size(&round->table);
        buffer_put(&guest->stream.out, end - guest->table_left, piece);
        guest->table_left -= piece;
        if (stream_write(&guest->stream, NULL) != WEFT_OK)
            return false;
        if (stream_wants_write(&guest->stream))
            break;
    }
    if (stream_write(&guest->stream, NULL) != WEFT_OK)
        return false;
    if (guest->leaving && guest->table_left == 0 && !stream_wants_write(&guest->stream)) {
        shutdown(guest->stream.descriptor, SHUT_WR);
        return false;
    }
    return true;
}

/* Make room for one more guest. When there are too many, who has been greeting for longest without a proof goes: a
 * stranger that holds connections open keeps nobody out, and a rank that loses its place comes again. */
static bool make_room(struct round *round)
{
    if (round->count >= 2 * round->server->ranks + GUESTS_SPARE) {
        uint32_t oldest = round->count;
        for (uint32_t i = 0; i < round->count; i++)
            if (!round->guests[i].seated &&
                (oldest == round->count || round->guests[i].deadline < round->guests[oldest].deadline))
                oldest = i;
        if (oldest == round->count)
            return false;
        guest_remove(round, oldest);
    }
    if (round->count < round->room)
        return true;
    uint32_t room = round->room ? round->room * 2 : 16;
    struct guest *guests = realloc(round->guests, room * sizeof *guests);
    if (!guests)
        return false;
    round->guests = guests;
    round->room = room;
    return true;
}

static void accept_guests(struct round *round, int listener)
{
    const struct stream_identity identity = {.secret = round->server->secret, .purpose = STREAM_MEETING};
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        address_prepare(fd);
        if (!make_room(round)) {
            close(fd);
            return;
        }
        struct guest *guest = &round->guests[round->count++];
        *guest = (struct guest){.deadline = clock_now() + GREETING_SECONDS * 1000000000ull};
        if (stream_begin(&guest->stream, fd, true, &identity, NULL) != WEFT_OK)
            guest_remove(round, round->count - 1);
        else
            guest->stream.frame_most = RENDEZVOUS_BLOB_MOST;
    }
}

/* Milliseconds until a deadline passes. */
static int time_left(const struct round *round)
{
    uint64_t now = clock_now(), next = round->deadline ? round->deadline : now + 60000000000ull;
    for (uint32_t i = 0; i < round->count; i++)
        if ((!round->guests[i].seated || round->guests[i].leaving) && round->guests[i].deadline < next)
            next = round->guests[i].deadline;
    return next > now ? (int)((next - now) / 1000000) + 1 : 0;
}

/* Wait for something to happen, and handle it. *stopped: the caller wants an end. */
static weft_status turn(struct round *round, int listener, struct pollfd **polls, bool *stopped, struct error *error)
{
    struct pollfd *grown = realloc(*polls, (round->count + 2) * sizeof **polls);
    if (!grown)
        return error_memory(error, (round->count + 2) * sizeof **polls, "the meeting");
    *polls = grown;
    grown[0] = (struct pollfd){listener, POLLIN, 0};
    grown[1] = (struct pollfd){round->server->stop, POLLIN, 0};
    for (uint32_t i = 0; i < round->count; i++) {
        const struct guest *guest = &round->guests[i];
        bool write = stream_wants_write(&guest->stream) || guest->table_left > 0 || guest->leaving;
        grown[i + 2] = (struct pollfd){guest->stream.descriptor, (short)(POLLIN | (write ? POLLOUT : 0)), 0};
    }
    uint32_t count = round->count;
    if (poll(grown, count + 2, time_left(round)) < 0 && errno != EINTR)
        return error_system(error, "the meeting cannot wait for its guests");
    *stopped = grown[1].revents != 0;
    weft_status status = WEFT_OK;
    uint64_t now = clock_now();
    for (uint32_t i = count; i-- > 0;) { /* backwards: removal moves the last guest, already seen, into the gap */
        struct guest *guest = &round->guests[i];
        bool stays = true;
        if (grown[i + 2].revents & (POLLIN | POLLHUP | POLLERR))
            stays = hear(round, guest, &status, error);
        if (stays)
            stays = tell(round, guest);
        if (stays && (!guest->seated || guest->leaving) && now >= guest->deadline)
            stays = false;
        if (!stays)
            guest_remove(round, i);
        if (status != WEFT_OK)
            return status;
    }
    if (grown[0].revents)
        accept_guests(round, listener);
    if (round->complete == round->server->ranks)
        return complete(round, error);
    if (round->deadline && now >= round->deadline)
        return too_late(round, error);
    return WEFT_OK;
}

weft_status rendezvous_serve(int listener, const struct rendezvous_server *server, struct error *error)
{
    struct round round = {.server = server};
    struct pollfd *polls = NULL;
    weft_status outcome = WEFT_OK;
    bool stopped = false, over = false;
    while (!stopped && !(over && round.count == 0)) {
        struct error reason = {0};
        weft_status status = turn(&round, listener, &polls, &stopped, &reason);
        if (status != WEFT_OK && outcome == WEFT_OK && !server->again)
            outcome = error_set(error, status, "%s", reason.text);
        over = !server->again && (status != WEFT_OK || round.finished > 0);
        /* Once it is over, those who were not waiting are not waited for. */
        for (uint32_t i = round.count; over && i-- > 0;)
            if (!round.guests[i].leaving)
                guest_remove(&round, i);
    }
    while (round.count > 0)
        guest_remove(&round, round.count - 1);
    free(round.guests);
    free(polls);
    buffer_free(&round.table);
    return outcome;
}
