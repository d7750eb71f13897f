/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rendezvous: one process serves at an address that all ranks know; each rank comes with its number and a blob (its
 * card); when all have come, each gets all blobs and a number drawn for this round, from which the round's own secret
 * is derived. Both ends prove that they hold the job's secret (see stream.h).
 *
 * Strangers are dropped in silence. A process with another secret or version is refused and reported, and disturbs
 * nothing. A rank that contradicts the job (its number is out of range or taken, or it believes in another number of
 * ranks) fails the round for all, in one sentence. A rank that leaves before all have come is forgotten, and may come
 * again.
 *
 * Served by the launcher (round after round, so that several programs can follow each other in one job) or by rank 0
 * (one round, in a thread). Different rendezvous may run in different threads.
 */
#ifndef WEFT_CONTROL_RENDEZVOUS_H
#define WEFT_CONTROL_RENDEZVOUS_H

#include "base/error.h"
#include "control/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_BLOB_MOST  (64u << 10) /**< bytes of a blob, most */
#define RENDEZVOUS_RANKS_MOST (1u << 20)

struct rendezvous_server {
    uint32_t ranks;
    const uint8_t *secret; /**< SECRET_BYTES */
    double limit_seconds;  /**< from the first arrival to the last */
    bool again;            /**< serve another round after each, until stopped */
    int stop;              /**< descriptor that becomes readable when serving shall end; -1: none */
    const char *(*host_of)(void *context, uint32_t rank); /**< where a rank was started; NULL: nobody knows */
    void (*report)(void *context, const char *sentence);  /**< told of refusals and failed rounds; may be NULL */
    void *context;                                        /**< for both */
};

/**
 * Serve at the listener `listener` (see address_listen(); the caller closes it). Returns WEFT_OK when the round is
 * complete (or when stopped), else the error that the ranks got: TIMEOUT naming the ranks that have not come,
 * RENDEZVOUS for a contradiction.
 */
weft_status rendezvous_serve(int listener, const struct rendezvous_server *server, struct error *error);

struct rendezvous_client {
    const char *addresses; /**< "host:port", or several with commas between, of which any will do */
    uint32_t rank, ranks;
    const uint8_t *secret; /**< SECRET_BYTES */
    double limit_seconds;  /**< for all of it; the server is waited for if it is not there yet */
    int stop;              /**< as above */
};

struct rendezvous_result {
    uint8_t *blobs;                /**< ranks x size, in rank order; malloc'ed, the caller's */
    uint8_t session[SECRET_BYTES]; /**< the round's secret */
};

/**
 * Find the address (digits) of this host from which the server is reached: others who reach the server reach it, too.
 * Waits for the server to be there. Errors: RENDEZVOUS.
 */
weft_status rendezvous_find_local(const struct rendezvous_client *client, char *address, size_t room,
                                  struct error *error);

/** Come with a blob of `size` bytes, equal on all ranks. Errors: RENDEZVOUS, TIMEOUT, with the server's sentence where
 * it has one. */
weft_status rendezvous_join(const struct rendezvous_client *client, const void *blob, uint32_t size,
                            struct rendezvous_result *result, struct error *error);

#endif
