/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Negotiators and their operations: what the files of this directory share.
 *
 * One thread at a time *drives*: it runs a round (round.c) and executes what is ready (execute.c). Everything that
 * submitting threads touch, too, is guarded by `lock`; members marked "driver" belong to the thread that drives.
 */
#ifndef WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_NEGOTIATOR_H
#define WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_NEGOTIATOR_H

#include "weft/negotiation.h"

#include "base/clock.h"
#include "base/error.h"
#include "core/collective/internal/reduction.h"
#include "core/collective/negotiation/internal/description.h"
#include "core/collective/negotiation/internal/names.h"
#include "core/collective/negotiation/internal/timeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define IDLE_SECONDS 1.0 /* after which a rank that has nothing to do joins the round that others may wait in */

/** The result of an all-gather or all-to-all for one tensor. */
struct operation_result {
    int64_t *rows; /**< [ranks] */
    void *data;
};

struct weft_operation {
    weft_negotiator *negotiator;     /**< not to be used once the operation has ended */
    struct named_entry *entry;       /**< of its name; NULL for a join */
    struct description *description; /**< until the operation ends */
    weft_tensor *tensors;            /**< [count] */
    int64_t *splits;                 /**< NULL: equal parts */
    int count;
    int unfinished; /**< driver: tensors whose part is not done */
    bool announced; /**< all ranks have its description */
    uint64_t submitted;
    weft_operation *previous, *next; /**< in the list of pending operations */

    /* Set before `ended`. */
    struct error error;
    struct operation_result *results; /**< [count], of all-gathers and all-to-alls */
    int last_joined;
    atomic_bool ended;
};

/** An operation that all ranks have submitted. */
struct ready {
    struct description *description; /**< NULL once it has ended */
    weft_operation *operation;       /**< NULL: this rank has joined, or the operation has ended */
    int joined;                      /**< ranks that had joined when all others had submitted it */
};

/** A tensor of an all-reduce that is ready. */
struct ready_piece {
    struct ready *ready;
    const void *input; /**< NULL: zeros, since this rank has joined */
    void *output;
    weft_type type;
    uint64_t count, bytes;
    bool taken;
};

struct weft_negotiator {
    weft_comm *comm;
    weft_context *context;
    int rank, ranks;
    weft_negotiator_config config; /**< rank 0's, without defaults left open */
    const struct reduction *reduction;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;    /**< for the thread: something was submitted, or the negotiator closes */
    pthread_cond_t changed; /**< for those who wait for operations */
    bool driving;
    bool closing;
    bool ended;           /**< with `failure`: nothing runs any more */
    struct error failure; /**< of unfinished and later operations */
    int waiters;          /**< threads that wait for operations, and so drive */

    struct names names;
    weft_operation *first, *last; /**< pending, in the order of their submission */
    weft_operation *join;         /**< this rank's */
    bool join_announced;
    bool fresh;          /**< something was submitted since the last round began */
    uint64_t next_time;  /**< when the next round is due without that */
    uint64_t last_round; /**< its end */
    int quiet;           /**< threads that want no round to begin */
    uint32_t fruitless;  /**< rounds in a row in which nothing could run */

    bool *joined; /**< [ranks] driver */
    int joined_count, last_joined;
    uint64_t rounds;     /**< driver */
    uint64_t *bits;      /**< driver: flags, then a bit for each known operation */
    struct ready *ready; /**< driver */
    size_t ready_count, ready_room;
    struct ready_piece *pieces; /**< driver: tensors of all-reduces that are ready */
    size_t piece_count, piece_room;
    void *fusion; /**< driver: memory in which tensors are joined */
    size_t fusion_room;
    uint64_t small_bytes; /**< tensors up to this size are joined */
    struct error stalled; /**< on rank 0: why it ends the negotiator */
    struct negotiation_timeline timeline;
};

/* ---- round.c ---- */

/** Run a round, and what is ready in it. The lock is held at the beginning and at the end, and not in between. */
void round_run(weft_negotiator *negotiator);

/** Whether a round is due; `*time` of clock_now(): when, otherwise. The lock is held. */
bool round_due(const weft_negotiator *negotiator, uint64_t *time);

/* ---- execute.c ---- */

/** Run the operations of negotiator->ready. Driver, without the lock. Errors end the negotiator. */
weft_status execute_ready(weft_negotiator *negotiator, struct error *error);

/** The message of a failed call on the negotiator's communicator. */
weft_status negotiation_error(weft_negotiator *negotiator, weft_status status, struct error *error);

/** The operation that the collective does for a reduction; its result is then to be multiplied by `factor`. */
weft_op execute_op(const weft_negotiator *negotiator, const struct description *description, weft_type type,
                   double *factor);

/** Memory for joined tensors, at least `bytes`; NULL with an error. Driver. */
void *execute_memory(weft_negotiator *negotiator, size_t bytes, struct error *error);

/** target = source * factor, `count` elements; in their own type. The two may be the same. */
void execute_scale(weft_negotiator *negotiator, weft_type type, const void *source, void *target, uint64_t count,
                   double factor);

/* ---- movement.c ---- */

/** All-gather, all-to-all, broadcast, reduce-scatter and barrier: one operation. Driver, without the lock. */
weft_status movement_run(weft_negotiator *negotiator, weft_operation *operation, struct error *error);

/* ---- adasum.c ---- */

/** Combine `values` of all ranks, in place. The number of ranks is a power of two. */
weft_status adasum_run(weft_negotiator *negotiator, void *values, uint64_t count, weft_type type, struct error *error);

/* ---- negotiator.c ---- */

/** End an operation with `error` (NULL: well) and wake those who wait. Takes the lock. */
void operation_end(weft_operation *operation, const struct error *error);

/* ---- stall.c ---- */

/** Whether an operation of this rank waits for so long that ranks should tell each other what they wait for. Locked. */
bool stall_suspected(const weft_negotiator *negotiator);

/** On rank 0: name operations that ranks are missing from. False: for so long that the negotiator should end. Locked. */
bool stall_check(weft_negotiator *negotiator);

#endif
