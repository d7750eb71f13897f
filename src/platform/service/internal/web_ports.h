/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The web ports of the server (port_openings.h says what they are for). A link works only in the browser for which it was
 * made: one that sends the cookie of the opening's session. One that was made with a token alone works in a browser that
 * is not signed in, and where no page has led there. Otherwise a user could lead another user's browser into a run of
 * their own. The audit log has each use.
 *
 * Each other request is checked, then passed on to the node (port_connection.h). The checks, in their order:
 *
 *     Host       a loopback name where the server listens for its own machine only; always the one of the link's use
 *     cookie     it belongs to an opening at this web port, and to the user of the process at the other end
 *     rate       as many requests a second as the platform itself allows a user (an address without the cookie)
 *     origin     no page of another origin has sent the request (port_head_foreign())
 *     session    if the browser sends the cookie of a session, it is that of the opening
 *     rights     the session, token and user of the opening are valid, the user may enter the run, and that runs; checked
 *                again every two seconds while a connection is open
 *     room       PORT_CONNECTIONS_MOST connections, PORT_USER_CONNECTIONS of a user, PORT_OPENING_CONNECTIONS of an opening: an
 *                agent takes 64
 *
 * All on the HTTP server's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_WEB_PORTS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_WEB_PORTS_H

#include "platform/service/internal/port_openings.h"

#define PORT_CONNECTIONS_MOST    256
#define PORT_USER_CONNECTIONS    64
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

/** The port at which openings with `web_port` are served. */
uint16_t web_ports_number(const struct web_ports *web_ports, unsigned web_port);

#endif
