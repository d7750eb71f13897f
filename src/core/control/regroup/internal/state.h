/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by regroup.c (leader, missing ranks, the table) and connection.c (connections and frames). One lock guards
 * everything; no function called with it held blocks.
 */
#ifndef WEFT_CORE_CONTROL_REGROUP_INTERNAL_STATE_H
#define WEFT_CORE_CONTROL_REGROUP_INTERNAL_STATE_H

#include "core/control/regroup/regroup.h"
#include "core/control/wire/stream.h"

#include <pthread.h>

#define REGROUP_NONE       UINT32_MAX
#define REGROUP_RANKS_MOST (1u << 21) /**< of a job, newcomers included */

enum regroup_frame {
    REGROUP_ALIVE = 1, /**< epoch (4), flags (4): at once, then every REGROUP_TICK */
    REGROUP_JOIN,      /**< epoch (4), endpoint info: I join you */
    REGROUP_PROBE,     /**< I lead: join me */
    REGROUP_FOLLOW,    /**< rank (4): I do not lead, that one does */
    REGROUP_TABLE,     /**< see regroup_adopt() */
    REGROUP_LEFT_OUT,  /**< message (text): the others continue without you */
    REGROUP_NEWCOMER,  /**< endpoint info twice (where to find me; in the next epoch): I wait to be a member */
    REGROUP_OVERTAKEN, /**< you come too late: a newcomer that was started after you is a member */
    REGROUP_RELEASE,   /**< from the launcher: ranks (4 each) that are to leave; the answer, without ranks: noted */
};

enum { REGROUP_WILLING = 1, REGROUP_QUIET = 2, REGROUP_NEW = 4 };

/** A rank's state in this agreement. */
enum regroup_peer_state {
    REGROUP_PEER_UNKNOWN,
    REGROUP_PEER_DEAD,  /**< its process has ended */
    REGROUP_PEER_STUCK, /**< its host answers, the process does not */
    REGROUP_PEER_CUT,   /**< nothing answers: possibly alive beyond a network partition */
    REGROUP_PEER_LATE,  /**< alive, but has not joined in time */
};

/** A connection to another rank, made by either end. */
struct regroup_connection {
    struct regroup_connection *next;
    struct stream stream;
    uint32_t rank; /**< the peer's; REGROUP_NONE until it is authenticated, and for the launcher */
    bool connecting, open, ended;
    bool joined;  /**< JOIN was sent */
    bool probed;  /**< PROBE was sent */
    bool told;    /**< TABLE or LEFT_OUT was sent */
    bool willing; /**< it takes part in the agreement */
    bool quiet;
    uint64_t began, heard, said; /**< clock_now() */
};

/** Another rank's state. */
struct regroup_peer {
    bool member;  /**< in the current epoch */
    bool waiting; /**< a newcomer that follows this rank, with its endpoint info */
    bool leaving; /**< this rank was asked to release it */
    enum regroup_peer_state state;
    uint32_t
        joined; /**< epoch + 1 in which it joined this rank, with its endpoint info; see regroup_peer_has_joined() */
    struct endpoint_info endpoint;
};

struct regroup {
    uint32_t rank;
    uint32_t ranks;                  /**< above all ranks that have been heard of */
    bool is_new;                     /**< a newcomer that is not a member yet ... */
    bool overtaken;                  /**< a member has turned it away with OVERTAKEN */
    uint64_t lost_since;             /**< ... and since when it reaches no member; 0: it does */
    uint64_t looked_lower;           /**< ... and when it last called members below the one that it follows */
    struct endpoint_info *endpoints; /**< with the listeners that stay open: the first epoch's, or a newcomer's own */
    uint8_t secret[SECRET_BYTES];
    int listener, epoll, wake;
    pthread_mutex_t lock;

    uint32_t epoch;
    struct buffer table; /**< the table that began it; empty in the first */
    uint64_t looked;     /**< clock_now() of the last regroup_progress() */
    struct regroup_peer *peers;
    struct regroup_connection *connections;
    bool quiet;

    /* The agreement in progress. */
    bool agreeing, decided;
    struct endpoint_info endpoint;
    struct regroup_wait wait;
    uint64_t began, led_since; /**< clock_now(); 0: not leading */
    uint32_t bound;            /**< the rank that this rank follows, or REGROUP_NONE */
    struct error outcome;
};

/** Whether it joined this rank for the next epoch. */
static inline bool regroup_peer_has_joined(const struct regroup *regroup, uint32_t rank)
{
    return regroup->peers[rank].joined == regroup->epoch + 1;
}

/** Make room for ranks below `ranks`; false: they are too many, or there is no memory. */
bool regroup_make_room(struct regroup *regroup, uint32_t ranks);

/** Begin to connect to `rank`; a failure is noted in its state. */
void regroup_connection_begin(struct regroup *regroup, uint32_t rank);

/** Accept pending connections. */
void regroup_connection_accept_all(struct regroup *regroup);

/** Advance a connection: connect, authenticate, read, handle, write, detect silence. */
void regroup_connection_advance(struct regroup *regroup, struct regroup_connection *connection, uint64_t now);

/** Close and free ended connections (or all of them). */
void regroup_connection_sweep(struct regroup *regroup, bool all);

/** Queue a frame and send what can be sent. */
void regroup_connection_send(struct regroup_connection *connection, enum regroup_frame kind, const void *payload,
                             size_t size);

/** The open connection to `rank`, else one being established, or NULL. */
struct regroup_connection *regroup_connection_to(struct regroup *regroup, uint32_t rank);

/* Actions on frames, for connection.c. */

/** Stop leading and follow `leader`, unless that rank is known to be gone. */
void regroup_follow(struct regroup *regroup, uint32_t leader);

/** Adopt a table; false if it is malformed. No effect unless it is of a later epoch and includes this rank. */
bool regroup_adopt(struct regroup *regroup, const uint8_t *bytes, size_t size);

/** The agreement has ended for this rank. */
void regroup_decide(struct regroup *regroup, weft_status status, const char *message);

#endif
