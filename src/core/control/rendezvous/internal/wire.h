/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The frames of the rendezvous. ENDPOINTS, COME, PLACE and TABLE begin with a number (4), the length of the chain: how many
 * messages were handled one after the other, greetings included, for this one to be sent.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_WIRE_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_WIRE_H

enum rendezvous_frame {
    RENDEZVOUS_ENDPOINTS =
        1,           /**< up: chain (4), bytes of a endpoint info (4), then each a rank (4) and its endpoint info */
    RENDEZVOUS_COME, /**< to the server: chain (4), bytes of a endpoint info (4), where others find the sender (text; empty:
                             it brings everybody), then the ranks that it brings: each a first (4) and how many (4) */
    RENDEZVOUS_WITHDRAWN, /**< up: ranks (4 each) that have gone away again */
    RENDEZVOUS_FAILURE,   /**< up until it has reached the server or the root, then down to all: status (4), message
                             (text) */
    RENDEZVOUS_ADDRESS,   /**< down, to a rank of the same host: its address (text) as others reach it */
    RENDEZVOUS_PLACE,     /**< from the server: chain (4), ranks below and including the taker's (4), its parent's
                             address (text; empty: it is the root), and each child's rank (4) and host (text) */
    RENDEZVOUS_TABLE, /**< down: chain (4), ranks (4), bytes of a endpoint info (4), the round's draw (32), all endpoint infos */
};

#endif
