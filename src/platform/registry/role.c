/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/role.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {"none", "viewer", "member", "manager"};

const char *role_name(enum role role)
{
    return names[role];
}

bool role_find(const char *name, enum role *role)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *role = (enum role)i;
            return true;
        }
    return false;
}
