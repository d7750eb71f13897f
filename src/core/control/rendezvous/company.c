/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/rendezvous/internal/company.h"

#include "base/clock.h"
#include "core/control/rendezvous/internal/wire.h"
#include "core/control/wire/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING_SECONDS 10 /* for the first bytes, and for taking the last ones */
#define GUESTS_SPARE     64 /* connections beyond the number of ranks: strangers and refused ones */
#define ACCEPTED_AT_ONCE 16 /* so that each is heard before others can take its place */
#define PIECE_BYTES      65536
#define FRAME_ROOM       2048 /* bytes of a frame apart from what it says of each rank: a message is the longest */

uint32_t company_frame_most(uint32_t ranks, uint32_t rank_bytes)
{
    uint64_t most = FRAME_ROOM + (uint64_t)ranks * rank_bytes;
    return most < STREAM_FRAME_MOST ? (uint32_t)most : STREAM_FRAME_MOST;
}

weft_status company_open(struct company *company, uint32_t ranks, uint32_t rank_bytes, const uint8_t *secret,
                         const struct company_rules *rules, void *context, struct error *error)
{
    *company = (struct company){.rules = rules, .context = context, .secret = secret, .ranks = ranks};
    company->frame_most = company_frame_most(ranks, rank_bytes);
    company->bringer = calloc(ranks, sizeof *company->bringer);
    return company->bringer ? WEFT_OK : error_memory(error, ranks * sizeof *company->bringer, "the meeting");
}

void company_count(struct stream_counts *sum, const struct stream_counts *more)
{
    sum->sent += more->sent;
    sum->received += more->received;
    sum->bytes += more->bytes;
}

struct stream_counts company_counts(const struct company *company)
{
    struct stream_counts sum = company->counts;
    for (uint32_t i = 0; i < company->count; i++)
        company_count(&sum, &company->guests[i].stream.counts);
    return sum;
}

/* Count what has passed since the last time. */
static void account(struct company *company, struct guest *guest)
{
    uint32_t handled = guest->stream.counts.sent + guest->stream.counts.received;
    company->handled += handled - guest->handled;
    guest->handled = handled;
}

static void guest_remove(struct company *company, uint32_t index)
{
    struct guest *guest = &company->guests[index];
    if (guest->seated && !guest->leaving)
        company->rules->leave(company->context, guest);
    account(company, guest);
    company_count(&company->counts, &guest->stream.counts);
    stream_end(&guest->stream);
    company->guests[index] = company->guests[--company->count];
}

void company_close(struct company *company)
{
    while (company->count > 0) {
        company->guests[company->count - 1].leaving = true; /* there is nobody left who would care */
        guest_remove(company, company->count - 1);
    }
    free(company->guests);
    free(company->bringer);
    buffer_free(&company->answer);
    *company = (struct company){0};
}

struct guest *company_guest(const struct company *company, uint32_t number)
{
    for (uint32_t i = 0; i < company->count; i++)
        if (company->guests[i].number == number)
            return &company->guests[i];
    return NULL;
}

/* Make room for one more guest: a stranger that holds connections open keeps nobody out, and a rank that loses its
 * place comes again. */
static bool company_make_room(struct company *company)
{
    if (company->count >= 2 * company->ranks + GUESTS_SPARE) {
        uint32_t oldest = company->count;
        for (uint32_t i = 0; i < company->count; i++)
            if (!company->guests[i].seated &&
                (oldest == company->count || company->guests[i].deadline < company->guests[oldest].deadline))
                oldest = i;
        if (oldest == company->count)
            return false;
        guest_remove(company, oldest);
    }
    if (company->count < company->room)
        return true;
    uint32_t room = company->room ? company->room * 2 : 16;
    struct guest *guests = realloc(company->guests, room * sizeof *guests);
    if (!guests)
        return false;
    company->guests = guests;
    company->room = room;
    return true;
}

void company_accept(struct company *company, int listener, bool near)
{
    const struct stream_identity identity = {.secret = company->secret, .purpose = STREAM_MEETING};
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (near && !address_is_of_same_user(fd)) {
            close(fd);
            continue;
        }
        if (!near)
            address_prepare(fd);
        if (!company_make_room(company)) {
            close(fd);
            return;
        }
        struct guest *guest = &company->guests[company->count++];
        *guest = (struct guest){
            .number = ++company->last_number, .near = near, .deadline = clock_now() + GREETING_SECONDS * 1000000000ull};
        if (stream_begin(&guest->stream, fd, true, &identity, NULL) != WEFT_OK)
            guest_remove(company, company->count - 1);
        else
            guest->stream.frame_most = company->frame_most;
    }
}

void company_poll(const struct company *company, struct pollfd *polls)
{
    for (uint32_t i = 0; i < company->count; i++) {
        const struct guest *guest = &company->guests[i];
        bool write = stream_wants_write(&guest->stream) || guest->answer_left > 0 || guest->leaving;
        polls[i] = (struct pollfd){guest->stream.descriptor, (short)(POLLIN | (write ? POLLOUT : 0)), 0};
    }
}

uint64_t company_deadline(const struct company *company, uint64_t latest)
{
    for (uint32_t i = 0; i < company->count; i++)
        if ((!company->guests[i].seated || company->guests[i].leaving) && company->guests[i].deadline < latest)
            latest = company->guests[i].deadline;
    return latest;
}

/* A guest that holds the secret sends something that does not belong here. */
static bool refuse_frame(struct company *company, const struct guest *guest)
{
    char message[COMPANY_SENTENCE_BYTES];
    snprintf(message, sizeof message,
             "rank %u on host %s sent something that is no card: its connection was ended; a program error, or another "
             "build of Weft",
             guest->stream.peer_rank, guest->stream.peer_host);
    company->rules->refuse(company->context, message);
    return false;
}

/* Take what a guest has sent. False: it is to be removed. */
static bool company_hear(struct company *company, struct guest *guest)
{
    struct error reason = {0};
    enum stream_state before = guest->stream.state;
    weft_status heard = stream_read(&guest->stream, &reason);
    if (guest->leaving)
        return heard == WEFT_OK;
    if (guest->stream.state == STREAM_REFUSED)
        company->rules->refuse(company->context, reason.text);
    if (guest->stream.state == STREAM_OPEN && before != STREAM_OPEN) {
        guest->seated = true;
        account(company, guest);
        company->rules->seat(company->context, guest);
    }
    struct frame frame;
    int found = 0;
    while (!guest->leaving && guest->seated && (found = stream_peek(&guest->stream, &frame)) == 1) {
        bool good = company->rules->take(company->context, guest, &frame);
        stream_drop(&guest->stream, &frame);
        account(company, guest);
        if (!good)
            return refuse_frame(company, guest);
    }
    return found >= 0 ? heard == WEFT_OK : refuse_frame(company, guest);
}

/* Send a guest what it is owed. False: all is sent to one who leaves, or it is gone. */
static bool company_tell(struct company *company, struct guest *guest)
{
    while (guest->answer_left > 0 && buffer_size(&guest->stream.out) < PIECE_BYTES) {
        size_t piece = guest->answer_left < PIECE_BYTES ? guest->answer_left : PIECE_BYTES;
        const uint8_t *end = buffer_begin(&company->answer) + buffer_size(&company->answer);
        buffer_put(&guest->stream.out, end - guest->answer_left, piece);
        guest->answer_left -= piece;
        if (stream_write(&guest->stream, NULL) != WEFT_OK)
            return false;
        if (stream_wants_write(&guest->stream))
            break;
    }
    if (stream_write(&guest->stream, NULL) != WEFT_OK)
        return false;
    if (guest->leaving && guest->answer_left == 0 && !stream_wants_write(&guest->stream)) {
        shutdown(guest->stream.descriptor, SHUT_WR);
        return false;
    }
    return true;
}

void company_serve(struct company *company, const struct pollfd *polls, uint32_t count)
{
    uint64_t now = clock_now();
    for (uint32_t i = count; i-- > 0;) { /* backwards: removal moves the last guest, already seen, into the gap */
        struct guest *guest = &company->guests[i];
        bool stays = true;
        if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
            stays = company_hear(company, guest);
        if (stays)
            stays = company_tell(company, guest);
        account(company, guest);
        if (stays && (!guest->seated || guest->leaving) && now >= guest->deadline)
            stays = false;
        if (!stays)
            guest_remove(company, i);
    }
}

void company_end_others(struct company *company)
{
    for (uint32_t i = company->count; i-- > 0;)
        if (!company->guests[i].leaving)
            guest_remove(company, i);
}

bool company_check(const struct company *company, const struct guest *guest, char message[COMPANY_SENTENCE_BYTES])
{
    const struct stream *stream = &guest->stream;
    if (stream->peer_ranks != company->ranks)
        snprintf(message, COMPANY_SENTENCE_BYTES,
                 "rank %u on host %s was told that the job has %u ranks, but it has %u; start all ranks with the same "
                 "number",
                 stream->peer_rank, stream->peer_host, stream->peer_ranks, company->ranks);
    else if (stream->peer_rank >= company->ranks)
        snprintf(message, COMPANY_SENTENCE_BYTES,
                 "a process on host %s says it is rank %u, but the job has ranks 0 to %u", stream->peer_host,
                 stream->peer_rank, company->ranks - 1);
    else
        return true;
    return false;
}

bool company_bring(struct company *company, const struct guest *guest, uint32_t rank,
                   char message[COMPANY_SENTENCE_BYTES])
{
    uint32_t before = company->bringer[rank];
    const struct guest *other = before == COMPANY_SELF ? NULL : company_guest(company, before);
    if (before == COMPANY_NOBODY) {
        company->bringer[rank] = guest ? guest->number : COMPANY_SELF;
        company->held++;
        return true;
    }
    char host[STREAM_HOST_BYTES];
    snprintf(message, COMPANY_SENTENCE_BYTES,
             "two processes say they are rank %u of %u, one on host %s, one on host %s; give each a number of its own",
             rank, company->ranks, other ? other->stream.peer_host : address_host_name(host, sizeof host),
             guest->stream.peer_host);
    return false;
}

void company_withdraw(struct company *company, uint32_t rank)
{
    company->held -= company->bringer[rank] != COMPANY_NOBODY;
    company->bringer[rank] = COMPANY_NOBODY;
}

void company_dismiss(struct company *company, bool answered)
{
    uint64_t deadline = clock_now() + GREETING_SECONDS * 1000000000ull;
    for (uint32_t i = 0; i < company->count; i++) {
        struct guest *guest = &company->guests[i];
        if (!guest->seated || guest->leaving)
            continue;
        guest->leaving = true;
        guest->deadline = deadline;
        guest->answer_left = answered ? buffer_size(&company->answer) : 0;
        guest->stream.counts.sent += answered;
    }
}

void company_fail(struct company *company, weft_status status, const char *message)
{
    struct buffer text = {0};
    buffer_put_u32(&text, (uint32_t)status);
    buffer_put_text(&text, message);
    for (uint32_t i = 0; i < company->count; i++)
        if (company->guests[i].seated && !company->guests[i].leaving)
            stream_put(&company->guests[i].stream, RENDEZVOUS_FAILURE, buffer_begin(&text), buffer_size(&text));
    buffer_free(&text);
    company_dismiss(company, false);
}
