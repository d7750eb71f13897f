/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ports of nodes that users have opened from the pages of runs: who opened which, and the secrets that let a browser in.
 *
 * What a run serves is not trusted. It must not share an origin with the platform's pages, so it is served at other ports
 * of the same host, the web ports of `weft serve --web-ports`. Each is an origin to browsers. A user has at most one
 * port of a run open at each web port at a time. What was there before may still be in a window of the user's browser after
 * its opening has ended, so a port of a run gets a web port that the user has not used for another one. When there are no
 * more of these, the one that was used least recently gets used again, and the user is asked first to close those windows
 * (port_openings_reuse()). Forgotten is this when the server restarts, and of those used longest ago when there are more
 * than PORT_ORIGINS_MOST. A path for each
 * run, in one origin, would separate nothing, and TensorBoard and Jupyter would need to be started with that path.
 * A name for each run would need a name server and certificates for all names.
 *
 * How a browser gets in:
 *
 *     page of the run    POST .../nodes/0/ports {"port": 6006}     the session and the user's rights are checked, audited
 *                        <- a link with a secret                   valid once and for PORT_LINK_SECONDS
 *     web port           GET /.weft/enter/SECRET                   in the browser of that session alone (web_ports.h)
 *                        <- a cookie                               valid at this web port for this port alone
 *                        GET /anything                             the cookie is checked, and removed, on each request
 *
 * An opening is bound to the host name by which its link was used, so that no other name that points to the server is of
 * use; and where the user's browser is on the server's machine, to the user of that process, as sessions are. Openings
 * are in memory: a server that was restarted has none.
 *
 * Secrets are 256 random bits, and kept as hashes. Not thread-safe: all on the HTTP server's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_PORT_OPENINGS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_PORT_OPENINGS_H

#include "base/error.h"
#include "platform/access/identity.h"
#include "platform/service/service.h"

#include <stdbool.h>
#include <stdint.h>

#define PORT_SECRET_BYTES   44 /**< in base64, with its NUL */
#define PORT_SECRET_HASH    32
#define PORT_HOST_BYTES     264         /**< a name, a colon and a port */
#define PORT_LINK_SECONDS   60          /**< a link that was not used is void then */
#define PORT_SECONDS        (12 * 3600) /**< an opening ends then */
#define PORT_OPENINGS_MOST  1024        /**< of all users */
#define PORT_ORIGINS_MOST   4096        /**< web ports of users of which is known what was there last */
#define PORT_OF_USER_MOST   64          /**< one more replaces the one that was used least recently */
#define PORT_NANOSECONDS(s) ((uint64_t)(s)*1000000000u)

/** What was opened. */
struct port_target {
    int64_t run;
    uint32_t node;
    uint16_t port;
};

struct port_opening {
    uint64_t serial; /**< differs between any two openings; 0: this one is not used */
    struct port_target target;
    struct identity who;            /**< that opened it; kept up to date by who checks it */
    int64_t peer;                   /**< the user at the other end, or SESSION_ANYWHERE */
    unsigned web_port;              /**< index of its web port */
    bool entered;                   /**< the link was used */
    char host[PORT_HOST_BYTES];     /**< the Host header of the link's use */
    uint64_t used, ends;            /**< clock_now() */
    unsigned connections;           /**< at present; counted by their owner */
    uint8_t hash[PORT_SECRET_HASH]; /**< of the link's secret, after that of the cookie's */
};

struct port_openings;

/** Make an empty table for `web_ports` web ports. port_openings_free() frees it. Errors: MEMORY. */
weft_status port_openings_new(unsigned web_ports, struct port_openings **openings, struct error *error);

/** NULL is allowed. */
void port_openings_free(struct port_openings *openings);

/**
 * Whether the web port at which a target would be opened was used for another one by the user, whose pages may still be in
 * their browser, under the same origin: if so, which.
 */
bool port_openings_reuse(struct port_openings *openings, const struct port_target *target, const char *user,
                         uint64_t now, unsigned *web_port, struct port_target *earlier);

/**
 * Open a port for `who` and draw the secret of the link. The user's openings of the same target share a web port. `now`
 * is clock_now(), here and below. The opening is the table's. Errors: STATE if the table is full; SYSTEM.
 */
weft_status port_openings_add(struct port_openings *openings, const struct port_target *target,
                              const struct identity *who, int64_t peer, uint64_t now, struct port_opening **opening,
                              char secret[PORT_SECRET_BYTES], struct error *error);

/** The opening that a link is for, which is not used by that. NULL: it is unknown, was used, or is too old. */
struct port_opening *port_openings_waiting(struct port_openings *openings, unsigned web_port, const char *secret,
                                           int64_t peer, uint64_t now);

/** Use a link at a web port, by a host name: draws the secret of the cookie. Ends what else the user has open there, other
 * than of the same target. NULL: it is unknown, was used, or is too old. */
struct port_opening *port_openings_enter(struct port_openings *openings, unsigned web_port, const char *secret,
                                         const char *host, int64_t peer, uint64_t now, char cookie[PORT_SECRET_BYTES]);

/** The opening that a cookie is for, now used. NULL: there is none at this web port, host and peer. */
struct port_opening *port_openings_find(struct port_openings *openings, unsigned web_port, const char *cookie,
                                        const char *host, int64_t peer, uint64_t now);

/** The opening of that place and serial number; NULL: it has ended. `opening` is of this table. */
struct port_opening *port_openings_same(struct port_opening *opening, uint64_t serial, uint64_t now);

/** Give all openings of a user to `each`. */
void port_openings_list(struct port_openings *openings, const char *user, uint64_t now,
                        void (*each)(void *context, const struct port_opening *opening), void *context);

void port_opening_end(struct port_opening *opening);

#endif
