/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sessions of browsers. A cookie goes to every port of a host, so it must not be a token. Signing in with a token
 * begins a session with two secrets: a cookie that no script can read, and a key that the pages keep for their origin,
 * port included, and send in a header. A request needs both. A session that was begun on this machine is valid only for
 * processes of the same user. It ends on request, after SESSION_SECONDS, or with its token. The
 * database of access.h stores a keyed BLAKE2b hash of both secrets. Not thread-safe.
 */
#ifndef WEFT_PLATFORM_ACCESS_SESSIONS_H
#define WEFT_PLATFORM_ACCESS_SESSIONS_H

#include "base/error.h"
#include "platform/access/identity.h"
#include "platform/store/database.h"

#include <stdint.h>

#define SESSION_HEADER       "Weft-Session" /**< carries the key */
#define SESSION_SECONDS      (30 * 86400)
#define SESSION_COOKIE_BYTES 64 /**< with its NUL */
#define SESSION_KEY_BYTES    48
#define SESSIONS_MOST        32 /**< of a token: one more replaces the oldest */

#define SESSION_ANYWHERE (-1) /**< for `peer`: a client on another machine, or of an unknown user */

struct session {
    char cookie[SESSION_COOKIE_BYTES], key[SESSION_KEY_BYTES];
    int64_t ends; /**< seconds since 1970 */
};

/** Begin a session for `who`, whom a token identified. `peer`: the user at the other end. Errors: SYSTEM and those of the
 * database. */
weft_status sessions_begin(struct database *access, const struct identity *who, int64_t peer, int64_t now,
                           struct session *made, struct error *error);

/** Find the user of a session. False: it is unknown, has ended, belongs to another user of this machine, or its token has
 * ended. */
bool sessions_identify(struct database *access, const char *cookie, const char *key, int64_t peer, int64_t now,
                       struct identity *who);

/** Whether the session that identified `who` is still valid. */
bool sessions_still(struct database *access, int64_t now, struct identity *who);

/** End the session that identified `who`. */
weft_status sessions_end(struct database *access, const struct identity *who, struct error *error);

#endif
