/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/route/identity.h"

#include <string.h>

enum role identity_role(const struct identity *who, const char *project, enum role membership)
{
    if (*who->project && strcmp(who->project, project) != 0)
        return ROLE_NONE;
    const enum role role = who->administrator ? ROLE_MANAGER : membership;
    return role < who->most ? role : who->most;
}

bool identity_administers(const struct identity *who)
{
    return who->administrator && who->most == ROLE_MANAGER;
}
