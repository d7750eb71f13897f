/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/client/internal/channel.h"

#include "base/clock.h"
#include "core/control/wire/address.h"
#include "platform/access/peer_user.h"
#include "platform/access/trust.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES 16384

/* OpenSSL reads and writes memory; this file sends and receives. OpenSSL itself would raise SIGPIPE. */
struct channel {
    int descriptor;
    SSL *ssl; /* NULL: plain */
};

static weft_status channel_wait(struct channel *channel, short what, uint64_t deadline, struct error *error)
{
    for (;;) {
        uint64_t now = clock_now();
        struct pollfd wait = {channel->descriptor, what, 0};
        uint64_t left = deadline > now ? (deadline - now) / 1000000 : 0;
        int ready = poll(&wait, 1, left > 1000000 ? 1000000 : (int)left);
        if (ready > 0)
            return WEFT_OK;
        if (ready < 0 && errno != EINTR)
            return error_system(error, "cannot wait for the connection");
        if (clock_now() >= deadline)
            return error_set(error, WEFT_ERROR_TIMEOUT, "nothing came in time");
    }
}

/* Send or receive some of `size` bytes; *moved is 0 if the other end has ended. */
static weft_status channel_move(struct channel *channel, bool out, void *bytes, size_t size, uint64_t deadline,
                                size_t *moved, struct error *error)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        ssize_t done =
            out ? send(channel->descriptor, bytes, size, MSG_NOSIGNAL) : recv(channel->descriptor, bytes, size, 0);
        if (done >= 0) {
            *moved = (size_t)done;
            return WEFT_OK;
        }
        if (errno == EAGAIN)
            status = channel_wait(channel, out ? POLLOUT : POLLIN, deadline, error);
        else if (errno != EINTR)
            status = error_set(error, WEFT_ERROR_NETWORK, "the connection was cut: %s", strerror(errno));
    }
    return status;
}

static weft_status channel_send(struct channel *channel, const char *bytes, size_t size, uint64_t deadline,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t sent = 0; status == WEFT_OK && size > 0; bytes += sent, size -= sent, sent = 0)
        status = channel_move(channel, true, (char *)bytes, size, deadline, &sent, error);
    return status;
}

/* Send what OpenSSL has written to its memory. */
static weft_status channel_flush(struct channel *channel, uint64_t deadline, struct error *error)
{
    char piece[PIECE_BYTES];
    weft_status status = WEFT_OK;
    for (int size; status == WEFT_OK && (size = BIO_read(SSL_get_wbio(channel->ssl), piece, sizeof piece)) > 0;)
        status = channel_send(channel, piece, (size_t)size, deadline, error);
    return status;
}

/* After an operation of OpenSSL returned `result`: send what it wrote and receive what it waits for. OK: repeat the
 * operation, unless *ended. */
static weft_status channel_continue(struct channel *channel, int result, uint64_t deadline, bool *ended,
                                    struct error *error)
{
    char piece[PIECE_BYTES], reason[256];
    size_t size = 0;
    int why = SSL_get_error(channel->ssl, result);
    weft_status status = channel_flush(channel, deadline, error);
    if (status != WEFT_OK)
        return status;
    if (why == SSL_ERROR_ZERO_RETURN) {
        *ended = true;
        return WEFT_OK;
    }
    long verdict = SSL_get_verify_result(channel->ssl);
    if (why != SSL_ERROR_WANT_READ && verdict != X509_V_OK)
        return error_set(error, WEFT_ERROR_NETWORK, "its certificate is not to be trusted: %s",
                         X509_verify_cert_error_string(verdict));
    if (why != SSL_ERROR_WANT_READ)
        return error_set(error, WEFT_ERROR_NETWORK, "TLS failed: %s", tls_reason(reason, sizeof reason));
    status = channel_move(channel, false, piece, sizeof piece, deadline, &size, error);
    *ended = status == WEFT_OK && size == 0;
    if (size > 0)
        BIO_write(SSL_get_rbio(channel->ssl), piece, (int)size);
    return status;
}

static weft_status channel_handshake(struct channel *channel, struct tls *tls, const char *host, uint64_t deadline,
                                     struct error *error)
{
    weft_status status = WEFT_OK;
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    channel->ssl = tls_connect(tls, host);
    if (!channel->ssl || !in || !out) {
        BIO_free(in);
        BIO_free(out);
        return error_memory(error, PIECE_BYTES, "TLS");
    }
    BIO_set_mem_eof_return(in, -1);
    BIO_set_mem_eof_return(out, -1);
    SSL_set_bio(channel->ssl, in, out);
    ERR_clear_error();
    for (int result; status == WEFT_OK && (result = SSL_do_handshake(channel->ssl)) != 1;) {
        bool ended = false;
        status = channel_continue(channel, result, deadline, &ended, error);
        if (status == WEFT_OK && ended)
            status = error_set(error, WEFT_ERROR_NETWORK, "it ended the connection where TLS was to begin");
    }
    return status == WEFT_OK ? channel_flush(channel, deadline, error) : status;
}

weft_status channel_open(const char *host, uint16_t port, struct tls *tls, double seconds, struct channel **result,
                         struct error *error)
{
    int reason = 0;
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return error_memory(error, sizeof *channel, "a connection");
    uint64_t deadline = clock_after(seconds);
    weft_status status = address_connect(host, port, seconds, &channel->descriptor, &reason, error);
    if (status != WEFT_OK) {
        free(channel);
        return status;
    }
    if (tls)
        status = channel_handshake(channel, tls, host, deadline, error);
    else if (channel_is_local(channel))
        status = trust_server(channel->descriptor, error);
    if (status != WEFT_OK) {
        channel_close(channel);
        return status;
    }
    *result = channel;
    return WEFT_OK;
}

bool channel_is_local(const struct channel *channel)
{
    return peer_is_here(channel->descriptor);
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    SSL_free(channel->ssl);
    close(channel->descriptor);
    free(channel);
}

weft_status channel_write(struct channel *channel, const void *bytes, size_t size, uint64_t deadline,
                          struct error *error)
{
    const char *at = bytes;
    weft_status status = WEFT_OK;
    if (!channel->ssl)
        return channel_send(channel, bytes, size, deadline, error);
    while (status == WEFT_OK && size > 0) {
        size_t piece = size < PIECE_BYTES ? size : PIECE_BYTES, written = 0;
        bool ended = false;
        ERR_clear_error();
        int done = SSL_write_ex(channel->ssl, at, piece, &written);
        at += written;
        size -= written;
        status =
            done ? channel_flush(channel, deadline, error) : channel_continue(channel, done, deadline, &ended, error);
        if (status == WEFT_OK && ended)
            status = error_set(error, WEFT_ERROR_NETWORK, "the other end has ended the connection");
    }
    return status;
}

weft_status channel_read(struct channel *channel, void *bytes, size_t room, uint64_t deadline, size_t *size,
                         struct error *error)
{
    weft_status status = WEFT_OK;
    bool ended = false;
    if (!channel->ssl)
        return channel_move(channel, false, bytes, room, deadline, size, error);
    *size = 0;
    ERR_clear_error();
    while (status == WEFT_OK && !ended && !SSL_read_ex(channel->ssl, bytes, room, size))
        status = channel_continue(channel, 0, deadline, &ended, error);
    return status;
}

bool channel_is_fresh(struct channel *channel)
{
    struct pollfd wait = {channel->descriptor, POLLIN | POLLRDHUP, 0};
    return poll(&wait, 1, 0) == 0 && !(channel->ssl && SSL_pending(channel->ssl) > 0);
}
