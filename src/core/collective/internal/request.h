/* SPDX-License-Identifier: Apache-2.0 */
/** Requests: run a call, blocking or started. The public functions of collectives.c end here. */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_REQUEST_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_REQUEST_H

#include "core/collective/call.h"

/** Run it, and return when it is complete on this rank (in a group: return at once). */
weft_status request_run(weft_comm *comm, const struct call *call);

/** Start it; weft_wait(), weft_test() and the like complete *request. */
weft_status request_start(weft_comm *comm, const struct call *call, weft_request **request);

#endif
