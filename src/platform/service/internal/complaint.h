/* SPDX-License-Identifier: Apache-2.0 */
/** Trouble that lasts, told once: on standard error, when it begins, changes or ends. Of one thread. */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_COMPLAINT_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_COMPLAINT_H

#include "base/error.h"

#include <stdio.h>
#include <string.h>

struct complaint {
    struct error told; /**< the last message; empty: there is no trouble */
};

/** `what` failed because of `error`: "nothing can be changed at the moment". */
static inline void complain(struct complaint *complaint, const char *what, const struct error *error)
{
    if (strcmp(complaint->told.text, error->text) != 0)
        fprintf(stderr, "weft: %s: %s\n", what, error->text);
    complaint->told = *error;
}

/** It works again. */
static inline void complain_no_more(struct complaint *complaint, const char *what)
{
    if (*complaint->told.text)
        fprintf(stderr, "weft: %s\n", what);
    complaint->told = (struct error){0};
}

#endif
