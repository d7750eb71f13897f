/* SPDX-License-Identifier: Apache-2.0 */
/** Times of the phases of weft_init(), for WEFT_VERBOSE. One thread. */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_STARTUP_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_STARTUP_H

#include "weft/weft.h"

#include <stdint.h>

enum startup_phase {
    STARTUP_RENDEZVOUS,   /**< all ranks join and get each other's endpoint info */
    STARTUP_CONTROL,      /**< the control plane's tree is built */
    STARTUP_SHM,          /**< the heap, and the ranks that share it */
    STARTUP_NETWORK,      /**< libfabric, where ranks are remote */
    STARTUP_COMMUNICATOR, /**< the world */
    STARTUP_TUNER,        /**< links are measured or read from a file */
    STARTUP_PHASES,
};

struct startup {
    uint64_t last;
    uint64_t took[STARTUP_PHASES]; /**< nanoseconds */
};

/** weft_init() begins. */
void startup_begin(struct startup *startup);

/** `phase` ends; the next begins. */
void startup_end(struct startup *startup, enum startup_phase phase);

/** Write the times, the chosen network and why, and how many set-up frames this rank handled, to standard error. */
void startup_print(weft_context *context);

#endif
