/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the control plane: shared by control.c (life and failure), control_connect.c, control_exchange.c,
 * control_gather.c and control_log.c. One lock guards everything; no function called with it held blocks.
 */
#ifndef WEFT_CORE_CONTROL_INTERNAL_PLANE_H
#define WEFT_CORE_CONTROL_INTERNAL_PLANE_H

#include "core/control/control.h"
#include "core/control/wire/stream.h"
#include "core/control/wire/tree.h"

#include <pthread.h>

/** Frames between neighbors. Routed frames begin with destination and source (4 bytes each) and are forwarded. */
enum control_frame {
    CONTROL_HEARTBEAT = 1, /**< the rank's current operation (text) */
    CONTROL_FAILURE,       /**< status (4), message (text): flooded */
    CONTROL_LEAVING,       /**< rank (4) has called control_close(): flooded */
    CONTROL_READY,         /**< up: every rank of the subtree is leaving */
    CONTROL_RELEASE,       /**< down: all ranks are leaving: close */
    CONTROL_BLOB,          /**< routed: key (8), index (4), count (4), size (4), the member's blob */
    CONTROL_TABLE,         /**< routed: key (8), status (4), message (text), all blobs */
    CONTROL_GATHER,        /**< up: key (8), count (4), size (4), entries (4), each a rank (4) and its blob */
    CONTROL_SPREAD,        /**< down: as CONTROL_TABLE without destination and source, for the whole subtree */
    CONTROL_FLUSH,         /**< down: key (8): send up the blobs held for it */
    CONTROL_ASK,           /**< routed: number (8) of the query for an operation log */
    CONTROL_ANSWER,        /**< routed: number (8), the log */
};

/** The connection to a neighbor in the tree. */
struct link {
    struct stream stream;
    uint32_t rank;
    bool open; /**< authenticated and not ended */
    bool ended;
    bool ready;                       /**< a child's: its subtree is leaving */
    bool released;                    /**< closing the connection is no failure any more */
    bool armed;                       /**< epoll watches for room to write */
    uint64_t heard, sent;             /**< clock_now() of the last bytes */
    char doing[OPERATION_TEXT_BYTES]; /**< its operation, from its last heartbeat */
    uint64_t told;                    /**< clock_now() of that heartbeat; 0: none yet */
    struct buffer early;              /**< frames queued for it before it was open */
};

#define EXCHANGE_BLOB_MOST (1u << 20)

struct exchange;
struct gathering;
struct question;

struct control {
    struct control_config config;
    int listener, epoll, wake;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct endpoint_info *endpoints;
    uint8_t secret[SECRET_BYTES];
    struct tree tree;
    struct link *links; /**< the parent first, if there is one */
    uint32_t link_count;
    bool *left; /**< by rank: has called control_close() */
    uint64_t progressed;

    atomic_bool failed;
    struct error failure;
    void (*callback)(void *context);
    void *callback_context;
    bool called;

    bool closing, release_seen;
    struct exchange *exchanges;
    struct gathering *gatherings;
    uint64_t exchange_frames; /**< handled so far */
    _Atomic uint32_t waiting; /**< threads in plane_wait() */
    const struct operation_log *log;
    char *(*describe)(const struct operation_log *log, char *text, size_t size);
    struct question *questions;
    uint64_t next_question;
};

/* All of these are called with the lock held. */

/** A neighbor is authenticated: watch its link, and send the frames queued for it. */
weft_status plane_open_link(struct control *control, struct link *link, struct error *error);

/** Queue a frame for a neighbor and send as much as the socket takes. */
void plane_send(struct control *control, struct link *link, uint16_t kind, const void *payload, size_t size);

/** Send to every open neighbor except `except` (may be NULL). */
void plane_flood(struct control *control, uint16_t kind, const void *payload, size_t size, const struct link *except);

/** Send a routed frame (its payload begins with destination and source) on its way. */
void plane_route(struct control *control, uint16_t kind, const void *payload, size_t size);

/** The status and message of the failure, for a caller that was waiting. */
weft_status plane_failure(struct control *control, struct error *error);

/** Wait for `changed` until `deadline` (clock_now()); false when it has passed. */
bool plane_wait(struct control *control, uint64_t deadline);

/** Handle frames of exchanges and logs. False: malformed. `bytes` follow destination and source. */
bool exchange_receive_routed_blob(struct control *control, uint32_t source, struct reader bytes);
bool exchange_receive_table(struct control *control, struct reader bytes);
bool exchange_receive_spread(struct control *control, const struct link *from, struct reader bytes);
bool gather_receive(struct control *control, struct reader bytes);
bool gather_receive_flush(struct control *control, const struct link *from, struct reader bytes);
bool log_receive_ask(struct control *control, uint32_t source, struct reader bytes);
bool log_receive_answer(struct control *control, uint32_t source, struct reader bytes);

/** This rank's current operation, for heartbeats; "" when unknown. Returns `text`. */
char *log_describe(const struct control *control, char *text, size_t size);

/** A member's blob has reached the gathering member. */
bool exchange_receive_blob(struct control *control, uint32_t source, uint64_t key, uint32_t index, uint32_t count,
                           uint32_t size, const uint8_t *blob);

/** Contribute this rank's blob to an exchange among all ranks, through the tree; drop the blobs held for it. */
bool gather_contribute(struct control *control, uint64_t key, uint32_t count, uint32_t size, const void *blob);
void gather_forget(struct control *control, uint64_t key);

/** Ask the subtree to send up the blobs that it holds. */
void gather_flush(struct control *control, uint64_t key);

/** A rank has left: fail the exchanges that need its blob. */
void exchange_note_left(struct control *control, uint32_t rank);

/** Deliver answers to the callbacks of control_ask_log(); called without the lock. */
void log_deliver(struct control *control);

/** Free unfinished exchanges, gathers and queries. */
void exchange_free_all(struct control *control);
void gather_free_all(struct control *control);
void log_free_all(struct control *control);

#endif
