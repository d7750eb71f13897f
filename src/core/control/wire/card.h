/* SPDX-License-Identifier: Apache-2.0 */
/** A rank's card: what every other rank knows of it after the meeting. Plain bytes, equal layout on all hosts of a job.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_CARD_H
#define WEFT_CORE_CONTROL_WIRE_CARD_H

#include "base/error.h"

#include <stdint.h>

#define CARD_MACHINE_BYTES 96
#define CARD_HOST_BYTES    64
#define CARD_LINK_BYTES    64
#define CARD_EXTRA_BYTES   256

struct card {
    uint32_t rank;
    int32_t process;                  /**< process id, for people */
    char host[CARD_HOST_BYTES];       /**< host name, for people */
    char machine[CARD_MACHINE_BYTES]; /**< identity of machine and network namespace; equal: these ranks may share
                                         memory */
    char control[CARD_LINK_BYTES];    /**< "address:port" of the rank's control listener */
    uint8_t extra[CARD_EXTRA_BYTES];  /**< what the layers above add (transport addresses) */
};

/**
 * Fill in rank, process, host and machine of this process; the rest becomes zero. `node` (may be NULL) is added to the
 * machine's own identity (see core/topology/identity.h). Errors: SYSTEM.
 */
weft_status card_begin(struct card *card, uint32_t rank, const char *node, struct error *error);

/** Of a card that came from elsewhere: its texts end, and can be printed. */
void card_end_texts(struct card *card);

#endif
