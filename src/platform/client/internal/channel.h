/* SPDX-License-Identifier: Apache-2.0 */
/** A client's connection: bytes to and from a server, plain or encrypted, each wait bounded. A struct belongs to one
 * thread at a time. No signal comes of a connection that the other end has closed. */
#ifndef WEFT_PLATFORM_CLIENT_INTERNAL_CHANNEL_H
#define WEFT_PLATFORM_CLIENT_INTERNAL_CHANNEL_H

#include "base/error.h"
#include "platform/http/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;

/**
 * Connect to `host`:`port`, with TLS if `tls` is not NULL, and make sure of who serves before anything is sent: with
 * TLS by the server's certificate, without it and on this machine by the owner of the socket at the other end
 * (trust.h). Errors: RENDEZVOUS: nobody answers there; STATE: the server's user is not trusted; NETWORK: the
 * handshake failed; TIMEOUT. The message says only why: the caller knows what it is about.
 */
weft_status channel_open(const char *host, uint16_t port, struct tls *tls, double seconds, struct channel **channel,
                         struct error *error);

/** Whether the other end is on this machine. */
bool channel_is_local(const struct channel *channel);

/** NULL is allowed. */
void channel_close(struct channel *channel);

/** Send all of it until `deadline` (clock_now()). Errors: NETWORK, TIMEOUT. */
weft_status channel_write(struct channel *channel, const void *bytes, size_t size, uint64_t deadline,
                          struct error *error);

/** Wait until `deadline` for some bytes, at most `room`; *size is 0 when the other end has ended. Errors as above. */
weft_status channel_read(struct channel *channel, void *bytes, size_t room, uint64_t deadline, size_t *size,
                         struct error *error);

/** Nothing has come unasked, an end least of all: it may serve for another request. */
bool channel_is_fresh(struct channel *channel);

#endif
