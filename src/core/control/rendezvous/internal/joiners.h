/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the rendezvous: the processes that have joined at a listener, and the ranks that they bring. The server and
 * every rank with children have such a list. Joiners are authenticated (see stream.h) before anything they send is
 * used; other connections are dropped silently. Belongs to one thread.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_JOINERS_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_JOINERS_H

#include "core/control/wire/stream.h"

#include <poll.h>

#define JOINERS_ADDRESS_BYTES 80
#define JOINERS_MESSAGE_BYTES 512
#define JOINERS_NOBODY        0u         /**< brings a rank that has not come */
#define JOINERS_SELF          UINT32_MAX /**< brings this process's own rank */

struct joiner {
    struct stream stream;
    uint32_t number;                     /**< identifies this joiner; unchanged when others leave */
    uint64_t deadline;                   /**< for its handshake, then for receiving what it is sent */
    size_t answer_left;                  /**< bytes of the answer not yet in the stream */
    bool local;                          /**< connected over a UNIX socket of this host */
    bool authenticated;                  /**< it holds the secret */
    bool visits;                         /**< for the server: it does not join, and the outcome is not for it */
    bool waits;                          /**< for the server: a visitor that waits for the members */
    uint32_t handled;                    /**< messages counted so far */
    bool leaving;                        /**< the outcome is queued: the connection ends when all is sent */
    uint32_t first;                      /**< for the server: the lowest rank it brings ... */
    uint32_t brought;                    /**< ... and their count */
    char address[JOINERS_ADDRESS_BYTES]; /**< for the server: the address at which others connect to it */
};

/** Callbacks of the holder; none may remove a joiner. */
struct joiners_rules {
    void (*authenticated)(void *context, struct joiner *joiner);                   /**< it is authenticated */
    bool (*take)(void *context, struct joiner *joiner, const struct frame *frame); /**< false: the frame is malformed */
    void (*leave)(void *context, struct joiner *joiner);                           /**< it left before the outcome */
    void (*refuse)(void *context, const char *message); /**< a connection was refused; may be NULL */
};

struct joiners {
    const struct joiners_rules *rules;
    void *context;
    const uint8_t *secret;
    uint32_t ranks;
    uint32_t frame_most; /**< largest frame of a joiner */
    uint32_t *bringer;   /**< by rank: the number of the joiner that brings it */
    uint32_t held;       /**< ranks that have a bringer */
    struct joiner *joined;
    uint32_t count, last_number;
    size_t room;
    struct buffer answer;        /**< for all joiners that leave; kept until the next answer */
    struct stream_counts counts; /**< of joiners that have left */
    uint32_t handled;            /**< messages handled, of all joiners */
};

/**
 * Borrows rules, context and secret. A joiner's frame holds up to `rank_bytes` for each rank, and a message.
 * joiners_close() is harmless on a zeroed struct.
 */
weft_status joiners_open(struct joiners *joiners, uint32_t ranks, uint32_t rank_bytes, const uint8_t *secret,
                         const struct joiners_rules *rules, void *context, struct error *error);
void joiners_close(struct joiners *joiners);

/**
 * Accept pending connections of a listener. When there are too many, the unauthenticated one that has waited longest is
 * dropped.
 */
void joiners_accept(struct joiners *joiners, int listener, bool local);

/** Fill in the poll entry of each joiner; `polls` has room for joiners->count. */
void joiners_poll(const struct joiners *joiners, struct pollfd *polls);

/** After poll(): read from and write to the first `count` joiners, and drop those that have ended. */
void joiners_serve(struct joiners *joiners, const struct pollfd *polls, uint32_t count);

/** End the connections of all that are not leaving. */
void joiners_end_others(struct joiners *joiners);

/** The earliest deadline of a joiner, or `latest`. */
uint64_t joiners_deadline(const struct joiners *joiners, uint64_t latest);

/** Whether the joiner's view of the job agrees; otherwise `message` says what differs. */
bool joiners_check(const struct joiners *joiners, const struct joiner *joiner, char message[JOINERS_MESSAGE_BYTES]);

/** The largest frame with `rank_bytes` bytes for each of `ranks` ranks. */
uint32_t joiners_frame_most(uint32_t ranks, uint32_t rank_bytes);

/** A joiner brings a rank; false with a message if another joiner brings it, too. */
bool joiners_bring(struct joiners *joiners, const struct joiner *joiner, uint32_t rank,
                   char message[JOINERS_MESSAGE_BYTES]);
void joiners_withdraw(struct joiners *joiners, uint32_t rank);

/** Close all authenticated connections after sending their queued frames and, if `answered`, the answer. */
void joiners_dismiss(struct joiners *joiners, bool answered);

/** Queue a failure to all authenticated joiners, then dismiss them. */
void joiners_fail(struct joiners *joiners, weft_status status, const char *message);

/** Messages of all joiners, including those that have left. */
struct stream_counts joiners_counts(const struct joiners *joiners);
void joiners_count(struct stream_counts *sum, const struct stream_counts *more);

#endif
