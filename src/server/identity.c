/* SPDX-License-Identifier: Apache-2.0 */
#include "server/identity.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {"none", "viewer", "member", "manager"};

bool name_is_valid(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return length > 0 && length < IDENTITY_NAME_BYTES && !text[length] && !strchr("-_.", text[0]);
}

const char *role_name(enum role role)
{
    return names[role];
}

enum role role_of_name(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return (enum role)i;
    return ROLE_NONE;
}
