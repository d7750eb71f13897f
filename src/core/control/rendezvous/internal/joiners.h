/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the rendezvous: who has come to a listener, and which ranks they bring. The server of a rendezvous and every rank
 * that others reach it through hold one. Joining ranks prove that they hold the secret (see stream.h) before anything of
 * theirs is looked at; strangers are dropped in silence. Belongs to one thread.
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
    uint32_t number;                     /**< of this joiner; stays when others go */
    uint64_t deadline;                   /**< for its greeting, then for taking what it is sent */
    size_t answer_left;                  /**< bytes of the answer still to be put into the stream */
    bool local;                          /**< came over a socket of this host alone */
    bool authenticated;                  /**< has proved that it holds the secret */
    uint32_t handled;                    /**< messages that the joiners has counted */
    bool leaving;                        /**< has been told the outcome: the connection ends when all is sent */
    uint32_t first;                      /**< to the server: the lowest rank it brings ... */
    uint32_t brought;                    /**< ... and how many */
    char address[JOINERS_ADDRESS_BYTES]; /**< to the server: where the others find it */
};

/** What the holder makes of its joined; none of these may remove one. */
struct joiners_rules {
    void (*seat)(void *context, struct joiner *joiner);                            /**< it has proved itself */
    bool (*take)(void *context, struct joiner *joiner, const struct frame *frame); /**< false: the frame is no good */
    void (*leave)(void *context, struct joiner *joiner);                           /**< gone before the outcome */
    void (*refuse)(void *context, const char *message);                            /**< why somebody was turned away */
};

struct joiners {
    const struct joiners_rules *rules;
    void *context;
    const uint8_t *secret;
    uint32_t ranks;
    uint32_t frame_most; /**< bytes of a joiner's frame, most */
    uint32_t *bringer;   /**< by rank: the number of the joiner that brings it */
    uint32_t held;       /**< ranks that somebody brings */
    struct joiner *joined;
    uint32_t count, room, last_number;
    struct buffer answer;        /**< for all that leave; kept until the next one */
    struct stream_counts counts; /**< of the joined that are gone */
    uint32_t handled;            /**< messages that have passed, of all joined */
};

/** Borrows rules, context and secret. A joiner's frame has for each rank up to `rank_bytes`, and a message.
 * joiners_close() is harmless on a zeroed struct. */
weft_status joiners_open(struct joiners *joiners, uint32_t ranks, uint32_t rank_bytes, const uint8_t *secret,
                         const struct joiners_rules *rules, void *context, struct error *error);
void joiners_close(struct joiners *joiners);

/** Take who waits at a listener. When there are too many, who has been greeting for longest without a proof goes. */
void joiners_accept(struct joiners *joiners, int listener, bool local);

/** Fill in what is to be polled for each joiner; `polls` has room for joiners->count. */
void joiners_poll(const struct joiners *joiners, struct pollfd *polls);

/** After poll(): hear and tell the first `count` joined, and end what is over. */
void joiners_serve(struct joiners *joiners, const struct pollfd *polls, uint32_t count);

/** End the connections of all who are not leaving. */
void joiners_end_others(struct joiners *joiners);

/** The earliest deadline of a joiner, or `latest`. */
uint64_t joiners_deadline(const struct joiners *joiners, uint64_t latest);

/** Whether the joiner believes in the same job; else the message that says why not. */
bool joiners_check(const struct joiners *joiners, const struct joiner *joiner, char message[JOINERS_MESSAGE_BYTES]);

/** Frames that bring so many bytes for each rank are no longer than this. */
uint32_t joiners_frame_most(uint32_t ranks, uint32_t rank_bytes);

/** A joiner brings a rank; false with the message if somebody else brings it, too. */
bool joiners_bring(struct joiners *joiners, const struct joiner *joiner, uint32_t rank,
                   char message[JOINERS_MESSAGE_BYTES]);
void joiners_withdraw(struct joiners *joiners, uint32_t rank);

/** Close all authenticated connections after sending their queued frames and, if `answered`, the answer. */
void joiners_dismiss(struct joiners *joiners, bool answered);

/** Queue a failure to all authenticated joiners, then dismiss them. */
void joiners_fail(struct joiners *joiners, weft_status status, const char *message);

/** Messages that have passed, of those who are gone and of those who are here. */
struct stream_counts joiners_counts(const struct joiners *joiners);
void joiners_count(struct stream_counts *sum, const struct stream_counts *more);

#endif
