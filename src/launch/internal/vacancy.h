/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The time in which a helper has no launcher: the output of its ranks is kept, their ends are recorded, and the helper
 * knows when its own end is due. Until then order->loss says what becomes of the ranks (order.h).
 *
 * Where the job's directory (WEFT_JOB_DIR) is there, output is appended to DIR/output-HOST (mode 0600), whole lines, each
 * after its rank, and events to DIR/events.jsonl. Elsewhere the last VACANCY_KEPT_MOST bytes of output are kept in memory.
 * Not thread-safe.
 */
#ifndef WEFT_LAUNCH_INTERNAL_VACANCY_H
#define WEFT_LAUNCH_INTERNAL_VACANCY_H

#include "launch/internal/output.h"
#include "launch/job_directory.h"
#include "launch/order.h"
#include "launch/spawn.h"

#include <stdbool.h>
#include <stdint.h>

#define VACANCY_KEPT_MOST (64u << 10)
#define VACANCY_SECONDS   60.0 /**< that a helper waits for a launcher after the end of its last rank */

struct vacancy {
    bool is_open; /**< there is no launcher */
    const struct order *order;
    const struct rank_process *ranks; /**< all that were started here */
    uint32_t count;
    struct job_directory directory; /**< for events; not here: `events` is -1 */
    struct output output;           /**< to the file, if there is one */
    int file;
    struct buffer kept; /**< frames of ORDER_OUTPUT, in place of a file */
    uint64_t kill_at;   /**< when the ranks are killed; 0: never, or done */
    uint64_t end_at;    /**< when the helper's end is due; 0: not yet known */
};

/**
 * The launcher was lost, for the reason `reason`, of a job that began at clock_now() `began`. No more ranks are started
 * here until vacancy_end(); order and ranks must live until then. Without a directory, or memory, output is lost. From now on standard error leads nowhere: it was the
 * launcher's.
 */
void vacancy_begin(struct vacancy *vacancy, const struct order *order, const struct rank_process *ranks, uint32_t count,
                   uint64_t began, const char *reason);

/** Bytes that a rank wrote to `stream` (1 or 2). */
void vacancy_take(struct vacancy *vacancy, uint32_t rank, uint32_t stream, const void *bytes, size_t size);

/** A rank has ended. */
void vacancy_rank_ended(const struct vacancy *vacancy, const struct rank_process *rank);

/** Whether the ranks are to be killed now: true once. */
bool vacancy_kills(struct vacancy *vacancy);

/** All ranks have ended: whether the helper's end is due. */
bool vacancy_is_over(struct vacancy *vacancy);

/** The helper ends, and no launcher has come: record how its ranks have ended; if they were the whole job, none is left to be
 * taken over. Before vacancy_end(). */
void vacancy_record_result(const struct vacancy *vacancy);

/** Close the file, and free. Output that was kept is appended to `frames`, unless that is NULL. Harmless if it is not open. */
void vacancy_end(struct vacancy *vacancy, struct buffer *frames);

#endif
