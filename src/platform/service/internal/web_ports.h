/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The web ports of the server (port_openings.h says what they are for): each request is checked, then passed on to the
 * node (port_connection.h). The checks, in their order:
 *
 *     Host       a loopback name where the server listens for its own machine only; always the one of the link's use
 *     cookie     it belongs to an opening at this web port, and to the user of the process at the other end
 *     origin     no page of another origin has sent the request (port_head_foreign())
 *     rights     the session, token and user of the opening are valid, the user may enter the run, and that runs; checked
 *                again every two seconds while a connection is open
 *     room       PORT_CONNECTIONS_MOST connections, PORT_OPENING_CONNECTIONS of an opening: an agent takes 64
 *
 * All on the HTTP server's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_WEB_PORTS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_WEB_PORTS_H

#include "platform/service/internal/port_openings.h"

#define PORT_CONNECTIONS_MOST    256
#define PORT_OPENING_CONNECTIONS 32
#define PORT_ENTRY               "/.weft/enter/" /**< the path of a link, before its secret */

struct service;
struct web_ports;

/** Listen at `count` ports from `first` on, of the host of service->server; before that is started. Errors: those of
 * http_listen(). */
weft_status web_ports_open(struct service *service, uint16_t first, unsigned count, struct web_ports **web_ports,
                           struct error *error);

/** After the server has stopped. NULL is allowed. */
void web_ports_close(struct web_ports *web_ports);

struct port_openings *web_ports_openings(struct web_ports *web_ports);

/** The port at which an opening is served. */
uint16_t web_ports_number(const struct web_ports *web_ports, const struct port_opening *opening);

#endif
