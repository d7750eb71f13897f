/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Agreement: a step of preparation that may fail on some ranks (a file that one host lacks) fails on all, with the
 * message of the first rank that it failed on. Without it the others would wait for a rank that has given up.
 */
#ifndef WEFT_TRAINING_PARALLEL_AGREEMENT_H
#define WEFT_TRAINING_PARALLEL_AGREEMENT_H

#include "base/error.h"

#include <stdbool.h>

/**
 * Collective. Returns WEFT_OK when `status` is WEFT_OK on all ranks; otherwise the status of the lowest rank with a
 * failure, whose message is in `error` on every rank. *speaks (on failure) is true on that rank alone, which tells the
 * user. Whichever way it ends, a rank may exit as soon as this returns.
 */
weft_status agreement_reach(weft_context *context, weft_comm *comm, weft_status status, struct error *error,
                            bool *speaks);

#endif
