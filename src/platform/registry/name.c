/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/name.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

bool platform_name_is_valid(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < PLATFORM_NAME_BYTES && !strchr("._-", name[0]) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

weft_status platform_name_check(const char *name, const char *what, struct error *error)
{
    if (platform_name_is_valid(name))
        return WEFT_OK;
    char shown[PLATFORM_NAME_BYTES + 1], code[TEXT_CODE_BYTES];
    if (!text_is_printable(name, false))
        return error_set(error, WEFT_ERROR_DATA,
                         "%s contains %s, which no name may contain: use 1 to %d small letters, digits, '.', '_' and "
                         "'-', beginning with a letter or digit",
                         what, text_unprintable_code(name, false, code), PLATFORM_NAME_BYTES - 1);
    snprintf(shown, sizeof shown, "%s", name);
    return error_set(error, WEFT_ERROR_DATA,
                     "%s is '%s', which is no name: 1 to %d small letters, digits, '.', '_' and '-', beginning with a "
                     "letter or digit",
                     what, text_printable(shown), PLATFORM_NAME_BYTES - 1);
}

/* ---- roles ---- */

static const char *const role_names[] = {"none", "viewer", "member", "manager"};

const char *role_name(enum role role)
{
    return role_names[role];
}

bool role_find(const char *name, enum role *role)
{
    for (size_t i = 0; i < ARRAY_SIZE(role_names); i++)
        if (strcmp(role_names[i], name) == 0) {
            *role = (enum role)i;
            return true;
        }
    return false;
}
