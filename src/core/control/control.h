/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The control plane: authenticated connections in a tree over all ranks (rank to node leader, leaders in a tree), that
 * carry bootstrap, liveness, abort and operation logs. It needs no launcher alive.
 *
 * Neighbors in the tree detect a dead rank by its closed connection (within milliseconds), and a stopped process or a
 * cut link by missing heartbeats (after the liveness limit). They send "rank r on host h died: reason" through the rest
 * of the tree to every survivor. Each rank keeps the first cause that arrives.
 *
 * Threads: control_progress() is called by the context's helper thread alone. The other functions are safe from any
 * thread. control_failed() is a single load, cheap enough for every poll loop.
 */
#ifndef WEFT_CORE_CONTROL_CONTROL_H
#define WEFT_CORE_CONTROL_CONTROL_H

#include "base/clock.h"
#include "base/error.h"
#include "core/control/rendezvous/bootstrap.h"
#include "core/control/wire/endpoint_info.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct control;

struct control_config {
    uint32_t rank, ranks;
    double connect_limit;  /**< seconds to build the tree */
    double heartbeat;      /**< seconds between heartbeats; default 0.1 */
    double liveness_limit; /**< seconds without any sign of life before a peer is declared dead; default 1.5 */
};

/** Open the listener before the rendezvous, and write its "address:port" into endpoint->control. */
weft_status control_open(const struct control_config *config, const char *interface, struct control **control,
                         struct endpoint_info *endpoint, struct error *error);

/**
 * Change the rank, the number of ranks and the connect limit that control_open() was given; before control_connect().
 */
void control_renumber(struct control *control, uint32_t rank, uint32_t ranks, double connect_limit);

/** Hand the listener to the caller, who closes it; -1 when there is none. Unused after control_connect(). */
int control_take_listener(struct control *control);

/**
 * Build the tree; `endpoints` (borrowed for the life of control) and the rendezvous's secret authenticate both ends.
 */
weft_status control_connect(struct control *control, const struct endpoint_info *endpoints, const uint8_t *secret,
                            struct error *error);

/**
 * Announce the end along the tree, so that no rank takes it for a death, and close everything. Collective unless the
 * job failed: returns when every rank has called it. The helper thread must have ended: this drives progress itself.
 * NULL is allowed.
 */
void control_close(struct control *control);

/**
 * Close everything at once without announcing it: the job has failed, and the survivors use another control plane. The
 * helper thread must have ended. NULL is allowed.
 */
void control_abandon(struct control *control);

/** One descriptor (an epoll) that becomes readable when control_progress() has something to do. */
int control_descriptor(const struct control *control);

/** Handle received frames and send heartbeats; returns milliseconds until it must be called again. */
int control_progress(struct control *control);

/* ---- failure ---- */

/** Whether the job has failed; cheap enough for every poll loop. */
bool control_failed(const struct control *control);

/** The status and message of the failure; WEFT_OK when there is none. */
weft_status control_failure(const struct control *control, struct error *error);

/** Make the job fail everywhere with this status and message (unless it has failed already). Does not block. */
void control_abort(struct control *control, weft_status status, const char *message);

/** Whether a thread of this rank waits in control_exchange() or control_fetch_log() for other ranks. */
bool control_is_waited_in(const struct control *control);

/** Called once, from the helper thread, when the job fails (to ring a sleeping caller's doorbell). */
void control_on_failure(struct control *control, void (*callback)(void *context), void *context);

/* ---- exchange ---- */

/**
 * All-gather of small blobs among `members` (world ranks, this one included, same list and `key` on each): result is
 * count x bytes, in member order, the caller's memory. `key` identifies concurrent exchanges (the upper layers number
 * their own). Among all ranks in their order, blobs go up the tree and the table comes down, one frame over each link;
 * otherwise the first member gathers. Blocks; needs the helper thread to be running. For set-up only: milliseconds, not
 * microseconds.
 */
weft_status control_exchange(struct control *control, uint64_t key, const uint32_t *members, uint32_t count,
                             const void *blob, uint32_t bytes, void *result, double limit_seconds, struct error *error);

/** Frames of exchanges that this rank has handled so far, including those that it forwarded. */
uint64_t control_exchange_frames(struct control *control);

/* ---- operation logs ---- */

/**
 * A rank's recent operations. Written by the rank's threads on the hot path (a few stores), read by the helper thread
 * when a peer asks, and by the user from outside (core/control/status/status_page.h). An entry is one cache line.
 */
#define OPERATION_LOG_ENTRIES 64
#define OPERATION_TEXT_BYTES  192
#define OPERATION_DOING_WORDS 9 /* of 8 bytes */

struct operation_entry {
    _Atomic uint64_t sequence; /**< of the operation in its communicator, + 1; 0: free. Written last. */
    uint32_t communicator;     /**< id */
    uint8_t collective;        /**< enum collective */
    uint8_t type, op;
    uint8_t phase; /**< enum operation_phase */
    uint32_t root; /**< or the peer of a send or receive */
    uint64_t count;
    uint64_t hash;            /**< the operation's tag */
    _Atomic uint32_t awaited; /**< the world rank that it waits for, + 1; 0: none known */
    uint64_t started;         /**< clock_ticks() */
    uint64_t since;           /**< while waiting: clock_ticks() of the last progress */
};
_Static_assert(sizeof(struct operation_entry) == 64, "one cache line is written for an operation");

enum operation_phase {
    OPERATION_QUEUED,
    OPERATION_RUNNING,
    OPERATION_BLOCKING, /**< running, and a caller is blocked in it */
    OPERATION_DONE,
};

struct operation_log {
    _Atomic uint64_t next;         /**< entries written so far */
    struct clock_timestamp opened; /**< with `beat` it gives the length of a tick */
    struct clock_timestamp beat;   /**< the helper thread's last round; in a copy, the time of the copy */
    _Atomic uint64_t progress;     /**< calls of weft_progress() so far */
    _Atomic int64_t doing_number;  /**< of the newest one, or negative ... */
    _Atomic uint64_t doing[OPERATION_DOING_WORDS]; /**< ... and its text, with bytes of 0 after it; entries follow on a
                                                      cache line */
    struct operation_entry entries[OPERATION_LOG_ENTRIES];
};

/**
 * Let peers read this log (borrowed for the life of control). `describe` formats the current operation from a copy of
 * the log; heartbeats carry it to the neighbors, so that they can report the last operation of a rank that stopped
 * responding.
 */
void control_publish_log(struct control *control, const struct operation_log *log,
                         char *(*describe)(const struct operation_log *log, char *text, size_t size));

/** Copy a log that others are writing, in this process or another. An entry that changes meanwhile is left free. */
void operation_log_copy(const struct operation_log *from, struct operation_log *to);

/**
 * Fetch a rank's log. Blocks up to limit_seconds; WEFT_ERROR_TIMEOUT if it does not answer. Any thread but the helper,
 * which uses control_ask_log(): its answer arrives through the callback.
 */
weft_status control_fetch_log(struct control *control, uint32_t rank, struct operation_log *log, double limit_seconds,
                              struct error *error);
void control_ask_log(struct control *control, uint32_t rank,
                     void (*answer)(void *context, uint32_t rank, const struct operation_log *log), void *context);

#endif
