/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Who sends a request, and what they may do. A token never allows more than its user may, and `most` limits all that it
 * allows: an administrator's token of at most viewer sees every project and changes nothing. That a user is an
 * administrator counts only if the token says so too.
 */
#ifndef WEFT_PLATFORM_ACCESS_IDENTITY_H
#define WEFT_PLATFORM_ACCESS_IDENTITY_H

#include "platform/registry/name.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define IDENTITY_SESSION_BYTES 17

struct identity {
    char user[PLATFORM_NAME_BYTES];
    char token[PLATFORM_NAME_BYTES];      /**< the public part of the token that was shown; "" without tokens */
    char session[IDENTITY_SESSION_BYTES]; /**< of a browser that signed in with that token (sessions.h); "": none */
    char project[PLATFORM_NAME_BYTES];    /**< the only project that the token is for; "": all of the user's */
    enum role most;                       /**< the highest role that the token allows in a project */
    bool administrator;                   /**< of every project, users, nodes, as far as `most` goes */
    int64_t ends;                         /**< of the token, seconds since 1970; 0: never */
};

/** Their role in a project whose member they are in the role `membership` (ROLE_NONE: not a member). */
static inline enum role identity_role(const struct identity *who, const char *project, enum role membership)
{
    if (*who->project && strcmp(who->project, project) != 0)
        return ROLE_NONE;
    const enum role role = who->administrator ? ROLE_MANAGER : membership;
    return role < who->most ? role : who->most;
}

/** Whether they may do what takes an administrator. */
static inline bool identity_administers(const struct identity *who)
{
    return who->administrator && who->most == ROLE_MANAGER;
}

#endif
