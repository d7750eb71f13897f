/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What becomes of the heads of requests and replies on their way between a browser, at a web port, and a server in a
 * run (port_openings.h). Bodies and what follows an upgrade are not changed.
 *
 * Requests. The server in the run gets them as if its own port were called on its own machine, as with `weft forward`:
 * Host is localhost:PORT, and Origin and Referer agree with it. So it needs no settings, and its own checks of Host and
 * Origin hold: those of the real ones are made here (port_head_foreign()). A connection carries one request, unless
 * that upgrades it to WebSocket.
 *
 * Cookies go to all ports of a host and are sent by all, so
 *   - the platform's own (weft_...) are removed from requests, and replies cannot set any of that name;
 *   - a cookie that the run's server sets as HttpOnly is given to the browser as weft_port_8401.RUN.NODE.PORT.NAME, and only
 *     requests at web port 8401 to this port of this node have it, by its own name: servers of other runs do not get it,
 *     also later at the same web port;
 *   - other cookies keep their names. Scripts may read them, and so scripts of all ports of the host can;
 *   - cookies are for this host alone: Domain is removed.
 *
 * Replies lose the headers by which they could change what the browser keeps of the whole host, or install a service
 * worker; windows of other origins cannot reach theirs (Cross-Origin-Opener-Policy, if they have none); redirections to localhost:PORT become redirections within the web port.
 *
 * Thread-safe.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_PORT_HEAD_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_PORT_HEAD_H

#include "base/buffer.h"
#include "base/error.h"
#include "platform/http/message.h"

#include <stdbool.h>
#include <stdint.h>

#define PORT_COOKIE_BYTES 64 /**< of a name of the platform's, or the beginning of a run's */

/** Between which two. */
struct port_ends {
    uint16_t web_port; /**< of the platform's host */
    int64_t run;
    uint32_t node;
    uint16_t port;  /**< of the node */
    bool encrypted; /**< the browser uses TLS */
};

/** The name of the cookie that lets a browser in at a web port: with TLS one that scripts cannot set. Returns `name`. */
char *port_cookie_name(const struct port_ends *ends, char name[PORT_COOKIE_BYTES]);

/**
 * Find a cookie of a request: its value. Browsers may send several of one name, for paths or set by scripts: `index`
 * counts those, from 0, without values that are too long for `room`. False: there are not so many.
 */
bool port_cookie_find(const struct message *request, const char *name, unsigned index, char *value, size_t room);

/**
 * Why a request must not be passed on although its cookie is right: a page of another origin has sent it, such as one
 * of another run, or it is for a service worker, which would outlive the opening. NULL: it may be.
 */
const char *port_head_foreign(const struct message *request, const struct port_ends *ends);

/** Whether a request asks for an upgrade to WebSocket, the only one that is passed on. */
bool port_head_upgrades(const struct message *request);

/** Write the head of the request for the server in the run. */
void port_head_request(const struct message *request, const struct port_ends *ends, struct buffer *out);

/**
 * Write the head of a reply for the browser: `size` bytes that end with the empty line, which are changed. `to_head`: the
 * request was HEAD. `reply` is what was read of it; nothing is written of one with status 100 to 199 other than 101.
 * Errors: DATA if it is not HTTP.
 */
weft_status port_head_reply(char *head, size_t size, bool to_head, const struct port_ends *ends, struct message *reply,
                            struct buffer *out, struct error *error);

#endif
