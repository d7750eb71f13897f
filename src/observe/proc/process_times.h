/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Processor time and memory of sets of processes. A set is a process and its descendants, as an agent needs them for
 * a node without a control group. If the first process is a child subreaper (PR_SET_CHILD_SUBREAPER), orphans stay in
 * the set; otherwise they leave it when their parent ends.
 *
 * A process takes its counters with it when it ends, and the parent that waits for it inherits them. Each reading
 * therefore keeps the counters of all processes of the sets until the next one:
 *
 *     increase = sum over its processes p of  own(p) - own'(p)  +  max(0, children(p) - children'(p) - gone(p))
 *
 * where ' marks the previous reading, and gone(p) is the time already counted for processes that have ended since and
 * whose nearest living ancestor is p. Time that a process uses between the last reading and its end is lost if its
 * parent does not wait for it.
 *
 * Descendants are found in /proc/PID/task/TID/children, so a reading opens a few files for each process and each
 * thread of the sets, however many processes the host has. A kernel without these files (CONFIG_PROC_CHILDREN) costs
 * a pass over all processes of the host.
 *
 * Not thread-safe; no global state.
 */
#ifndef WEFT_OBSERVE_PROC_PROCESS_TIMES_H
#define WEFT_OBSERVE_PROC_PROCESS_TIMES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct process_times;

/** A set and its totals. The caller sets `ancestor` and zeroes the rest before the first reading. */
struct process_set {
    int32_t ancestor;      /**< the first process */
    uint32_t processes;    /**< now in the set */
    uint64_t ticks;        /**< processor time since the first reading that found `ancestor`; never decreases */
    uint64_t resident;     /**< pages of all processes; shared memory counts once for each */
    uint64_t proportional; /**< bytes, shared memory divided among its users (PSS); 0: not read */
};

/** Read processes from `root`/proc. The caller keeps the directory descriptor `root` open. Errors: MEMORY. */
weft_status process_times_open(int root, struct process_times **times, struct error *error);
void process_times_close(struct process_times *times);

/**
 * Update `count` sets. With `proportional` the PSS is read too; the kernel then walks the memory of each process, up
 * to milliseconds each. Processes that cannot be read count as absent. Errors: MEMORY.
 */
weft_status process_times_read(struct process_times *times, struct process_set *sets, uint32_t count, bool proportional,
                               struct error *error);

#endif
