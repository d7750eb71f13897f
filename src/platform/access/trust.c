/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/trust.h"

#include "platform/access/peer_user.h"

#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES   64
#define RECORD_BYTES 16384

/* Find the user whose name or number is `text`. */
static bool find_user(const char *text, uid_t *user)
{
    struct passwd record, *found = NULL;
    char buffer[RECORD_BYTES], *end;
    if (getpwnam_r(text, &record, buffer, sizeof buffer, &found) == 0 && found) {
        *user = found->pw_uid;
        return true;
    }
    const unsigned long number = strtoul(text, &end, 10);
    *user = (uid_t)number;
    return *text >= '0' && *text <= '9' && !*end && number == *user;
}

/* The name of a user, or its number if it has none. */
static const char *trust_name_of(uid_t user, char name[NAME_BYTES])
{
    struct passwd record, *found = NULL;
    char buffer[RECORD_BYTES];
    if (getpwuid_r(user, &record, buffer, sizeof buffer, &found) == 0 && found && strlen(found->pw_name) < NAME_BYTES)
        snprintf(name, NAME_BYTES, "%s", found->pw_name);
    else
        snprintf(name, NAME_BYTES, "%u", (unsigned)user);
    return name;
}

/* A connection that the peer has ended has no owner there. */
static bool has_ended(int descriptor)
{
    struct pollfd polled = {.fd = descriptor, .events = POLLRDHUP};
    return poll(&polled, 1, 0) == 1 && polled.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

weft_status trust_server(int descriptor, struct error *error)
{
    const char *named = getenv("WEFT_SERVER_USER");
    char name[NAME_BYTES], own[NAME_BYTES];
    uid_t owner, trusted = 0;
    if (named && strcmp(named, "*") == 0)
        return WEFT_OK;
    if (named && *named && !find_user(named, &trusted))
        return error_set(error, WEFT_ERROR_STATE, "WEFT_SERVER_USER is '%.63s', but this machine has no such user",
                         named);
    if (!peer_server(descriptor, &owner)) {
        if (has_ended(descriptor))
            return error_set(error, WEFT_ERROR_NETWORK,
                             "it ended the connection at once, as a server does that has too many; try again");
        return error_set(
            error, WEFT_ERROR_STATE,
            "the kernel does not say which user it belongs to. If you trust everybody who can listen on that port, "
            "set WEFT_SERVER_USER='*'");
    }
    if (owner == 0 || owner == geteuid() || (named && *named && owner == trusted))
        return WEFT_OK;
    trust_name_of(owner, name);
    return error_set(error, WEFT_ERROR_STATE,
                     "it belongs to user '%s', which is neither root nor you ('%s'). If '%s' is meant to run the Weft "
                     "server, set WEFT_SERVER_USER=%s",
                     name, trust_name_of(geteuid(), own), name, name);
}
