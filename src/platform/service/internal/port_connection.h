/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A request at a web port on its way to a server in a run, and the reply on its way back. As with `weft forward`, a
 * command in the node connects to the port (platform/agent/tunnel.h): one for each request, because a connection carries
 * one. Heads are rewritten (port_head.h), everything else is passed on as it comes: bodies, streams, WebSockets. Of the
 * request no more is passed on than its head and body say.
 *
 * A reply's head has 32 KiB at most. Where no bytes move for ten minutes the connection ends. All on the HTTP server's
 * thread, except for the order to the engine.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_PORT_CONNECTION_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_PORT_CONNECTION_H

#include "platform/http/http.h"
#include "platform/service/internal/port_head.h"
#include "platform/service/internal/port_openings.h"

struct service;

/** Take over a request, from begin(), for an opening whose run is in attempt `epoch`. It is answered in any case. */
void port_connection_begin(struct service *service, struct http_request *request, struct port_opening *opening,
                           int64_t epoch, const struct port_ends *ends);

/** How many connections are passed on, of `user` and (`all`) in all. */
unsigned port_connections_of(const struct service *service, const char *user, unsigned *all);

/** The opening of a request that was taken over; NULL: it has ended. */
struct port_opening *port_connection_opening(const struct http_request *request);

#endif
