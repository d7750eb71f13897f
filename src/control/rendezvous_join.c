/* SPDX-License-Identifier: Apache-2.0 */
/* The side that comes to the rendezvous. */
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
#include <unistd.h>

#define ATTEMPT_SECONDS 3.0 /* one address is tried for so long before the next */
#define SERVER_GRACE    3.0 /* the server's sentence says who is missing: it is waited for a little longer */

static double seconds_until(uint64_t deadline)
{
    uint64_t now = clock_now();
    return deadline > now ? (double)(deadline - now) / 1e9 : 0;
}

/* Sleep, unless stopped. */
static bool pause_for(int stop, double seconds)
{
    struct pollfd wait = {stop, POLLIN, 0};
    return poll(&wait, 1, (int)(seconds * 1e3)) <= 0;
}

/* Try the addresses in turn, once each. */
static weft_status connect_any(const struct rendezvous_client *client, uint64_t deadline, int *descriptor,
                               struct error *error)
{
    char list[1024], *rest = NULL;
    weft_status status = WEFT_ERROR_RENDEZVOUS;
    if (snprintf(list, sizeof list, "%s", client->addresses) >= (int)sizeof list)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the list of meeting addresses '%.60s...' is too long", list);
    for (char *entry = strtok_r(list, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest)) {
        char host[ADDRESS_TEXT_BYTES];
        uint16_t port = 0;
        error_clear(error);
        status = address_parse(entry, host, &port, error);
        if (status != WEFT_OK)
            return status;
        double left = seconds_until(deadline);
        status = address_connect(host, port, left < ATTEMPT_SECONDS ? left : ATTEMPT_SECONDS, descriptor, NULL, error);
        if (status == WEFT_OK)
            return status;
    }
    return status;
}

/* Unpack what the server has sent. */
static weft_status take_answer(const struct rendezvous_client *client, const struct stream *stream,
                               const struct frame *frame, uint32_t size, struct rendezvous_result *result,
                               struct error *error)
{
    struct reader reader = {frame->payload, frame->size, false};
    if (frame->kind == RENDEZVOUS_FAILURE) {
        char sentence[ERROR_TEXT_BYTES];
        uint32_t status = reader_u32(&reader);
        reader_text(&reader, sentence, sizeof sentence);
        return error_set(error, stream_failure(status), "%s", *sentence ? sentence : "the meeting failed");
    }
    uint32_t ranks = reader_u32(&reader), bytes = reader_u32(&reader);
    const uint8_t *draw = reader_bytes(&reader, SECRET_BYTES);
    if (frame->kind != RENDEZVOUS_TABLE || !draw || ranks != client->ranks || bytes != size ||
        reader.left != (size_t)ranks * size)
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "host %s (%s), where the ranks meet, sent something that is no table of %u ranks",
                         stream->peer_host, stream->peer_address, client->ranks);
    result->blobs = malloc(reader.left);
    if (!result->blobs)
        return error_memory(error, reader.left, "the cards of all ranks");
    memcpy(result->blobs, reader.bytes, reader.left);
    (void)secret_sign(client->secret, draw, SECRET_BYTES, result->session);
    return WEFT_OK;
}

/* One visit, over a connection. */
static weft_status visit(const struct rendezvous_client *client, struct stream *stream, uint64_t deadline,
                         const void *blob, uint32_t size, struct rendezvous_result *result, struct error *error)
{
    bool sent = false;
    for (;;) {
        if (stream->state == STREAM_OPEN && !sent) {
            stream_put(stream, RENDEZVOUS_CARD, blob, size);
            sent = true;
        }
        weft_status status = stream_write(stream, error);
        if (status != WEFT_OK)
            return status;
        double left = seconds_until(deadline) + SERVER_GRACE;
        struct pollfd wait[2] = {{stream->descriptor, (short)(POLLIN | (stream_wants_write(stream) ? POLLOUT : 0)), 0},
                                 {client->stop, POLLIN, 0}};
        int ready = poll(wait, 2, (int)(left * 1e3));
        if (ready < 0 && errno != EINTR)
            return error_system(error, "cannot wait for the meeting at %s", client->addresses);
        if (ready > 0 && wait[1].revents)
            return error_set(error, WEFT_ERROR_STATE, "the meeting at %s was given up", client->addresses);
        if (ready == 0 && seconds_until(deadline) == 0)
            return error_set(error, WEFT_ERROR_TIMEOUT,
                             "rank %u has waited for the other ranks at %s (host %s) for %g s, and heard nothing",
                             client->rank, client->addresses, stream->peer_host, client->limit_seconds);
        if (!wait[0].revents)
            continue;
        struct error reason = {0};
        status = stream_read(stream, &reason);
        struct frame frame;
        int found = stream_peek(stream, &frame);
        if (found == 1)
            return take_answer(client, stream, &frame, size, result, error);
        if (status != WEFT_OK && sent && stream->state == STREAM_ENDED)
            return error_set(
                error, WEFT_ERROR_RENDEZVOUS,
                "the meeting at %s (host %s) was closed before all %u ranks had come; has who serves it, the "
                "launcher or rank 0, ended?",
                client->addresses, stream->peer_host, client->ranks);
        if (status != WEFT_OK)
            return error_set(error, reason.status, "%s", reason.text);
    }
}

/* Nobody was found at the meeting point in time. */
static weft_status nobody(const struct rendezvous_client *client, const struct error *reason, struct error *error)
{
    return error_set(error, reason->status, "rank %u of %u found nobody at the meeting point within %g s: %s",
                     client->rank, client->ranks, client->limit_seconds, reason->text);
}

/* Connect, again and again until somebody is there. */
static weft_status connect_patiently(const struct rendezvous_client *client, uint64_t deadline, int *descriptor,
                                     struct error *error)
{
    for (double nap = 0.02;; nap = nap < 0.25 ? nap * 1.5 : nap) {
        struct error reason = {0};
        weft_status status = connect_any(client, deadline, descriptor, &reason);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (status != WEFT_ERROR_RENDEZVOUS)
            return error_set(error, status, "%s", reason.text);
        if (seconds_until(deadline) == 0 || !pause_for(client->stop, nap))
            return nobody(client, &reason, error);
    }
}

weft_status rendezvous_find_local(const struct rendezvous_client *client, char *address, size_t room,
                                  struct error *error)
{
    int descriptor = -1;
    uint64_t deadline = clock_now() + (uint64_t)(client->limit_seconds * 1e9);
    weft_status status = connect_patiently(client, deadline, &descriptor, error);
    if (status != WEFT_OK)
        return status;
    status = address_local(descriptor, address, room, error);
    close(descriptor);
    return status;
}

weft_status rendezvous_join(const struct rendezvous_client *client, const void *blob, uint32_t size,
                            struct rendezvous_result *result, struct error *error)
{
    const struct stream_identity identity = {client->secret, STREAM_MEETING, client->rank, client->ranks};
    uint64_t deadline = clock_now() + (uint64_t)(client->limit_seconds * 1e9);
    for (;;) {
        struct error reason = {0};
        struct rendezvous_result answer = {0};
        struct stream stream;
        int descriptor = -1;
        weft_status status = connect_patiently(client, deadline, &descriptor, error);
        if (status != WEFT_OK)
            return status;
        status = stream_begin(&stream, descriptor, false, &identity, &reason);
        if (status == WEFT_OK)
            status = visit(client, &stream, deadline, blob, size, &answer, &reason);
        stream_end(&stream);
        if (status == WEFT_OK) {
            *result = answer;
            return WEFT_OK;
        }
        /* Closed during the greeting: the server of an earlier round was just going. Try again. */
        if (status != WEFT_ERROR_PEER)
            return error_set(error, status, "%s", reason.text);
        if (seconds_until(deadline) == 0 || !pause_for(client->stop, 0.05))
            return nobody(client, &reason, error);
    }
}
