/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rendezvous: how ranks that know one address come to know one another. Each comes with its number and a blob (its
 * endpoint info); when all have come, each gets all blobs and a secret of this round's own. All who take part prove that they
 * hold the job's secret (see stream.h).
 *
 * Nobody hears from everybody:
 *
 *     - Ranks of a node that know their places in it (local_rank of local_ranks) stand in a tree: each listens at an
 *       abstract UNIX socket whose name follows from secret, node and place, and each comes to the one above it. Who
 *       finds nobody there within a few seconds (a container of its own, say) goes to the server itself.
 *     - Who stands at the top of its node, a leader, comes to the server with the numbers of its ranks, not with their
 *       endpoint infos, once they are there or two seconds have passed (then again when more come: so the server knows who is
 *       missing). When all have come, the server tells each leader its place: who is above it and below it in the tree
 *       of leaders.
 *     - Endpoint infos then go up the trees and the table of all of them comes down, once over each connection.
 *
 * With n ranks on m nodes the longest chain of messages that wait for one another grows with log n + m: a server that
 * is all that anybody knows has to be told of each node, by five messages (three of the greeting, two frames) that do
 * not grow with the ranks. Where nobody tells which ranks share a node, each rank counts as a node. A launcher's
 * key-value store needs no server: with rendezvous_gather() the chain grows with log n alone.
 *
 * Strangers are dropped in silence. A process with another secret or version is refused and reported, and disturbs
 * nothing. A rank that contradicts the job (its number is out of range or taken, or it believes in another number of
 * ranks) fails the round for all, in one message. A rank that leaves before all have come is forgotten, and may come
 * again, unless others came through it: these fail with it.
 *
 * Served by the launcher (round after round, so that several programs can follow each other in one job) or by rank 0
 * (one round, in a thread). Different rendezvous may run in different threads.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_RENDEZVOUS_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_RENDEZVOUS_H

#include "base/error.h"
#include "core/control/wire/secret.h"
#include "core/control/wire/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_BLOB_MOST  (64u << 10) /**< bytes of a blob, most */
#define RENDEZVOUS_RANKS_MOST (1u << 20)
#define RENDEZVOUS_CHAIN_MOST (1u << 30)

struct rendezvous_server {
    uint32_t ranks;
    const uint8_t *secret; /**< SECRET_BYTES */
    double limit_seconds;  /**< from the first arrival to the last */
    bool again;            /**< serve another round after each, until stopped */
    int stop;              /**< descriptor that becomes readable when serving shall end; -1: none */
    const char *(*host_of)(void *context, uint32_t rank); /**< where a rank was started; NULL: nobody knows */
    void (*report)(void *context, const char *message);   /**< told of refusals and failed rounds; may be NULL */
    void *context;                                        /**< for both */
    struct stream_counts *counts;                         /**< what it took, filled in at the end; may be NULL */
};

/**
 * Serve at the listener `listener` (see address_listen(); the caller closes it). Returns WEFT_OK when the round is
 * complete (or when stopped), else the error that the ranks got: TIMEOUT naming the ranks that have not come,
 * RENDEZVOUS for a contradiction.
 */
weft_status rendezvous_serve(int listener, const struct rendezvous_server *server, struct error *error);

struct rendezvous_client {
    const char *addresses; /**< "host:port", or several alternatives separated by commas; borrowed */
    uint32_t rank, ranks;
    const uint8_t *secret;            /**< SECRET_BYTES, borrowed */
    double limit_seconds;             /**< for all of it; the server is waited for if it is not there yet */
    int stop;                         /**< as above */
    uint32_t node;                    /**< a number that the ranks of a node have in common, and no others */
    uint32_t local_rank, local_ranks; /**< this rank's place among them, and how many they are; 0, 0: unknown */
};

struct rendezvous_result {
    uint8_t *blobs;                /**< ranks x size, in rank order; malloc'ed, the caller's */
    uint8_t session[SECRET_BYTES]; /**< the round's secret */
    uint32_t chain;                /**< messages that were handled one after the other until this rank had the table */
    struct stream_counts counts;   /**< what this rank sent and received, its server's thread not included */
};

/** A rank's visit to the rendezvous. */
struct rendezvous;

/**
 * Find the server, or the rank of this node to go through; waits for it to be there. Errors: RENDEZVOUS, with who was
 * not found. rendezvous_close() ends it; harmless on NULL.
 */
weft_status rendezvous_open(const struct rendezvous_client *client, struct rendezvous **rendezvous,
                            struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/** The address (digits) of this host from which the server is reached: others who reach the server reach it, too. */
const char *rendezvous_address(const struct rendezvous *rendezvous);

/**
 * Come with a blob of `size` bytes, equal on all ranks. A leader listens for those below it at `host` (digits; NULL:
 * rendezvous_address()) until it has the table. Once. Errors: RENDEZVOUS, TIMEOUT, PEER, with the server's message
 * where it has one.
 */
weft_status rendezvous_join(struct rendezvous *rendezvous, const char *host, const void *blob, uint32_t size,
                            struct rendezvous_result *result, struct error *error);

/**
 * The same without a server, where something else tells each rank where the one above it listens: ranks stand in a tree
 * by their numbers, rank 0 at the root. rendezvous_listen() listens at `host` (digits) if there are ranks below this
 * one; rendezvous_place() is where ("address:port"; "": nobody is below). rendezvous_gather() then takes the `secret`
 * (SECRET_BYTES, borrowed) and the place of rank tree_place_parent(rank), NULL at the root; otherwise as
 * rendezvous_join(). Of the client, addresses is who told, for messages; the node, and a secret, are not needed.
 */
weft_status rendezvous_listen(const struct rendezvous_client *client, const char *host, struct rendezvous **rendezvous,
                              struct error *error);
const char *rendezvous_place(const struct rendezvous *rendezvous);
weft_status rendezvous_gather(struct rendezvous *rendezvous, const uint8_t *secret, const char *parent,
                              const void *blob, uint32_t size, struct rendezvous_result *result, struct error *error);

#endif
