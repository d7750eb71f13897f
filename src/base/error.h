/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The one error style of Weft: a status and a message.
 *
 * A function that can fail returns weft_status and takes a `struct error *` as its last argument. The *first* function
 * that detects an error builds the message with error_set(): what failed, where, with which value, what to do. Callers
 * add nothing and return the status. `error` may be NULL if the message is not needed.
 *
 *     if (fd < 0)
 *         return error_system(error, "cannot open '%s'", path);
 *
 * A struct error belongs to one thread at a time.
 */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H

#include "base/array.h"
#include "weft/weft.h"

#include <stdarg.h>

#define ERROR_TEXT_BYTES 1024

struct error {
    weft_status status;
    char text[ERROR_TEXT_BYTES]; /**< a message without a final newline; "" when status is WEFT_OK */
};

/** Clear it. */
void error_clear(struct error *error);

/** Store `status` and a message, unless an error is stored already (the first detector is right); returns `status`. */
weft_status error_set(struct error *error, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** error_set() with WEFT_ERROR_SYSTEM and ": " and the text of errno appended. */
weft_status error_system(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** error_set() with WEFT_ERROR_MEMORY for a failed allocation of `bytes` for `what`. */
weft_status error_memory(struct error *error, size_t bytes, const char *what);

#endif
