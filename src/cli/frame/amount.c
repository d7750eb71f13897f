/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/amount.h"

#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define AMOUNT_MOST 1e10 /* slot-minutes: more than the ledger accepts, so that the server reports its own limit */

static weft_status amount_refuse(const char *text, const char *what, struct error *error)
{
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "%s is '%s', which is no amount; write slot-minutes (1200), or slots and a duration (8x6h)", what,
                     text);
}

weft_status amount_parse(const char *text, const char *what, double least, double *minutes, struct error *error)
{
    double slots = 1, value = 0;
    const char *rest = text + (*text == '-' && least < 0), *times = strchr(rest, 'x');
    char before[32];
    if (!isdigit((unsigned char)*rest) && *rest != '.')
        return amount_refuse(text, what, error);
    if (times) {
        snprintf(before, sizeof before, "%.*s", (int)(times - rest), rest);
        weft_status status = text_parse_number(before, what, 1, 1e6, &slots, error);
        if (status != WEFT_OK)
            return status;
        rest = times + 1;
    }
    weft_status status;
    if (!times && strspn(rest, "0123456789.") == strlen(rest)) {
        status = text_parse_number(rest, what, 0, AMOUNT_MOST, &value, error);
    } else {
        int64_t seconds = 0;
        status = text_parse_duration(rest, what, &seconds, NULL);
        if (status != WEFT_OK)
            return amount_refuse(text, what, error);
        value = slots * (double)seconds / 60;
    }
    if (status != WEFT_OK)
        return status;
    value = *text == '-' ? -value : value;
    if (value < least || value > AMOUNT_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is %s, but must be from %g to %g slot-minutes", what, text,
                         least, AMOUNT_MOST);
    *minutes = value;
    return WEFT_OK;
}

char *amount_text(double minutes, char buffer[AMOUNT_BYTES])
{
    static const struct {
        double size;
        const char *name;
    } units[] = {{1e9, " G"}, {1e6, " M"}, {1e4, " k"}};
    double size = fabs(minutes);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (size < units[i].size)
            continue;
        double shown = minutes / (i == 2 ? 1e3 : units[i].size);
        snprintf(buffer, AMOUNT_BYTES, "%.*f%s",
                 fabs(shown) >= 99.95   ? 0
                 : fabs(shown) >= 9.995 ? 1
                                        : 2,
                 shown, units[i].name);
        return buffer;
    }
    bool whole = size >= 99.95 || fabs(size - rint(size)) < 0.005;
    snprintf(buffer, AMOUNT_BYTES, "%.*f", whole ? 0 : size >= 9.995 ? 1 : 2, size < 0.005 ? 0 : minutes);
    return buffer;
}
