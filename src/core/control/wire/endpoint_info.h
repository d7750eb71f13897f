/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A rank's endpoint info, which all ranks have after the rendezvous. Plain bytes with the same layout on all hosts of a
 * job.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_ENDPOINT_INFO_H
#define WEFT_CORE_CONTROL_WIRE_ENDPOINT_INFO_H

#include "base/error.h"

#include <stdint.h>

#define ENDPOINT_MACHINE_BYTES 96
#define ENDPOINT_HOST_BYTES    64
#define ENDPOINT_LINK_BYTES    64
#define ENDPOINT_EXTRA_BYTES   256

struct endpoint_info {
    uint32_t rank;
    int32_t process;                      /**< process id, for people */
    char host[ENDPOINT_HOST_BYTES];       /**< host name, for people */
    char machine[ENDPOINT_MACHINE_BYTES]; /**< identity of machine and network namespace; equal: these ranks may share
                                         memory */
    char control[ENDPOINT_LINK_BYTES];    /**< "address:port" of the rank's control listener */
    uint8_t extra[ENDPOINT_EXTRA_BYTES];  /**< for the layers above (transport addresses) */
};

/**
 * Fill in rank, process, host and machine of this process; the rest becomes zero. `node` (may be NULL) is added to the
 * machine's own identity (see core/topology/identity.h). Errors: SYSTEM.
 */
weft_status endpoint_info_begin(struct endpoint_info *endpoint, uint32_t rank, const char *node, struct error *error);

/** Terminate the strings of an endpoint info that came from another process, and make them printable. */
void endpoint_info_end_texts(struct endpoint_info *endpoint);

#endif
