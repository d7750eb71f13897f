/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A connection between the server and a host: frames (core/control/wire/frame.h) over TLS, on a thread's event loop. What
 * is sent waits in memory until the other end takes it; tls_stream_queued() says how much.
 *
 * The callbacks run on the loop. Within one of them the stream may be freed.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_TLS_STREAM_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_TLS_STREAM_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdbool.h>

struct tls_stream;

struct tls_stream_calls {
    void (*ready)(void *context);                            /**< the handshake is over; NULL: nobody wants to know */
    void (*frame)(void *context, const struct frame *frame); /**< one has come */
    void (*closed)(void *context, const char *reason);       /**< the connection is over; tls_stream_free() it */
};

/**
 * Take over a connected socket (or one that connects) and speak TLS on it, as a server or a client. The caller frees the
 * stream. Errors: MEMORY; the socket is closed then, too.
 */
weft_status tls_stream_new(struct event_base *base, int descriptor, SSL_CTX *tls, bool server,
                           const struct tls_stream_calls *calls, void *context, struct tls_stream **stream,
                           struct error *error);

/** The longest payload that is accepted; at first REMOTE_FRAME_MOST. */
void tls_stream_set_most(struct tls_stream *stream, size_t most);

/** Send a frame. Does nothing on a stream that has closed. */
void tls_stream_send(struct tls_stream *stream, uint16_t kind, const void *payload, size_t size);

/** Send what `payload` has, and free it; one that has failed closes the stream. */
void tls_stream_send_buffer(struct tls_stream *stream, uint16_t kind, struct buffer *payload);

/** Bytes that were sent and are not on their way yet. */
size_t tls_stream_queued(const struct tls_stream *stream);

/** The TLS connection, to look at its other end. */
SSL *tls_stream_tls(const struct tls_stream *stream);

/** Close it after what is queued was sent, without further callbacks; the stream is gone. */
void tls_stream_finish(struct tls_stream *stream);

/** Close it now. NULL is allowed. */
void tls_stream_free(struct tls_stream *stream);

#endif
