/* SPDX-License-Identifier: Apache-2.0 */
/** A client's connection: bytes to and from a server, plain or TLS, each wait with a deadline. A channel belongs to one
 * thread at a time. Writing to a connection that the other end has closed raises no signal. */
#ifndef WEFT_PLATFORM_CLIENT_INTERNAL_CHANNEL_H
#define WEFT_PLATFORM_CLIENT_INTERNAL_CHANNEL_H

#include "base/error.h"
#include "platform/http/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;

/**
 * Connect to `host`:`port`, with TLS if `tls` is not NULL, and check the identity of the server before anything is sent:
 * with TLS its certificate, without TLS and on this machine the owner of the socket at the other end (trust.h).
 * channel_close() frees the channel. Errors: RENDEZVOUS: no server answers there; STATE: the server's user is not
 * trusted; NETWORK: the handshake failed; TIMEOUT. The message gives only the reason: the caller adds the server.
 */
weft_status channel_open(const char *host, uint16_t port, struct tls *tls, double seconds, struct channel **channel,
                         struct error *error);

/** Whether the other end is on this machine. */
bool channel_is_local(const struct channel *channel);

/** Close and free; NULL is allowed. */
void channel_close(struct channel *channel);

/** Send all bytes before `deadline` (clock_now()). Errors: NETWORK, TIMEOUT. */
weft_status channel_write(struct channel *channel, const void *bytes, size_t size, uint64_t deadline,
                          struct error *error);

/** Wait until `deadline` for 1 to `room` bytes; *size is 0 if the other end has ended. Errors: NETWORK, TIMEOUT. */
weft_status channel_read(struct channel *channel, void *bytes, size_t room, uint64_t deadline, size_t *size,
                         struct error *error);

/** Whether the connection can serve another request: nothing came unasked, and the other end has not ended. */
bool channel_is_fresh(struct channel *channel);

#endif
