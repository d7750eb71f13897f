/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the rendezvous: who has come to a listener, and which ranks they bring. The server of a meeting and every rank
 * that others reach it through hold one. Guests prove that they hold the secret (see stream.h) before anything of
 * theirs is looked at; strangers are dropped in silence. Belongs to one thread.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_COMPANY_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_COMPANY_H

#include "core/control/wire/stream.h"

#include <poll.h>

#define COMPANY_ADDRESS_BYTES  80
#define COMPANY_SENTENCE_BYTES 512
#define COMPANY_NOBODY         0u         /**< brings a rank that has not come */
#define COMPANY_SELF           UINT32_MAX /**< brings this process's own rank */

struct guest {
    struct stream stream;
    uint32_t number;                     /**< of this guest; stays when others go */
    uint64_t deadline;                   /**< for its greeting, then for taking what it is sent */
    size_t answer_left;                  /**< bytes of the answer still to be put into the stream */
    bool near;                           /**< came over a socket of this host alone */
    bool seated;                         /**< has proved itself */
    uint32_t handled;                    /**< messages that the company has counted */
    bool leaving;                        /**< has been told the outcome: the connection ends when all is sent */
    uint32_t first;                      /**< to the server: the lowest rank it brings ... */
    uint32_t brought;                    /**< ... and how many */
    char address[COMPANY_ADDRESS_BYTES]; /**< to the server: where the others find it */
};

/** What the holder makes of its guests; none of these may remove one. */
struct company_rules {
    void (*seat)(void *context, struct guest *guest);                            /**< it has proved itself */
    bool (*take)(void *context, struct guest *guest, const struct frame *frame); /**< false: the frame is no good */
    void (*leave)(void *context, struct guest *guest);                           /**< gone before the outcome */
    void (*refuse)(void *context, const char *message);                          /**< why somebody was turned away */
};

struct company {
    const struct company_rules *rules;
    void *context;
    const uint8_t *secret;
    uint32_t ranks;
    uint32_t frame_most; /**< bytes of a guest's frame, most */
    uint32_t *bringer;   /**< by rank: the number of the guest that brings it */
    uint32_t held;       /**< ranks that somebody brings */
    struct guest *guests;
    uint32_t count, room, last_number;
    struct buffer answer;        /**< for all that leave; kept until the next one */
    struct stream_counts counts; /**< of the guests that are gone */
    uint32_t handled;            /**< messages that have passed, of all guests */
};

/** Borrows rules, context and secret. A guest's frame has for each rank up to `rank_bytes`, and a message.
 * company_close() is harmless on a zeroed struct. */
weft_status company_open(struct company *company, uint32_t ranks, uint32_t rank_bytes, const uint8_t *secret,
                         const struct company_rules *rules, void *context, struct error *error);
void company_close(struct company *company);

/** Take who waits at a listener. When there are too many, who has been greeting for longest without a proof goes. */
void company_accept(struct company *company, int listener, bool near);

/** Fill in what is to be polled for each guest; `polls` has room for company->count. */
void company_poll(const struct company *company, struct pollfd *polls);

/** After poll(): hear and tell the first `count` guests, and end what is over. */
void company_serve(struct company *company, const struct pollfd *polls, uint32_t count);

/** End the connections of all who are not leaving. */
void company_end_others(struct company *company);

/** The earliest deadline of a guest, or `latest`. */
uint64_t company_deadline(const struct company *company, uint64_t latest);

/** The guest with this number, or NULL. */
struct guest *company_guest(const struct company *company, uint32_t number);

/** Whether the guest believes in the same job; else the message that says why not. */
bool company_check(const struct company *company, const struct guest *guest, char message[COMPANY_SENTENCE_BYTES]);

/** Frames that bring so many bytes for each rank are no longer than this. */
uint32_t company_frame_most(uint32_t ranks, uint32_t rank_bytes);

/** A guest brings a rank; false with the message if somebody else brings it, too. */
bool company_bring(struct company *company, const struct guest *guest, uint32_t rank,
                   char message[COMPANY_SENTENCE_BYTES]);
void company_withdraw(struct company *company, uint32_t rank);

/** Everybody who is seated leaves with what is in its stream, then with the answer, if `answered`. */
void company_dismiss(struct company *company, bool answered);

/** Put a failure into the streams of all who are seated, then dismiss them. */
void company_fail(struct company *company, weft_status status, const char *message);

/** Messages that have passed, of those who are gone and of those who are here. */
struct stream_counts company_counts(const struct company *company);
void company_count(struct stream_counts *sum, const struct stream_counts *more);

#endif
