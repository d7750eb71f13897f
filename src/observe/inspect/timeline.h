/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Timelines that Weft has written (core/collective/internal/trace.h), read again and summed up.
 *
 * The file is one JSON object of Chrome's trace-event form, an event a line: processes are ranks, threads are
 * communicators and the lanes of their plans. Times are microseconds of rank 0's clock since the ranks had met.
 *
 *     category          event
 *     operation         a collective: algorithm, bytes (of a block), sequence, queued_us (called, not begun yet),
 *                       waited_us (begun, and nothing of it moved)
 *     send and receive  a message of the user's: two ends of an asynchronous event
 *     near, local       a step that works on memory: in shared memory with ranks of its node, or alone
 *     wait, exchange    a step that waits for signals of ranks of its node; a tiny operation
 *     message           a step that sends or receives, while that is under way
 *
 * The event "process_name" of each process tells host, machine, events lost from the ring, and how well its clock is
 * known, too.
 */
#ifndef WEFT_OBSERVE_INSPECT_TIMELINE_H
#define WEFT_OBSERVE_INSPECT_TIMELINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/** One rank. Times are seconds. */
struct timeline_rank {
    uint32_t rank;
    char host[64];
    char machine[96];
    uint64_t events, lost;
    double clock_uncertainty;
    uint64_t operations;
    double first, last; /**< beginning of its first event, end of its last */
    double inside;      /**< in operations */
    double waited;      /**< of that, nothing moved */
    double late_mean, late_most;
    uint64_t late_operations; /**< that several ranks have */
    uint64_t late_last;       /**< of these it came last to */
};

/** All operations of one name and algorithm, over all ranks. Times are seconds. */
struct timeline_kind {
    char name[32], algorithm[48];
    uint64_t calls;
    uint64_t bytes;
    double time, waited;
    double inner;      /**< work in shared memory, in operations that send messages between nodes as well */
    double outer;      /**< messages under way on this rank's node, in these operations */
    double overlapped; /**< of `inner`, while one was under way */
};

struct timeline {
    struct timeline_rank *ranks; /**< those in the file, in order */
    uint32_t rank_count;
    struct timeline_kind *kinds; /**< the one that took longest first */
    uint32_t kind_count;
};

/**
 * Read and sum up the file at `path`; what it says is not believed: it may be anybody's. Takes memory in proportion to
 * its size. Errors: SYSTEM, MEMORY, DATA if it is no timeline that Weft has written.
 */
weft_status timeline_read(const char *path, struct timeline *timeline, struct error *error);
void timeline_free(struct timeline *timeline);

#endif
