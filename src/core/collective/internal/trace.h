/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A trace: this rank's operations and steps with their times, for a timeline. Off unless WEFT_TRACE names a file.
 *
 * Events go to a ring in memory that keeps the newest. At weft_finalize() rank 0 collects the rings of all ranks that
 * trace, converts their times to its own clock, and writes one file of Chrome's trace events (Perfetto opens it;
 * observe/inspect/timeline.h reads it). After a failure every rank writes its own events to FILE.rank-N.
 *
 * While tracing is off it costs one branch where an operation begins, advances and ends. Guarded by the progress lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_TRACE_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_TRACE_H

#include "base/clock.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct step;
struct weft_request;

#define TRACE_ALGORITHMS   32
#define TRACE_NAME_BYTES   48
#define TRACE_EVENTS       65536 /**< of a ring, unless WEFT_TRACE_EVENTS says otherwise: 4 MiB */
#define TRACE_EVENTS_LEAST 64
#define TRACE_EVENTS_MOST  (1u << 26)

enum trace_kind { TRACE_OPERATION, TRACE_STEP };

/** One event: an operation from its beginning to its end, or a step of one. Times are clock_ticks(). */
struct trace_event {
    uint64_t begin, end;
    uint64_t called; /**< operation: when it was called. step: the iteration */
    uint64_t waited; /**< operation: ticks without progress */
    uint64_t bytes;  /**< operation: of a block. step: moved */
    uint64_t sequence;
    uint32_t communicator; /**< comm_match_id() */
    uint32_t peer;         /**< operation: root, or the other end of a message. step: as in the schedule */
    uint8_t kind;          /**< enum trace_kind */
    uint8_t what;          /**< call_code(), or enum step_kind */
    uint8_t type, op;      /**< of an operation: as in struct operation_entry */
    uint8_t lane;          /**< of a step */
    uint8_t algorithm;     /**< of an operation: index into the trace's names */
    uint16_t unused;
};
_Static_assert(sizeof(struct trace_event) == 64, "an event is a cache line");

/** State that a request keeps for its event. */
struct trace_marks {
    uint64_t called, begun;
    uint64_t still; /**< when it last progressed; 0: it is progressing */
    uint64_t waited;
};

/** One rank's trace, sent to rank 0 before its events. Plain bytes. */
struct trace_header {
    uint64_t count;                        /**< events recorded; the newest `room` of them are kept */
    uint64_t room;                         /**< of the ring */
    struct clock_timestamp opened, closed; /**< the rank's own clocks */
    int64_t offset[2];                     /**< its clock_now() minus rank 0's, when opened and closed */
    uint64_t uncertainty;                  /**< nanoseconds: the worse of the two; half a round trip */
    char algorithms[TRACE_ALGORITHMS][TRACE_NAME_BYTES];
};

struct trace {
    const char *path;
    struct trace_event *ring;
    const char *names[TRACE_ALGORITHMS]; /**< static strings of schedules: header.algorithms by their address */
    struct trace_header header;
};

/**
 * Begin to trace into `path` (borrowed), keeping `events` of them. The control plane is up. Errors: MEMORY, SYSTEM when
 * rank 0 cannot write there.
 */
weft_status trace_open(weft_context *context, const char *path, uint64_t events, struct error *error);

/** Free it; recording ends. NULL is allowed. */
void trace_close(struct trace *trace);

/** Write the file. Collective over the ranks that trace, unless the job has failed. Ends the recording. */
weft_status trace_write(weft_context *context, struct error *error);

/* ---- recording: only with a trace ---- */

/** `request` was called. */
void trace_call(struct weft_request *request);

/** It begins. */
void trace_begin(struct weft_request *request);

/** Whether it progressed in this round. */
void trace_advance(struct weft_request *request, bool moved);

/** A step of it, first tried at lane->looked_at, has ended. */
void trace_step(struct trace *trace, const struct weft_request *request, const struct lane *lane,
                const struct step *step, uint64_t bytes);

/** It is complete. */
void trace_operation(struct trace *trace, struct weft_request *request);

#endif
