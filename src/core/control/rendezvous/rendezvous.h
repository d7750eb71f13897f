/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rendezvous: ranks that know one address exchange endpoint info. Each joins with its number and a blob (its
 * endpoint info); when all have joined, each gets all blobs and a secret for this round. Participants prove that they
 * hold the job's secret (see stream.h).
 *
 * No process handles messages from all ranks:
 *
 *     - Ranks of a node that know their number on it (local_rank of local_ranks) form a tree: each listens at an
 *       abstract UNIX socket whose name is derived from secret, node and number, and connects to its parent. A rank
 *       that does not find its parent within a few seconds (in a container of its own, say) goes to the server.
 *     - The root of each node's tree, its leader, sends the server the numbers of its ranks (not their endpoint info)
 *       once they have joined or two seconds have passed, and again when more join. So the server can name the missing
 *       ranks. When all have joined, the server sends each leader its parent and children in the tree of leaders.
 *     - Endpoint info then goes up the trees and the table comes down, once over each connection.
 *
 * With n ranks on m nodes the longest chain of dependent messages grows with log n + m: a server that is the only known
 * address must hear from each node, in five messages (three of the handshake, two frames) whose number does not grow
 * with the ranks. Where it is unknown which ranks share a node, each rank counts as a node. A launcher's key-value
 * store needs no server: with rendezvous_gather() the chain grows with log n alone.
 *
 * Connections from other programs are dropped silently. A process with another secret or version is refused and
 * reported, and disturbs nothing. A rank that contradicts the job (its number is out of range or taken, or it expects
 * another number of ranks) fails the round for all, with one message. A rank that leaves before all have joined is
 * removed and may join again, unless others joined through it: they fail with it.
 *
 * Served by the launcher (round after round, so that several programs can run one after another in a job) or by rank 0
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

#define RENDEZVOUS_BLOB_MOST     (64u << 10) /**< largest blob in bytes */
#define RENDEZVOUS_RANKS_MOST    (1u << 20)
#define RENDEZVOUS_CHAIN_MOST    (1u << 30)
#define RENDEZVOUS_ADDRESS_BYTES 64

struct rendezvous_server {
    uint32_t ranks;
    const uint8_t *secret; /**< SECRET_BYTES */
    double limit_seconds;  /**< from the first arrival to the last */
    bool again;            /**< serve round after round, until stopped */
    int stop;              /**< descriptor that becomes readable to stop serving; -1: none */
    const char *(*host_of)(void *context, uint32_t rank); /**< the host on which a rank was started; NULL: unknown */
    void (*report)(void *context, const char *message);   /**< called for refusals and failed rounds; may be NULL */
    void (*complete)(void *context);                      /**< called when all ranks have met; may be NULL */
    /** Called when the job's lowest rank has left members for newcomers, with its bytes; may be NULL. */
    void (*members_left)(void *context, const void *bytes, size_t size);
    const void *members; /**< such bytes from the beginning, `members_size` many */
    size_t members_size;
    void (*overtaken)(void *context, uint32_t rank); /**< called by rendezvous_say_overtaken(); may be NULL */
    void *context;                                   /**< for all five */
    struct stream_counts *counts;                    /**< messages and bytes, filled in at the end; may be NULL */
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
    double limit_seconds;             /**< for all of it, including the wait for the server */
    int stop;                         /**< as above */
    double reach_seconds;             /**< of these, at most, for reaching a server that listens; 0: all of them */
    uint32_t node;                    /**< a number shared by the ranks of a node, and no others */
    uint32_t local_rank, local_ranks; /**< this rank's number on its node, and the ranks of that node; 0, 0: unknown */
};

struct rendezvous_result {
    uint8_t *blobs;                /**< ranks x size, in rank order; malloc'ed, the caller's */
    uint8_t draw[SECRET_BYTES];    /**< the round's random bytes ... */
    uint8_t session[SECRET_BYTES]; /**< ... and its secret: see rendezvous_session() */
    uint32_t chain;                /**< longest chain of dependent messages until this rank had the table */
    struct stream_counts counts;   /**< sent and received by this rank, without its server thread */
};

/** The secret of a round with the random bytes `draw`, in a job with the secret `secret`. */
void rendezvous_session(const uint8_t secret[SECRET_BYTES], const uint8_t draw[SECRET_BYTES],
                        uint8_t session[SECRET_BYTES]);

/** A rank's part in the rendezvous. */
struct rendezvous;

/**
 * Connect to the server, or to the parent on this node; waits until it is there. Errors: RENDEZVOUS, naming the address
 * that was not reached. rendezvous_close() ends it; harmless on NULL.
 */
weft_status rendezvous_open(const struct rendezvous_client *client, struct rendezvous **rendezvous,
                            struct error *error);
void rendezvous_close(struct rendezvous *rendezvous);

/** The numeric address of this host from which the server is reached: ranks that reach the server reach it, too. */
const char *rendezvous_address(const struct rendezvous *rendezvous);

/**
 * Join with a blob of `size` bytes, equal on all ranks. A leader listens for its children at `host` (numeric; NULL:
 * rendezvous_address()) until it has the table. Once. Errors: RENDEZVOUS, TIMEOUT, PEER, with the server's message
 * where it has one.
 */
weft_status rendezvous_join(struct rendezvous *rendezvous, const char *host, const void *blob, uint32_t size,
                            struct rendezvous_result *result, struct error *error);

/**
 * The same without a server, where a key-value store gives each rank its parent's address: ranks form a tree by their
 * numbers, rank 0 at the root. rendezvous_listen() listens at `host` (numeric) if this rank has children;
 * rendezvous_place() is its "address:port" ("" without children). rendezvous_gather() takes the `secret` (SECRET_BYTES,
 * borrowed) and the address of rank tree_place_parent(rank), NULL at the root; otherwise it is like rendezvous_join().
 * In the client, `addresses` names the store, for messages; node and secret are not used.
 */
weft_status rendezvous_listen(const struct rendezvous_client *client, const char *host, struct rendezvous **rendezvous,
                              struct error *error);
const char *rendezvous_place(const struct rendezvous *rendezvous);
weft_status rendezvous_gather(struct rendezvous *rendezvous, const uint8_t *secret, const char *parent,
                              const void *blob, uint32_t size, struct rendezvous_result *result, struct error *error);

/**
 * Where newcomers find a running job: its lowest rank leaves bytes about the members with a server that serves again
 * and again, and newcomers fetch them. The server does not read them. Of the client, addresses, secret and limit count.
 * Errors: RENDEZVOUS, naming the address; TIMEOUT.
 */
weft_status rendezvous_put_members(const struct rendezvous_client *client, const void *bytes, size_t size,
                                   struct error *error);

/**
 * Waits until there are some. *bytes is malloc'ed, the caller's. `here` receives what
 * rendezvous_address() returns. Errors: as above; MEMORY.
 */
weft_status rendezvous_get_members(const struct rendezvous_client *client, char here[RENDEZVOUS_ADDRESS_BYTES],
                                   uint8_t **bytes, size_t *size, struct error *error);

/**
 * A newcomer tells the server that it was turned away for its number (regroup_was_overtaken()): it is to be started again with
 * a larger one. Of the client, the rank counts, too. Errors: as rendezvous_put_members().
 */
weft_status rendezvous_say_overtaken(const struct rendezvous_client *client, struct error *error);

#endif
