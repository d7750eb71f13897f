/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inside the rendezvous: a rank's visit. core/control/rendezvous/find.c finds the way up, core/control/rendezvous/join.c goes it. Not for other
 * modules.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_VISIT_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_VISIT_H

#include "core/control/rendezvous/internal/joiners.h"
#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/tree.h"

/** Whom a rank goes to. */
enum above {
    ABOVE_SERVER, /**< it leads its node, or is alone in it */
    ABOVE_NEAR,   /**< a rank of the same node */
    ABOVE_PARENT, /**< its place is known: another leader */
    ABOVE_NOBODY, /**< its place is known: it is the root */
};

struct rendezvous {
    struct rendezvous_client client;
    struct joiners joiners; /**< those below */
    int near, far;          /**< listeners for ranks of this node and for leaders; -1: none */
    enum above above;
    struct stream up;
    char address[ADDRESS_TEXT_BYTES]; /**< this host's, as others reach it */
    uint64_t deadline;

    bool placed;                      /**< all have come, and it is known who is above and below */
    char here[JOINERS_ADDRESS_BYTES]; /**< where `far` listens */
    char parent[ADDRESS_TEXT_BYTES];  /**< where the parent listens, when placed */
    uint32_t child[TREE_ARITY];       /**< leaders below, when placed; TREE_NONE: none */
    char child_host[TREE_ARITY][STREAM_HOST_BYTES];

    uint32_t size;      /**< bytes of a endpoint info */
    uint8_t *endpoints; /**< in rank order, those that are held */
    bool *passed;       /**< by rank: has been told to who is above */
    uint32_t passed_count;
    uint32_t expected; /**< ranks at and below this one */
    uint64_t hold;     /**< until then those who are there wait for the others of this node */
    bool late;         /**< it has complained that somebody below has not come */
    bool over;         /**< there is a table, or a failure */
    weft_status status;
    struct error error;
    weft_status complaint; /**< what the server or the root shall fail the round with, as long as it is not sent */
    char complaint_text[ERROR_TEXT_BYTES];
    struct rendezvous_result *result;

    uint32_t chain;              /**< the longest that was told, above what was handled here */
    struct stream_counts counts; /**< of the connections upwards that are over */
};

double rendezvous_seconds_until(uint64_t deadline);

/** Listen for those who are told where: `here`. */
weft_status rendezvous_listen_far(struct rendezvous *rendezvous, const char *host, struct error *error);

/** Connect to the server, again and again until somebody is there; `up` is begun. */
weft_status rendezvous_find_server(struct rendezvous *rendezvous, struct error *error);

/** Connect to the parent whose place is known; `up` is begun. */
weft_status rendezvous_find_parent(struct rendezvous *rendezvous, struct error *error);

/** The way up was closed during the greeting: find it again. */
weft_status rendezvous_find_again(struct rendezvous *rendezvous, struct error *error);

/** What a FAILURE says. */
weft_status rendezvous_read_failure(const struct frame *frame, struct error *error);

#endif
