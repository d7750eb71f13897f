/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A stream: a non-blocking connection between two processes of a job, which first proves to each end that the other
 * holds the job's secret, then carries frames. The rendezvous and the links of the control plane are streams.
 *
 * ## First bytes
 *
 *     client: prefix, hello (purpose, rank, ranks, nonce)
 *     server: prefix, challenge (nonce, proof)
 *     client: proof
 *
 * A prefix is magic (8 bytes), protocol version (4), release (20, text) and host name (64, text); it keeps this layout
 * in every version, so that ends of different versions can name each other's host. A proof is the HMAC-SHA256, under
 * the secret, of the sender's role, both nonces, and the hello: it can be neither replayed nor reflected. Later frames
 * are neither encrypted nor signed: an attacker who can forge TCP segments on the job's network can disturb it (see
 * README.md).
 *
 * A connection that begins with another magic comes from another program (a port scanner, a web browser):
 * STREAM_FOREIGN, to be dropped silently.
 *
 * A stream belongs to one thread at a time.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_STREAM_H
#define WEFT_CORE_CONTROL_WIRE_STREAM_H

#include "base/error.h"
#include "core/control/wire/frame.h"
#include "core/control/wire/secret.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_VERSION      3
#define STREAM_HOST_BYTES   64
#define STREAM_PREFIX_BYTES 96
#define STREAM_HELLO_BYTES  (STREAM_PREFIX_BYTES + 12 + SECRET_BYTES)
#define STREAM_REPLY_BYTES  (STREAM_PREFIX_BYTES + 2 * SECRET_BYTES)
#define STREAM_FRAME_MOST   (1u << 30) /**< largest payload of a frame */
#define STREAM_READ_MOST    (1u << 20) /**< bytes that stream_read() reads at a time, about */

enum stream_purpose {
    STREAM_RENDEZVOUS = 1,
    STREAM_CONTROL = 2,
    STREAM_REGROUP = 3,
};

enum stream_state {
    STREAM_HELLO,   /**< server: the hello is awaited. client: the challenge is */
    STREAM_PROOF,   /**< server: the client's proof is awaited */
    STREAM_OPEN,    /**< frames pass */
    STREAM_ENDED,   /**< the other end closed the connection, or the connection failed */
    STREAM_FOREIGN, /**< the other end is not Weft */
    STREAM_REFUSED, /**< wrong version or secret */
};

/** Traffic of a stream, the handshake included: messages are the three of the handshake, then frames. */
struct stream_counts {
    uint32_t sent, received;
    uint64_t bytes; /**< both ways */
};

/** This end's identity. The secret is borrowed. */
struct stream_identity {
    const uint8_t *secret;
    enum stream_purpose purpose;
    uint32_t rank, ranks; /**< a server may leave them zero */
};

struct stream {
    int descriptor;
    bool server;
    enum stream_state state;
    struct stream_identity identity;
    uint32_t frame_most;            /**< largest payload of a frame; set by stream_begin(), may be lowered */
    bool broken_off;                /**< the network lost the connection: the other end may not know that it ended */
    uint32_t peer_rank, peer_ranks; /**< server: from the client's hello; trusted once the stream is open */
    char peer_host[STREAM_HOST_BYTES];
    char peer_address[64];             /**< "address:port", for messages */
    uint8_t hello[STREAM_HELLO_BYTES]; /**< the client's, at both ends: it is signed */
    uint8_t nonce[SECRET_BYTES];       /**< the server's */
    struct buffer in, out;
    struct stream_counts counts;
};

/** Take over a connected socket (stream_end() closes it); a client's hello is put into `out`. */
weft_status stream_begin(struct stream *stream, int descriptor, bool server, const struct stream_identity *identity,
                         struct error *error);

/** Close the connection and free its buffers; harmless on a zeroed or ended struct. */
void stream_end(struct stream *stream);

/**
 * Read received bytes, bounded per call: a fast sender can neither block this thread nor fill memory before its frames
 * have been handled. The descriptor stays readable when there is more. Returns an error when the stream is over (see
 * `state`): PEER when the other end closed it (frames read before can still be taken), RENDEZVOUS when it was refused,
 * with a message that names the other host.
 */
weft_status stream_read(struct stream *stream, struct error *error);

/** The part of stream_read() that parses bytes; for tests. */
weft_status stream_feed(struct stream *stream, const void *bytes, size_t size, struct error *error);

/** Write as much of `out` as the connection takes now. */
weft_status stream_write(struct stream *stream, struct error *error);

static inline bool stream_wants_write(const struct stream *stream)
{
    return buffer_size(&stream->out) > 0;
}

/** Look at the first whole frame: 1, 0 or -1 as frame_peek(). stream_drop() removes it. */
int stream_peek(const struct stream *stream, struct frame *frame);
void stream_drop(struct stream *stream, const struct frame *frame);

/** The status of a failure received from a stream: unknown ones, and "ok", count as PEER. */
static inline weft_status stream_failure(uint32_t status)
{
    return status > WEFT_OK && status <= WEFT_ERROR_STATE ? (weft_status)status : WEFT_ERROR_PEER;
}

/** Append a frame to `out`; stream_write() sends it. */
void stream_put(struct stream *stream, uint16_t kind, const void *payload, size_t size);

#endif
