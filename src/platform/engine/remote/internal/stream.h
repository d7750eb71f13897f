/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A connection between the server and a host: frames (core/control/wire/frame.h) over TLS, on a thread's event loop. What
 * is sent waits in memory until the other end takes it; stream_queued() says how much.
 *
 * The callbacks run on the loop. Within one of them the stream may be freed.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_STREAM_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_STREAM_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdbool.h>

struct stream;

struct stream_calls {
    void (*ready)(void *context);                            /**< the handshake is over; NULL: nobody wants to know */
    void (*frame)(void *context, const struct frame *frame); /**< one has come */
    void (*drained)(void *context);                          /**< all that was sent is on its way; may be NULL */
    void (*closed)(void *context, const char *reason);       /**< the connection is over; stream_free() it */
};

/**
 * Take over a connected socket (or one that connects) and speak TLS on it, as a server or a client. The caller frees the
 * stream. Errors: MEMORY; the socket is closed then, too.
 */
weft_status stream_new(struct event_base *base, int descriptor, SSL_CTX *tls, bool server,
                       const struct stream_calls *calls, void *context, struct stream **stream, struct error *error);

/** Change whom the callbacks are for. */
void stream_set_context(struct stream *stream, void *context);

/** Send a frame. Does nothing on a stream that has closed. */
void stream_send(struct stream *stream, uint16_t kind, const void *payload, size_t size);

/** Send what `payload` has, and free it; one that has failed closes the stream. */
void stream_send_buffer(struct stream *stream, uint16_t kind, struct buffer *payload);

/** Bytes that were sent and are not on their way yet. */
size_t stream_queued(const struct stream *stream);

/** The TLS connection, to look at its other end. */
SSL *stream_tls(const struct stream *stream);

/** Close it after what is queued was sent, without further callbacks; the stream is gone. */
void stream_finish(struct stream *stream);

/** Close it now. NULL is allowed. */
void stream_free(struct stream *stream);

#endif
