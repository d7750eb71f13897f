/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/stream.h"

#include "core/control/wire/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint8_t magic[8] = {'W', 'E', 'F', 'T', '\r', '\n', 0x1a, '\n'};

/* Where the fields of a prefix are. */
enum { AT_VERSION = 8, AT_RELEASE = 12, RELEASE_BYTES = 20, AT_HOST = 32 };

static void stream_prefix_put(struct buffer *buffer)
{
    char release[RELEASE_BYTES] = {0}, host[STREAM_HOST_BYTES] = {0};
    snprintf(release, sizeof release, "%s", weft_version());
    address_host_name(host, sizeof host);
    buffer_put(buffer, magic, sizeof magic);
    buffer_put_u32(buffer, STREAM_VERSION);
    buffer_put(buffer, release, sizeof release);
    buffer_put(buffer, host, sizeof host);
}

/* The proof that `role` holds the secret, for this hello and this challenge. */
static void stream_proof_make(const struct stream *stream, const char *role, uint8_t proof[SECRET_BYTES])
{
    uint8_t text[16 + STREAM_HELLO_BYTES + SECRET_BYTES] = {0};
    memcpy(text, role, strlen(role));
    memcpy(text + 16, stream->hello, STREAM_HELLO_BYTES);
    memcpy(text + 16 + STREAM_HELLO_BYTES, stream->nonce, SECRET_BYTES);
    (void)secret_sign(stream->identity.secret, text, sizeof text, proof);
}

weft_status stream_begin(struct stream *stream, int descriptor, bool server, const struct stream_identity *identity,
                         struct error *error)
{
    *stream = (struct stream){
        .descriptor = descriptor, .server = server, .identity = *identity, .frame_most = STREAM_FRAME_MOST};
    snprintf(stream->peer_host, sizeof stream->peer_host, "unknown");
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (descriptor >= 0 && getpeername(descriptor, (struct sockaddr *)&peer, &length) == 0)
        address_format((struct sockaddr *)&peer, stream->peer_address, sizeof stream->peer_address);
    if (server)
        return secret_random(stream->nonce, sizeof stream->nonce, error);
    uint8_t nonce[SECRET_BYTES];
    weft_status status = secret_random(nonce, sizeof nonce, error);
    if (status != WEFT_OK)
        return status;
    stream_prefix_put(&stream->out);
    buffer_put_u32(&stream->out, identity->purpose);
    buffer_put_u32(&stream->out, identity->rank);
    buffer_put_u32(&stream->out, identity->ranks);
    buffer_put(&stream->out, nonce, sizeof nonce);
    if (buffer_size(&stream->out) != STREAM_HELLO_BYTES)
        return error_memory(error, STREAM_HELLO_BYTES, "a connection");
    memcpy(stream->hello, buffer_begin(&stream->out), STREAM_HELLO_BYTES);
    stream->counts.sent++;
    return WEFT_OK;
}

void stream_end(struct stream *stream)
{
    if (stream->descriptor > 0)
        close(stream->descriptor);
    stream->descriptor = -1;
    buffer_free(&stream->in);
    buffer_free(&stream->out);
}

/*
 * Check the prefix at the beginning of `in`: WEFT_OK and *whole if it is good and all there. A server sends a client of
 * another version its own version before it gives up, so that both messages name both versions.
 */
static weft_status stream_prefix_check(struct stream *stream, bool *whole, struct error *error)
{
    const uint8_t *bytes = buffer_begin(&stream->in);
    size_t size = buffer_size(&stream->in);
    *whole = false;
    if (size > 0 && memcmp(bytes, magic, size < sizeof magic ? size : sizeof magic) != 0) {
        stream->state = STREAM_FOREIGN;
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "the listener at %s is not a Weft process; is the address right?", stream->peer_address);
    }
    if (size < STREAM_PREFIX_BYTES)
        return WEFT_OK;
    struct reader reader = {bytes + AT_VERSION, 4, false};
    uint32_t version = reader_u32(&reader);
    memcpy(stream->peer_host, bytes + AT_HOST, STREAM_HOST_BYTES);
    stream->peer_host[STREAM_HOST_BYTES - 1] = '\0';
    for (char *c = stream->peer_host; *c; c++) /* it will be printed, so it must not move a terminal's cursor */
        if (*c < ' ' || *c > '~')
            *c = '?';
    *whole = true;
    if (version == STREAM_VERSION)
        return WEFT_OK;
    char release[RELEASE_BYTES], host[STREAM_HOST_BYTES];
    for (int i = 0; i < RELEASE_BYTES; i++)
        release[i] = bytes[AT_RELEASE + i] >= ' ' && bytes[AT_RELEASE + i] <= '~' ? (char)bytes[AT_RELEASE + i] : '\0';
    release[RELEASE_BYTES - 1] = '\0';
    if (stream->server) {
        stream_prefix_put(&stream->out);
        (void)stream_write(stream, NULL);
    }
    stream->state = STREAM_REFUSED;
    return error_set(
        error, WEFT_ERROR_RENDEZVOUS,
        "host %s runs Weft %s (protocol %u) but host %s runs Weft %s (protocol %u); install the same version on both",
        stream->peer_host, release, version, address_host_name(host, sizeof host), weft_version(), STREAM_VERSION);
}

/* The server has a whole hello: answer with nonce and proof. */
static weft_status stream_hello_answer(struct stream *stream, struct error *error)
{
    memcpy(stream->hello, buffer_begin(&stream->in), STREAM_HELLO_BYTES);
    buffer_consume(&stream->in, STREAM_HELLO_BYTES);
    stream->counts.received++;
    struct reader reader = {stream->hello + STREAM_PREFIX_BYTES, 12, false};
    uint32_t purpose = reader_u32(&reader);
    stream->peer_rank = reader_u32(&reader);
    stream->peer_ranks = reader_u32(&reader);
    if (purpose != stream->identity.purpose) {
        stream->state = STREAM_REFUSED;
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "a process on host %s connected to %s for another purpose (%u instead of %u); "
                         "two jobs seem to use one port",
                         stream->peer_host, stream->peer_address, purpose, stream->identity.purpose);
    }
    uint8_t proof[SECRET_BYTES];
    stream_proof_make(stream, "server", proof);
    stream_prefix_put(&stream->out);
    buffer_put(&stream->out, stream->nonce, SECRET_BYTES);
    buffer_put(&stream->out, proof, SECRET_BYTES);
    stream->state = STREAM_PROOF;
    stream->counts.sent++;
    return stream_write(stream, error);
}

/* The server has the client's proof. */
static weft_status stream_client_check(struct stream *stream, struct error *error)
{
    uint8_t proof[SECRET_BYTES];
    stream_proof_make(stream, "client", proof);
    bool good = secret_equal(proof, buffer_begin(&stream->in));
    buffer_consume(&stream->in, SECRET_BYTES);
    stream->counts.received++;
    if (good) {
        stream->state = STREAM_OPEN;
        return WEFT_OK;
    }
    stream->state = STREAM_REFUSED;
    return error_set(error, WEFT_ERROR_RENDEZVOUS,
                     "refused a process on host %s (%s) that claims rank %u: its job secret differs; is it "
                     "of another job, or WEFT_SECRET not the same on all hosts?",
                     stream->peer_host, stream->peer_address, stream->peer_rank);
}

/*
 * The client has the whole challenge: check it, answer it. A client that finds the proof wrong still sends its own
 * (which reveals nothing of its secret), so that the server, too, detects the mismatch.
 */
static weft_status stream_challenge_answer(struct stream *stream, struct error *error)
{
    const uint8_t *bytes = buffer_begin(&stream->in);
    uint8_t expected[SECRET_BYTES], proof[SECRET_BYTES];
    memcpy(stream->nonce, bytes + STREAM_PREFIX_BYTES, SECRET_BYTES);
    stream_proof_make(stream, "server", expected);
    bool good = secret_equal(expected, bytes + STREAM_PREFIX_BYTES + SECRET_BYTES);
    buffer_consume(&stream->in, STREAM_REPLY_BYTES);
    stream_proof_make(stream, "client", proof);
    buffer_put(&stream->out, proof, SECRET_BYTES);
    stream->counts.received++;
    stream->counts.sent++;
    weft_status status = stream_write(stream, error);
    if (status != WEFT_OK)
        return status;
    if (good) {
        stream->state = STREAM_OPEN;
        return WEFT_OK;
    }
    char host[STREAM_HOST_BYTES];
    stream->state = STREAM_REFUSED;
    return error_set(
        error, WEFT_ERROR_RENDEZVOUS,
        "host %s (%s) has a different job secret than rank %u on host %s; is it of another job, or WEFT_SECRET not "
        "the same on all hosts?",
        stream->peer_host, stream->peer_address, stream->identity.rank, address_host_name(host, sizeof host));
}

/* Go through the first bytes as far as they have arrived. */
static weft_status stream_handshake(struct stream *stream, struct error *error)
{
    weft_status status = WEFT_OK;
    if (stream->state == STREAM_HELLO) {
        bool whole = false;
        status = stream_prefix_check(stream, &whole, error);
        if (status != WEFT_OK || !whole)
            return status;
        size_t size = buffer_size(&stream->in);
        if (size < (stream->server ? STREAM_HELLO_BYTES : STREAM_REPLY_BYTES))
            return WEFT_OK;
        status = stream->server ? stream_hello_answer(stream, error) : stream_challenge_answer(stream, error);
    }
    if (status == WEFT_OK && stream->state == STREAM_PROOF && buffer_size(&stream->in) >= SECRET_BYTES)
        status = stream_client_check(stream, error);
    return status;
}

weft_status stream_feed(struct stream *stream, const void *bytes, size_t size, struct error *error)
{
    buffer_put(&stream->in, bytes, size);
    stream->counts.bytes += size;
    if (stream->in.failed)
        return error_memory(error, size, "a message");
    return stream->state == STREAM_OPEN ? WEFT_OK : stream_handshake(stream, error);
}

weft_status stream_read(struct stream *stream, struct error *error)
{
    char bytes[16384];
    for (size_t taken = 0; taken < STREAM_READ_MOST; taken += sizeof bytes) {
        ssize_t n = recv(stream->descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEFT_OK;
        if (n <= 0) {
            bool early = stream->state < STREAM_OPEN;
            const char *reason = n == 0 ? "it closed the connection" : strerror(errno);
            stream->broken_off = n < 0 && errno != ECONNRESET && errno != EPIPE;
            stream->state = STREAM_ENDED;
            return error_set(error, WEFT_ERROR_PEER,
                             early ? "host %s (%s) did not finish its greeting: %s"
                                   : "the connection to host %s (%s) ended: %s",
                             stream->peer_host, stream->peer_address, reason);
        }
        weft_status status = stream_feed(stream, bytes, (size_t)n, error);
        if (status != WEFT_OK || (size_t)n < sizeof bytes)
            return status;
    }
    return WEFT_OK;
}

weft_status stream_write(struct stream *stream, struct error *error)
{
    if (stream->out.failed)
        return error_memory(error, buffer_size(&stream->out), "a message");
    while (stream->descriptor >= 0 && buffer_size(&stream->out) > 0) {
        ssize_t n = send(stream->descriptor, buffer_begin(&stream->out), buffer_size(&stream->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEFT_OK;
        if (n < 0) {
            /* Data that the other end sent before closing can still be read: stream_read() ends the stream. */
            if (errno == EPIPE || errno == ECONNRESET) {
                buffer_consume(&stream->out, buffer_size(&stream->out));
                return WEFT_OK;
            }
            weft_status status = error_set(error, WEFT_ERROR_PEER, "the connection to host %s (%s) ended: %s",
                                           stream->peer_host, stream->peer_address, strerror(errno));
            stream->state = STREAM_ENDED;
            return status;
        }
        buffer_consume(&stream->out, (size_t)n);
        stream->counts.bytes += (size_t)n;
    }
    return WEFT_OK;
}

int stream_peek(const struct stream *stream, struct frame *frame)
{
    if (stream->state != STREAM_OPEN && stream->state != STREAM_ENDED)
        return 0;
    return frame_peek(&stream->in, stream->frame_most, frame);
}

void stream_drop(struct stream *stream, const struct frame *frame)
{
    frame_drop(&stream->in, frame);
    stream->counts.received++;
}

void stream_put(struct stream *stream, uint16_t kind, const void *payload, size_t size)
{
    stream->counts.sent++;
    frame_put(&stream->out, kind, payload, size);
}
