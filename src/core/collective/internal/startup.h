/* SPDX-License-Identifier: Apache-2.0 */
/** How long the phases of weft_init() took, for who asks (WEFT_VERBOSE). One thread. */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_STARTUP_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_STARTUP_H

#include "weft/weft.h"

#include <stdint.h>

enum startup_phase {
    STARTUP_RENDEZVOUS,   /**< all ranks come, and learn of each other */
    STARTUP_CONTROL,      /**< the control plane's tree is built */
    STARTUP_SHM,          /**< memory, and the ranks that share it */
    STARTUP_NETWORK,      /**< libfabric, where ranks are remote */
    STARTUP_COMMUNICATOR, /**< the world */
    STARTUP_TUNER,        /**< links are measured, or read */
    STARTUP_PHASES,
};

struct startup {
    uint64_t last;
    uint64_t took[STARTUP_PHASES]; /**< nanoseconds */
};

/** weft_init() begins. */
void startup_begin(struct startup *startup);

/** `phase` is over; the next begins. */
void startup_end(struct startup *startup, enum startup_phase phase);

/** Write times, the network that was chosen and why, and how many frames of set-up passed through this rank, to
 * standard error. */
void startup_tell(weft_context *context);

#endif
