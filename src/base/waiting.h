/* SPDX-License-Identifier: Apache-2.0 */
/** The time that a rank waits for others, added up in a number of the caller's; NULL: not counted. */
#ifndef WEFT_BASE_WAITING_H
#define WEFT_BASE_WAITING_H

#include "base/clock.h"
#include "base/library_error.h"

/** Add the time since `begin`, of clock_now(). */
static inline void waiting_add(double *seconds, uint64_t begin)
{
    if (seconds)
        *seconds += (double)(clock_now() - begin) * 1e-9;
}

/** weft_wait(). A request that is NULL takes no time. */
static inline weft_status waiting_for(weft_context *context, weft_request **request, double *seconds,
                                      struct error *error)
{
    if (!*request)
        return WEFT_OK;
    const uint64_t begin = clock_now();
    const weft_status status = library_error(context, weft_wait(request), error);
    waiting_add(seconds, begin);
    return status;
}

#endif
