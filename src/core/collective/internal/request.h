/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Requests: from a checked call to its end, blocking or apart. What the public functions of collectives.c come down to.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_REQUEST_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_REQUEST_H

#include "core/collective/call.h"

/** Do it, and return when it is complete here (in a group: return at once). */
weft_status request_run(weft_comm *comm, const struct call *call);

/** Start it; *request ends it. */
weft_status request_start(weft_comm *comm, const struct call *call, weft_request **request);

#endif
