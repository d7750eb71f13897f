/* SPDX-License-Identifier: Apache-2.0 */
/** The frames of the rendezvous. */
#ifndef WEFT_CONTROL_RENDEZVOUS_WIRE_H
#define WEFT_CONTROL_RENDEZVOUS_WIRE_H

enum rendezvous_frame {
    RENDEZVOUS_CARD = 1, /**< to the server: the blob */
    RENDEZVOUS_TABLE,    /**< to each rank: ranks (4), bytes of a blob (4), the round's draw (32), all blobs */
    RENDEZVOUS_FAILURE,  /**< to each rank: status (4), sentence (text) */
};

#endif
