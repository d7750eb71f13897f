/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Inspection: the jobs that run here, looked at from outside: what every rank does and has done, how long it has waited
 * and for whom, who is late, and who holds up the others.
 *
 * Ranks of this machine are read from their status pages (core/control/status/status_page.h), whatever state they are in; those of other
 * machines are asked for by a rank of this one, as far as the job's control plane reaches them. Nothing of the job
 * waits for it, and nothing of what it shows is believed beyond being shown. Moments are nanoseconds relative to when
 * the inspection was made, by this machine's clock: negative, the past. Not thread-safe.
 */
#ifndef WEFT_OBSERVE_INSPECT_INSPECTION_H
#define WEFT_OBSERVE_INSPECT_INSPECTION_H

#include "core/control/control.h"

#include <stdbool.h>
#include <stdint.h>

struct status_page_view;

#define INSPECTION_TEXT_BYTES 768
#define INSPECTION_NOBODY     UINT32_MAX

enum inspected_state {
    INSPECTED_OUTSIDE, /**< in no operation: it computes, or waits for something else */
    INSPECTED_MOVING,  /**< in an operation, which is not known to wait */
    INSPECTED_WAITING, /**< in an operation that has waited for a rank for a while */
    INSPECTED_STOPPED, /**< its process is stopped */
    INSPECTED_SILENT,  /**< on another machine, and does not tell */
    INSPECTED_GONE,    /**< it should be on this machine, and no process shows it */
};

/** "outside", "moving", "waiting", "stopped", "silent", "gone"; static strings. */
const char *inspected_state_name(enum inspected_state state);

/** One operation of a rank. */
struct inspected_operation {
    char text[OPERATION_TEXT_BYTES]; /**< "allreduce(count 1024, f32, sum)" */
    char place[64];                  /**< "operation 7 of world", "message 3 of communicator 2" */
    uint32_t communicator;           /**< id */
    bool is_message;
    enum operation_phase phase;
    uint64_t sequence; /**< in its communicator; of messages: between its two ranks */
    uint64_t bytes;    /**< of a block */
    uint64_t tag;      /**< equal on ranks that made the same call */
    int64_t started;   /**< timestamp */
    int64_t since;     /**< since when it has waited for `awaited` */
    uint32_t awaited;  /**< world rank; INSPECTION_NOBODY: none known */
};

/** How late a rank enters operations, against the first that enters each: over those in several ranks' logs. */
struct inspected_skew {
    uint32_t operations;
    uint32_t last;     /**< of these it entered last */
    double mean, most; /**< seconds after the first */
};

struct inspected_rank {
    uint32_t rank;
    int32_t process;
    char host[ENDPOINT_HOST_BYTES];
    enum inspected_state state;
    char main_thread;   /**< state of the process's main thread as /proc tells it (R, S, D, T, Z); 0: not known */
    char where[64];     /**< the kernel function that it sleeps in; "" */
    double uncertainty; /**< seconds by which its moments may be off: half a round trip; 0 on this machine */
    uint64_t count;     /**< operations begun, messages too */
    struct inspected_operation *operations; /**< the newest first */
    uint32_t operation_count;
    const struct inspected_operation *current; /**< the oldest that a caller is blocked in, or is not done; or NULL */
    const struct inspected_operation *last;    /**< the newest one done, or NULL */
    struct inspected_skew skew;
};

struct inspected_job {
    char name[64]; /**< the run's id where weft run has recorded one, else "job-" and its number */
    uint64_t number;
    char launcher[64];
    char user[64];
    char command[INSPECTION_TEXT_BYTES]; /**< of its first rank here */
    int64_t started;                     /**< seconds since 1970 */
    uint32_t rank_count, here;           /**< all; those that this machine shows */
    struct inspected_rank *ranks;
    double waited;                       /**< seconds for which the rank that waits longest has waited; 0: none waits */
    uint32_t waiting;                    /**< ranks that wait */
    uint32_t straggler;                  /**< whom they wait for in the end; INSPECTION_NOBODY */
    bool cycle;                          /**< they wait for one another */
    char verdict[INSPECTION_TEXT_BYTES]; /**< a message: who holds up whom, and what to do */
};

struct inspection {
    struct inspected_job *jobs; /**< oldest first */
    uint32_t job_count;
};

/**
 * Look at every job that has a rank of this user here (of any user, for root). `elsewhere`: also have ranks of other
 * machines asked, which takes up to two seconds where some do not answer, and up to four where one that should ask does
 * not respond. Errors: SYSTEM, MEMORY.
 */
weft_status inspection_open(bool elsewhere, struct inspection *inspection, struct error *error);

/** The same from status pages that have been found: those of several jobs, in any order. */
weft_status inspection_read(const struct status_page_view *views, uint32_t count, bool elsewhere,
                            struct inspection *inspection, struct error *error);
void inspection_close(struct inspection *inspection);

/**
 * The job called `name`: a run's id, "job-...", or the process of one of its ranks; NULL: the only one that there is.
 * Errors: ARGUMENT, which says what there is.
 */
weft_status inspection_find(const struct inspection *inspection, const char *name, const struct inspected_job **job,
                            struct error *error);

#endif
