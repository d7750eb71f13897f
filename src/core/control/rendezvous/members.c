/* SPDX-License-Identifier: Apache-2.0 */
/* Visits to a rendezvous's server: the members of a running job are left there, and newcomers fetch them. */
#include "base/clock.h"
#include "core/control/rendezvous/internal/client_state.h"
#include "core/control/rendezvous/internal/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read and write until the handshake is done (`frame` NULL) or a frame has come. */
static weft_status visit_wait(const struct rendezvous_client *client, struct stream *stream, uint64_t deadline,
                              struct frame *frame, struct error *error)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        if (stream->state == STREAM_OPEN && (!frame || stream_peek(stream, frame) == 1))
            return WEFT_OK;
        const uint64_t now = clock_now();
        if (now >= deadline)
            return error_set(error, WEFT_ERROR_TIMEOUT, "the launcher at %s has not answered within %g s",
                             client->addresses, client->limit_seconds);
        struct pollfd wait = {stream->descriptor, (short)(POLLIN | (stream_wants_write(stream) ? POLLOUT : 0)), 0};
        if (poll(&wait, 1, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            return error_system(error, "cannot wait for the launcher at %s", client->addresses);
        status = stream_write(stream, error);
        if (status == WEFT_OK && (wait.revents & (POLLIN | POLLHUP | POLLERR)))
            status = stream_read(stream, error);
        if (status != WEFT_OK && frame && stream_peek(stream, frame) == 1) /* its last words */
            return WEFT_OK;
    }
    return status;
}

/* Send a frame and wait for the answer, which `take` gets. */
static weft_status visit(const struct rendezvous_client *client, uint16_t kind, const void *bytes, size_t size,
                         char here[RENDEZVOUS_ADDRESS_BYTES], struct buffer *answer, struct error *error)
{
    struct rendezvous_client visitor = *client;
    struct rendezvous *rendezvous;
    struct error reason = {0};
    struct frame frame;
    visitor.rank = RENDEZVOUS_VISITOR;
    visitor.local_rank = visitor.local_ranks = 0;
    const uint64_t deadline = clock_after(client->limit_seconds);
    weft_status status = rendezvous_open(&visitor, &rendezvous, &reason);
    if (status != WEFT_OK)
        return error_set(error, status, "cannot reach the launcher at %s within %g s", client->addresses,
                         client->limit_seconds);
    struct stream *stream = &rendezvous->up;
    snprintf(here, RENDEZVOUS_ADDRESS_BYTES, "%s", rendezvous_address(rendezvous));
    status = visit_wait(client, stream, deadline, NULL, error);
    if (status == WEFT_OK) {
        stream_put(stream, kind, bytes, size);
        status = visit_wait(client, stream, deadline, &frame, error);
    }
    if (status == WEFT_OK && frame.kind != RENDEZVOUS_MEMBERS)
        status = error_set(error, WEFT_ERROR_RENDEZVOUS,
                           "the launcher at %s has answered something else; a program "
                           "error, or another build of Weft",
                           client->addresses);
    if (status == WEFT_OK) {
        buffer_put(answer, frame.payload, frame.size);
        if (answer->failed)
            status = error_memory(error, frame.size, "the members of the job");
    }
    rendezvous_close(rendezvous);
    return status;
}

weft_status rendezvous_put_members(const struct rendezvous_client *client, const void *bytes, size_t size,
                                   struct error *error)
{
    char here[RENDEZVOUS_ADDRESS_BYTES];
    struct buffer answer = {0};
    const weft_status status = visit(client, RENDEZVOUS_PUT_MEMBERS, bytes, size, here, &answer, error);
    buffer_free(&answer);
    return status;
}

weft_status rendezvous_say_overtaken(const struct rendezvous_client *client, struct error *error)
{
    char here[RENDEZVOUS_ADDRESS_BYTES];
    struct buffer answer = {0}, rank = {0};
    buffer_put_u32(&rank, client->rank);
    const weft_status status = rank.failed ? error_memory(error, sizeof client->rank, "a message to the launcher")
                                           : visit(client, RENDEZVOUS_OVERTAKEN, buffer_begin(&rank),
                                                   buffer_size(&rank), here, &answer, error);
    buffer_free(&rank);
    buffer_free(&answer);
    return status;
}

weft_status rendezvous_get_members(const struct rendezvous_client *client, char here[RENDEZVOUS_ADDRESS_BYTES],
                                   uint8_t **bytes, size_t *size, struct error *error)
{
    struct buffer answer = {0};
    weft_status status = visit(client, RENDEZVOUS_GET_MEMBERS, NULL, 0, here, &answer, error);
    uint8_t *copy = status == WEFT_OK ? malloc(buffer_size(&answer) + 1) : NULL;
    if (status == WEFT_OK && !copy)
        status = error_memory(error, buffer_size(&answer), "the members of the job");
    if (status == WEFT_OK) {
        *size = buffer_size(&answer);
        memcpy(copy, buffer_begin(&answer), *size);
        *bytes = copy;
    }
    buffer_free(&answer);
    return status;
}
