/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A communicator: ranks in an order, with a lifetime, an order of operations, schedules and control lines of its own.
 *
 * Which ranks are local to one another follows from the ranks' endpoint info: ranks with the same machine identity
 * mapped each other's heaps when the context was opened. Everything here that changes is touched only by the holder of
 * the context's progress lock (progress.h). Communicators are made and freed while no other call is in progress
 * (weft.h).
 *
 * Making one is an operation of the parent: split and duplicate are all-gathers, a subset is messages along a tree of
 * its ranks. So it has the ordering, limits and diagnosis of every operation. Releasing is local: memory that local
 * ranks may still read (control lines, staging) stays in context.released until each of them has counted itself in
 * shared_block.released.
 */
#ifndef WEFT_CORE_COLLECTIVE_COMMUNICATOR_COMM_H
#define WEFT_CORE_COLLECTIVE_COMMUNICATOR_COMM_H

#include "core/collective/internal/loaded_schedules.h"
#include "core/collective/internal/schedule_cache.h"
#include "core/collective/internal/shared_lines.h"
#include "core/collective/internal/staging.h"
#include "core/schedule/format/shape.h"

#include <stdbool.h>
#include <stdint.h>

#define COMM_NAME_BYTES 48

/** The id of the world. */
#define COMM_WORLD 1u

/** Single messages (send, receive), those of collectives, and those of weft_comm_subset() match separately. */
#define COMM_MESSAGES 0x80000000u
#define COMM_SUBSETS  0x40000000u
#define COMM_IDS      0x3fffffffu /**< the remaining bits: the id itself */

/** The number of subsets made so far by the ranks whose hash is `members`. */
struct comm_subset {
    uint64_t members, made;
};

struct weft_comm {
    weft_context *context;
    char name[COMM_NAME_BYTES]; /**< for people: "world", "communicator 3" */
    bool retired;               /**< from before a failure */
    uint32_t id;                /**< equal on its ranks; no two communicators that share two ranks have the same */
    uint32_t rank, size;
    uint32_t *world; /**< world[r]: the world rank of rank r */

    /* Nodes. */
    uint32_t *nodes; /**< nodes[r]: the node of rank r, numbered from 0 in order of first appearance */
    uint32_t node_count, local_rank, local_size;
    uint32_t *above[SHAPE_LEVELS]; /**< above[0][n]: the leaf of node n; above[1][l]: the pod of leaf l; NULL: not
                                      known, or one only */

    struct shared_block *mine;
    struct shared_block **blocks; /**< blocks[r]: as mapped here; NULL for a rank on another host */
    char **bases;                 /**< bases[r]: its heap as mapped here, or NULL */
    uint32_t local_peer_count;    /**< local ranks other than this one */
    uint32_t *local_peers;        /**< their ranks in this communicator ... */
    uint32_t *local_peers_world;  /**< ... and in the world */
    uint64_t shm_number;          /**< shared-memory operations begun */
    uint64_t shm_credit;          /**< all local ranks are known to have begun this one */
    uint64_t shm_agreed;          /**< histories have been compared up to this one (shared_lines.h) */
    uint32_t shm_mismatch;        /**< rank of one that made other calls, + 1; 0: none known */
    struct staging staging;
    const void **sources; /**< space for the operands of one sum ... */
    void **targets;       /**< ... and for its targets */

    /* Order. */
    uint64_t sequence;                /**< collectives started */
    uint64_t tag;                     /**< the last one's; 0: there is none */
    uint64_t *sent, *received;        /**< messages started to and from each rank */
    struct weft_request *head, *tail; /**< incomplete collectives, in order */
    struct weft_comm *next_active;    /**< context.active: communicators with a head */

    /* Choices. */
    struct schedule_cache schedules;
    const struct algorithm *override[COLLECTIVES]; /**< set by the user; NULL: the tuner chooses */
    struct loaded_schedules loaded;                /**< loaded by the user; take precedence over `override` */
    bool reproducible;
    double time_limit; /**< seconds; 0: the context's */

    struct weft_comm *next;      /**< context.comms, or context.released */
    struct comm_subset *subsets; /**< subsets made of its ranks */
    uint32_t subset_count;
    size_t subset_room;
};

/** The communicator's id and flags, which separate the messages of a call from those of other kinds on it. */
static inline uint32_t comm_match_id(const struct weft_comm *comm, const struct call *call)
{
    return comm->id | (call->collective == COLLECTIVE_SENDRECEIVE ? COMM_MESSAGES : 0) |
           (call->purpose == CALL_SUBSET ? COMM_SUBSETS : 0);
}

/** Open the world of `context`. Collective. */
weft_status comm_open_world(weft_context *context, struct error *error);

/**
 * At the end of the job: an operation of the world, so that a rank that has skipped one is detected, and a log entry
 * for every other communicator. Returns when all ranks have called it; there is no time limit. Collective.
 */
weft_status comm_leave_world(weft_context *context);

/** Number the leaves and pods of its nodes, from the context's tuner. Errors: MEMORY. */
weft_status comm_number_units(struct weft_comm *comm, struct error *error);

/** The name for a communicator's id: "world", "communicator 3"; returns `text`. */
char *comm_name(uint32_t id, char *text, size_t size);

/**
 * After a failure: free its shared memory. The handle belongs to the user until it is freed; every call on it is
 * refused.
 */
void comm_retire(struct weft_comm *comm);

/** Errors: STATE if `comm` is from before a failure. */
weft_status comm_check_present(const struct weft_comm *comm, struct error *error);

/** Errors: STATE between weft_group_start() and weft_group_end(), where communicators are neither made nor freed. */
weft_status comm_check_ungrouped(const struct weft_comm *comm, struct error *error);

/** Free without waiting for other ranks: when the context closes, or after a failure. */
void comm_discard(struct weft_comm *comm);

/**
 * Free those in context.released that their local ranks have released, too. With the progress lock; the helper thread
 * calls it in every round.
 */
void comm_reclaim(weft_context *context);

/** Free all of context.released, after a failure or at the end. */
void comm_discard_released(weft_context *context);

#endif
