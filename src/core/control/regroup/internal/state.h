/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What regroup.c (who leads, who is missing, the table) and core/control/regroup/connection.c (connections and frames) share. Everything
 * is guarded by one lock, which no function called with it holds while it waits. Not for other modules.
 */
#ifndef WEFT_CORE_CONTROL_REGROUP_INTERNAL_STATE_H
#define WEFT_CORE_CONTROL_REGROUP_INTERNAL_STATE_H

#include "core/control/regroup/regroup.h"
#include "core/control/wire/stream.h"

#include <pthread.h>

#define REGROUP_NOBODY UINT32_MAX

enum regroup_frame {
    REGROUP_ALIVE = 1, /**< epoch (4), flags (4): at once, then every REGROUP_TICK */
    REGROUP_JOIN,      /**< epoch (4), endpoint info: I follow you */
    REGROUP_PROBE,     /**< I lead: join me */
    REGROUP_FOLLOW,    /**< rank (4): I do not lead, that one does */
    REGROUP_TABLE,     /**< see regroup_adopt() */
    REGROUP_LEFT_OUT,  /**< message (text): the others go on without you */
};

enum { REGROUP_WILLING = 1, REGROUP_QUIET = 2 };

/** How a rank stands to this rendezvous. */
enum regroup_peer_state {
    REGROUP_PEER_UNKNOWN,
    REGROUP_PEER_DEAD,  /**< its process has ended */
    REGROUP_PEER_STUCK, /**< its host answers, it does not */
    REGROUP_PEER_CUT,   /**< nothing answers: it may live beyond a broken network */
    REGROUP_PEER_LATE,  /**< it lives but has not come in time */
};

/** A connection to another rank. Either end may have made it. */
struct regroup_connection {
    struct regroup_connection *next;
    struct stream stream;
    uint32_t rank; /**< of the other end; REGROUP_NOBODY until it has proved itself */
    bool connecting, open, ended;
    bool joined;  /**< we have told it that we follow */
    bool probed;  /**< we have told it that we lead */
    bool told;    /**< it knows the table, or that it has been left out */
    bool willing; /**< it is in the rendezvous */
    bool quiet;
    uint64_t began, heard, said; /**< clock_now() */
};

/** What is known of another rank. */
struct regroup_peer {
    bool member; /**< of the present epoch */
    enum regroup_peer_state state;
    uint32_t
        joined; /**< epoch + 1 in which it has come to follow us, with its endpoint info; see regroup_peer_has_joined() */
    struct endpoint_info endpoint;
};

struct regroup {
    uint32_t rank, ranks;
    struct endpoint_info *endpoints; /**< of the first epoch */
    uint8_t secret[SECRET_BYTES];
    int listener, epoll, wake;
    pthread_mutex_t lock;

    uint32_t epoch;
    struct buffer table; /**< that began it; empty in the first */
    struct regroup_peer *peers;
    struct regroup_connection *connections;
    bool quiet;

    /* A rendezvous. */
    bool bootstrap, decided;
    struct endpoint_info endpoint;
    struct regroup_wait wait;
    uint64_t began, led_since; /**< clock_now(); 0: does not lead */
    uint32_t bound;            /**< whom this rank follows, or REGROUP_NOBODY */
    struct error outcome;
};

/** Whether it follows this rank from the present epoch into the next. */
static inline bool regroup_peer_has_joined(const struct regroup *regroup, uint32_t rank)
{
    return regroup->peers[rank].joined == regroup->epoch + 1;
}

/** Begin to call `rank`; a failure is noted in its state. */
void regroup_connection_call(struct regroup *regroup, uint32_t rank);

/** Take calls that have come. */
void regroup_connection_accept_all(struct regroup *regroup);

/** Go on with a connection: connect, greet, read, handle, write, judge silence. */
void regroup_connection_advance(struct regroup *regroup, struct regroup_connection *connection, uint64_t now);

/** Close and forget ended connections (or all of them). */
void regroup_connection_sweep(struct regroup *regroup, bool all);

/** Queue a frame and send what can be sent. */
void regroup_connection_send(struct regroup_connection *connection, enum regroup_frame kind, const void *payload,
                             size_t size);

/** The connection to `rank` that is open; else one that is on its way; or NULL. */
struct regroup_connection *regroup_connection_to(struct regroup *regroup, uint32_t rank);

/* What frames mean, for core/control/regroup/connection.c. */

/** This rank leads nobody any more and follows `leader`, unless that one is known to be gone. */
void regroup_follow(struct regroup *regroup, uint32_t leader);

/** Take over a table; false if it is not well formed. Without effect if it is of no later epoch, or without us. */
bool regroup_adopt(struct regroup *regroup, const uint8_t *bytes, size_t size);

/** The rendezvous has come to an end for this rank. */
void regroup_decide(struct regroup *regroup, weft_status status, const char *message);

#endif
