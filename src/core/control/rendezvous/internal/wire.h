/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The frames of the rendezvous. ENDPOINTS, JOIN, PLACE and TABLE begin with the chain length (4): how many dependent
 * messages were handled, handshakes included, before this one was sent.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_WIRE_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_WIRE_H

#include <stdint.h>

enum rendezvous_frame {
    RENDEZVOUS_ENDPOINTS =
        1,                /**< up: chain (4), bytes per endpoint info (4), then each rank (4) and its endpoint info */
    RENDEZVOUS_JOIN,      /**< to the server: chain (4), bytes per endpoint info (4), the sender's address (text; empty:
                          it brings all ranks), then the ranks that it brings: each a first (4) and a count (4) */
    RENDEZVOUS_WITHDRAWN, /**< up: ranks (4 each) that have left again */
    RENDEZVOUS_FAILURE,   /**< up until it has reached the server or the root, then down to all: status (4), message
                             (text) */
    RENDEZVOUS_ADDRESS,   /**< down, to a rank of the same host: this host's address as others reach it (text) */
    RENDEZVOUS_PLACE,     /**< from the server: chain (4), ranks in the receiver's subtree (4), its parent's address
                               (text; empty: it is the root), and each child's rank (4) and host (text) */
    RENDEZVOUS_TABLE,     /**< down: chain (4), ranks (4), bytes per endpoint info (4), the round's random bytes (32),
                           all endpoint info */

    /* Between the server and a visitor (rendezvous.h). */
    RENDEZVOUS_PUT_MEMBERS, /**< to the server: keep these bytes in place of the former ones; answered by MEMBERS */
    RENDEZVOUS_GET_MEMBERS, /**< to the server: answered by MEMBERS as soon as it has some */
    RENDEZVOUS_MEMBERS,     /**< from the server: the bytes; none after PUT_MEMBERS and OVERTAKEN */
    RENDEZVOUS_OVERTAKEN,   /**< to the server: rank (4), see rendezvous_say_overtaken(); answered by MEMBERS */
};

/** In a hello, in place of a rank: a visitor, which does not join. */
#define RENDEZVOUS_VISITOR UINT32_MAX

#endif
