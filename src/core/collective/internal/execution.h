/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An execution: one operation in flight, the schedule that it follows and what the schedule is bound to. It is what a
 * weft_request points to; blocking calls have one, too.
 *
 * It is a state machine that never blocks: execution_advance() takes what steps it can and returns. Lanes move
 * independently; each remembers its step and its iteration. Everything here is guarded by the context's progress_lock.
 *
 * The life of a collective: prepared (schedule found, buffers bound), queued in its communicator's order, begun (when it is
 * the first in the queue and local ranks have granted it the control lines), advanced, done. A message (send, receive)
 * is begun at once, since the other end may wait for it before it starts anything else.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_EXECUTION_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_EXECUTION_H

#include "core/collective/call.h"
#include "core/collective/internal/reduction.h"
#include "core/collective/internal/schedule_cache.h"
#include "core/collective/internal/trace.h"
#include "core/transport/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct exchange_operation;

enum execution_state {
    EXECUTION_FREE,
    EXECUTION_GROUPED, /**< waits for weft_group_end() */
    EXECUTION_QUEUED,
    EXECUTION_RUNNING,
    EXECUTION_DONE,
};

/** What a step came to. */
enum step_result {
    STEP_COMPLETE,
    STEP_WAITS,  /**< for a peer, or another lane */
    STEP_FAILED, /**< the context is broken, or a mismatch is being looked into: the execution stays where it is */
};

/** What a schedule's chunks are, for this call. */
struct binding {
    char *input, *output;
    uint64_t element;     /**< bytes */
    uint64_t block_bytes; /**< of every block; of the largest in the v-forms */
    uint64_t iterations;
    uint64_t room;                         /**< bytes that a block has in a slot of staging */
    char *scratch;                         /**< slot k begins at k x scratch_bytes */
    uint64_t scratch_bytes;                /**< of a slot */
    char *arrivals[SCHEDULE_LANES];        /**< where a lane's messages land before they are reduced */
    bool streaming;                        /**< store past the caches */
    bool stages;                           /**< this rank's buffers reach local ranks through staging, or theirs it */
    const struct reduction_finish *finish; /**< NULL: nothing follows the sum */
    struct reduction_finish finishing;
};

/** The part of every block that an iteration covers. */
struct segment {
    uint64_t begin, length;
    uint64_t width; /**< from one part to the next */
};

struct lane {
    uint32_t step;      /**< number of the next step, among the schedule's */
    uint32_t done;      /**< steps completed in this iteration */
    uint64_t iteration; /**< equal to binding.iterations: the lane is done */
    uint64_t signals;   /**< made so far */
    uint32_t looked;    /**< members that the present await or exchange has seen already */
    bool begun;         /**< the present step has a message in flight, or has published */
    struct segment segment;
    struct transfer transfer;
    uint64_t looked_at; /**< while tracing: clock_ticks() at which the present step could first be taken; 0: not yet */
};

struct weft_request {
    struct weft_comm *comm;
    const struct call *call; /**< of a blocking call, its caller's; else `kept` */
    struct call kept;
    struct call_vectors kept_vectors;
    struct schedule_entry *entry;
    const struct schedule *schedule;
    struct binding binding;
    struct lane lanes[SCHEDULE_LANES];
    uint32_t lanes_left;

    uint64_t sequence; /**< in its communicator, from 1; of messages: between its two ranks */
    uint64_t tag;
    uint64_t shm_number; /**< of a shared-memory operation */
    struct operation_entry *log;
    enum execution_state state;
    bool in_wait; /**< a caller is blocked in it */
    bool is_message;
    bool is_blocking; /**< made by a blocking call in a group: freed by the end of the group */
    weft_status status;
    _Atomic bool done;        /**< state is EXECUTION_DONE; may be looked at without the progress_lock */
    uint64_t moved_at;        /**< clock_now() when it was last seen to move; 0: not looked yet */
    uint64_t moved_ticks;     /**< the same by clock_ticks() */
    uint32_t awaited;         /**< world rank that it waits for, + 1; 0: none known */
    uint64_t steps_taken;     /**< grows with every step: whether it moves */
    uint64_t steps_seen;      /**< by who watches */
    struct trace_marks marks; /**< while tracing */
    struct weft_request *next, *next_of_all, *next_of_group;

    void *scratch; /**< kept between uses */
    uint64_t scratch_room;
};

/**
 * Check the call, find the schedule, bind the buffers. The request is then EXECUTION_GROUPED, nobody's yet. `keep`: `call`
 * will not live until the end.
 */
weft_status execution_prepare(weft_comm *comm, const struct call *call, bool keep, struct weft_request **request,
                              struct error *error);

/**
 * Make a request of an exchange that exchange_run() has published, as the only one in flight of its communicator:
 * somebody is late. Its call lives until the end.
 */
weft_status execution_adopt(const struct exchange_operation *operation, struct schedule_entry *entry, uint64_t sequence,
                            struct operation_entry *log, struct weft_request **request, struct error *error);

/** Put it into its communicator's order, or begin a message. */
void execution_enqueue(struct weft_request *request);

/** Take what steps can be taken, up to a bound of work; whether any was. Completes the request when all is done. */
bool execution_advance(struct weft_request *request);

/** Take what steps lane `number` can take, until `*budget` bytes have been moved; whether any was. A part of
 * execution_advance(), which goes round the lanes; any other order of them is as right. */
bool execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget);

/** Forget what is in flight, and complete with `status`. */
void execution_cancel(struct weft_request *request, weft_status status);

/** Give a completed request back. */
void execution_release(struct weft_request *request);

/** Take and free all that the context keeps. Nothing is in flight any more. */
void execution_free_all(weft_context *context);

/** The part of every block that iteration `iteration` covers. */
struct segment execution_segment(const struct schedule *schedule, uint64_t block_bytes, uint64_t iteration);

/* ---- the steps, for core/collective/execution/lane.c ---- */

/** Bytes that a step that moves data moves in this iteration; `block` in v-forms is INPUT's (of rank `owner`) or
 * OUTPUT's. */
uint64_t execution_step_bytes(const struct weft_request *request, const struct lane *lane, const struct step *step);

/** Where a chunk of this rank's buffer lies in this iteration. */
char *execution_chunk(const struct weft_request *request, const struct lane *lane, enum schedule_buffer buffer,
                      uint32_t chunk);

enum step_result execution_step_message(struct weft_request *request, struct lane *lane, const struct step *step);
enum step_result execution_step_local(struct weft_request *request, struct lane *lane, const struct step *step);
enum step_result execution_step_shm(struct weft_request *request, struct lane *lane, const struct step *step);

/** A shared-memory operation is about to be prepared: begin to fetch the line that it will write, which takes as long as
 * preparing. */
void execution_shm_prefetch(const weft_comm *comm);

/**
 * Whether shared-memory operation `number` may begin, of which others may be up to `ahead` behind:
 * exchange_ahead() for an exchange, 1 for all that has staging. If not, *awaited becomes the world rank that it waits
 * for, + 1.
 */
bool execution_shm_granted(weft_comm *comm, uint64_t number, uint32_t ahead, uint32_t *awaited);

/** Whether they have granted them for this one; then announce it in them. */
bool execution_shm_begin(struct weft_request *request, struct error *error);

#endif
