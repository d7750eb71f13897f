/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A rank's side of the rendezvous: connect.c connects to its parent, join.c passes endpoint info up and the table down.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_CLIENT_STATE_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_INTERNAL_CLIENT_STATE_H

#include "core/control/rendezvous/internal/joiners.h"
#include "core/control/rendezvous/rendezvous.h"
#include "core/control/wire/address.h"
#include "core/control/wire/tree.h"

/** The other end of a rank's upward connection. */
enum rendezvous_parent {
    PARENT_SERVER, /**< it leads its node, or is alone on it */
    PARENT_LOCAL,  /**< a rank of the same node */
    PARENT_LEADER, /**< its place in the tree is known: another leader */
    PARENT_NONE,   /**< its place in the tree is known: it is the root */
};

struct rendezvous {
    struct rendezvous_client client;
    struct joiners joiners; /**< those below */
    int local, far;         /**< listeners for ranks of this node and for leaders; -1: none */
    enum rendezvous_parent above;
    struct stream up;
    char address[ADDRESS_TEXT_BYTES]; /**< this host's, as others reach it */
    uint64_t deadline;

    bool placed;                      /**< all ranks have joined, and parent and children are known */
    char here[JOINERS_ADDRESS_BYTES]; /**< where `far` listens */
    char parent[ADDRESS_TEXT_BYTES];  /**< where the parent listens, when placed */
    uint32_t child[TREE_ARITY];       /**< leaders below, when placed; TREE_NONE: none */
    char child_host[TREE_ARITY][STREAM_HOST_BYTES];

    uint32_t size;      /**< bytes of an endpoint info */
    uint8_t *endpoints; /**< in rank order, those that are held */
    bool *passed;       /**< by rank: has been sent to the parent */
    uint32_t passed_count;
    uint32_t expected; /**< ranks at and below this one */
    uint64_t hold;     /**< time until which this node's ranks wait for each other */
    bool late;         /**< has reported missing ranks below */
    bool over;         /**< there is a table, or a failure */
    weft_status status;
    struct error error;
    weft_status complaint; /**< failure to report to the server or root; WEFT_OK once sent */
    char complaint_text[ERROR_TEXT_BYTES];
    struct rendezvous_result *result;

    uint32_t chain;              /**< longest chain reported so far, above the messages handled here */
    struct stream_counts counts; /**< of upward connections that have ended */
};

/** Listen on `host` for ranks below this one, and write the address to `here`. */
weft_status rendezvous_listen_far(struct rendezvous *rendezvous, const char *host, struct error *error);

/** Connect to the parent at its known address; `up` is begun. */
weft_status rendezvous_find_parent(struct rendezvous *rendezvous, struct error *error);

/** The upward connection closed during authentication: connect again. */
weft_status rendezvous_find_again(struct rendezvous *rendezvous, struct error *error);

/** Parse a FAILURE frame into `error`; returns its status. */
weft_status rendezvous_read_failure(const struct frame *frame, struct error *error);

#endif
