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
