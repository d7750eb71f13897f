/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An execution: one operation in flight, with its schedule and the schedule's binding. A weft_request points to one;
 * blocking calls use one, too.
 *
 * It is a state machine that never blocks: execution_advance() takes the steps it can and returns. Lanes progress
 * independently; each has its own step and iteration. Everything here is guarded by the context's progress lock.
 *
 * The life of a collective: prepared (schedule found, buffers bound), queued in its communicator's order, begun (when
 * it is first in the queue and the local ranks are done with its control lines), advanced, done. A message (send,
 * receive) begins at once, because the other end may wait for it before it starts anything else.
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

/** The result of a step. */
enum step_result {
    STEP_COMPLETE,
    STEP_WAITS,  /**< for a peer, or another lane */
    STEP_FAILED, /**< the context is broken, or a mismatch is being examined: the execution stays where it is */
};

/** The memory that a schedule's chunks stand for in this call. */
struct binding {
    char *input, *output;
    uint64_t element;     /**< bytes */
    uint64_t block_bytes; /**< of every block; of the largest in the v-forms */
    uint64_t iterations;
    uint64_t room;                         /**< bytes reserved for a block in a slot of staging */
    char *scratch;                         /**< slot k begins at k x scratch_bytes */
    uint64_t scratch_bytes;                /**< of a slot */
    char *arrivals[SCHEDULE_LANES];        /**< where a lane's messages arrive before they are reduced */
    bool streaming;                        /**< store past the caches */
    bool stages;                           /**< data passes through staging in at least one direction */
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
    uint32_t looked;    /**< members that the current await or exchange has already seen */
    bool begun;         /**< the current step has a message in flight, or has published */
    struct segment segment;
    struct transfer transfer;
    uint64_t looked_at; /**< while tracing: clock_ticks() when the current step could first be taken; 0: not yet */
};

struct weft_request {
    struct weft_comm *comm;
    const struct call *call; /**< the caller's for a blocking call; otherwise `kept` */
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
    _Atomic bool done;        /**< state is EXECUTION_DONE; may be read without the progress lock */
    uint64_t moved_at;        /**< clock_now() when it last made progress; 0: not looked at yet */
    uint64_t moved_ticks;     /**< the same by clock_ticks() */
    uint32_t awaited;         /**< world rank that it waits for, + 1; 0: unknown */
    uint64_t steps_taken;     /**< grows with every step: shows whether it makes progress */
    uint64_t steps_seen;      /**< steps_taken at the last watchdog look */
    struct trace_marks marks; /**< while tracing */
    struct weft_request *next, *next_of_all, *next_of_group;

    void *scratch; /**< kept between uses */
    uint64_t scratch_room;
    char *copied; /**< the blocks of an input in place, from begin to release; NULL: none */
};

/**
 * Check the call, find the schedule, bind the buffers. The request is then EXECUTION_GROUPED and in no queue. `keep`:
 * copy `call`, which does not live until the end.
 */
weft_status execution_prepare(weft_comm *comm, const struct call *call, bool keep, struct weft_request **request,
                              struct error *error);

/**
 * Make a request from an exchange that exchange_run() has published, as the only one in flight on its communicator,
 * because a rank is late. Its call lives until the end.
 */
weft_status execution_adopt(const struct exchange_operation *operation, struct schedule_entry *entry, uint64_t sequence,
                            struct operation_entry *log, struct weft_request **request, struct error *error);

/** Append it to its communicator's queue, or begin a message. */
void execution_enqueue(struct weft_request *request);

/**
 * Take the steps that can be taken, up to a limit of work. Returns whether any was taken. Completes the request when
 * all are done.
 */
bool execution_advance(struct weft_request *request);

/**
 * Take the steps that lane `number` can take, until `*budget` bytes have been moved. Returns whether any was taken.
 * Part of execution_advance(), which visits the lanes in turn; any other order is correct, too.
 */
bool execution_advance_lane(struct weft_request *request, uint32_t number, uint64_t *budget);

/** Drop what is in flight, and complete with `status`. */
void execution_cancel(struct weft_request *request, weft_status status);

/** Return a completed request to the context. */
void execution_release(struct weft_request *request);

/** Free all requests that the context keeps. None is in flight. */
void execution_free_all(weft_context *context);

/** The part of every block that iteration `iteration` covers. */
struct segment execution_segment(const struct schedule *schedule, uint64_t block_bytes, uint64_t iteration);

/* ---- the steps, for core/collective/execution/lane.c ---- */

/**
 * Bytes that a data-moving step moves in this iteration. In v-forms, `block` is INPUT's (of rank `owner`) or OUTPUT's.
 */
uint64_t execution_step_bytes(const struct weft_request *request, const struct lane *lane, const struct step *step);

/** Address of a chunk of this rank's buffer in this iteration. */
char *execution_chunk(const struct weft_request *request, const struct lane *lane, enum schedule_buffer buffer,
                      uint32_t chunk);

enum step_result execution_step_message(struct weft_request *request, struct lane *lane, const struct step *step);
enum step_result execution_step_shm(struct weft_request *request, struct lane *lane, const struct step *step);

/**
 * A shared-memory operation is about to be prepared: prefetch the line that it will write, which takes as long as
 * preparing.
 */
void execution_shm_prefetch(const weft_comm *comm);

/**
 * Whether shared-memory operation `number` may begin when others may lag by up to `ahead` operations: exchange_ahead()
 * for an exchange, 1 for everything that uses staging. If not, *awaited becomes the world rank that it waits for, + 1.
 */
bool execution_shm_granted(weft_comm *comm, uint64_t number, uint32_t ahead, uint32_t *awaited);

/** Whether the local ranks are done with the control lines; if so, announce this operation in them. */
bool execution_shm_begin(struct weft_request *request, struct error *error);

#endif
