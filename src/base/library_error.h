/* SPDX-License-Identifier: Apache-2.0 */
/** Passes on the message of a failed call of weft/weft.h. */
#ifndef WEFT_BASE_LIBRARY_ERROR_H
#define WEFT_BASE_LIBRARY_ERROR_H

#include "base/error.h"

/** Returns `status`; if it is an error, the message is the library's own. */
static inline weft_status library_error(const weft_context *context, weft_status status, struct error *error)
{
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(context));
}

#endif
