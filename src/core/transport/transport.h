/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A transport carries messages between this rank and its peers. There are two: shm (shared memory) and fabric
 * (libfabric).
 *
 * Messages between two ranks match in order within one (communicator, channel). Different channels are independent and
 * never block one another, however many messages wait on one of them. Each message carries a `tag`, a hash of its
 * operation. A receive with a different tag fails as a mismatch, with both tags known.
 *
 * A transfer is one send or one receive in flight. Its memory belongs to the caller and must not move until the
 * transfer is complete or has been canceled. The path of a small message neither allocates nor locks nor makes system
 * calls.
 *
 * Threads: all functions of one transport are called by one thread at a time (the holder of the context's progress
 * lock).
 */
#ifndef WEFT_CORE_TRANSPORT_TRANSPORT_H
#define WEFT_CORE_TRANSPORT_TRANSPORT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum transfer_state {
    TRANSFER_IDLE,
    TRANSFER_ACTIVE,
    TRANSFER_COMPLETE,
    TRANSFER_MISMATCH, /**< the peer's message has another tag (peer_tag) or size (peer_bytes) */
    TRANSFER_FAILED,   /**< the transport's error has the message */
};

/** One message in flight. The caller fills the first group, the transport the second. */
struct transfer {
    uint32_t peer;         /**< world rank */
    uint32_t communicator; /**< id, equal on all its ranks */
    uint8_t channel;
    bool is_send;
    void *data;     /**< the message, or the buffer for it; only read for a send; NULL only with bytes 0 */
    uint64_t bytes; /**< exact size sent or expected */
    uint64_t tag;   /**< the operation's */

    enum transfer_state state;
    uint64_t peer_tag, peer_bytes; /**< with TRANSFER_MISMATCH */
    struct transfer *next;         /**< the transport's lists */
    uint64_t private_words[8];     /**< the transport's own */
};

/** Traffic of a transport: messages, and bytes of payload. */
struct transport_counters {
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
};

struct transport {
    const char *name; /**< "near", "fabric/net" */

    /**
     * Begin a transfer; it may be complete on return. An error concerns the whole transport and is permanent.
     */
    weft_status (*begin)(struct transport *transport, struct transfer *transfer, struct error *error);

    /** Make progress; cheap when there is nothing to do. */
    weft_status (*progress)(struct transport *transport, struct error *error);

    /** Cancel an incomplete transfer (the communicator is broken); its memory may then be reused. */
    void (*cancel)(struct transport *transport, struct transfer *transfer);

    void (*counters)(const struct transport *transport, struct transport_counters *counters);

    /**
     * A communicator has been freed: none of its transfers is or will be in flight, here or on its other ranks. State
     * of its channels may be freed.
     */
    void (*forget)(struct transport *transport, uint32_t communicator);

    /**
     * For sleeping: a descriptor to poll, or -1 when the rank's doorbell covers it; and whether sleeping is allowed
     * right now (false: something has arrived, make progress first). May be NULL together: always allowed, nothing to
     * poll.
     */
    int (*wait_descriptor)(const struct transport *transport);
    bool (*may_sleep)(struct transport *transport);

    void (*close)(struct transport *transport);
};

#endif
