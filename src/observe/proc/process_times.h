/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The processor time and the memory of sets of processes: what a run's processes on this host use where they have no
 * control group of their own. A set is a process group, or a process and all below it: those that it has started, and
 * they have, as long as a process between them lives, or it is who orphans are given to (PR_SET_CHILD_SUBREAPER).
 *
 * A process that ends takes its counters with it, and the parent that waits for it gets them. So every process of the
 * machine is kept in mind from one reading to the next, and a set's time is what its processes have used themselves,
 * and what they got of children that have ended, less what was seen of those before:
 *
 *     increase = sum over its processes p of  own(p) - own'(p)  +  max(0, children(p) - children'(p) - gone(p))
 *
 * where ' is the reading before, and gone(p) the time seen of processes that have ended since, and whose nearest
 * ancestor that lives is p. Not seen is what a process uses between the last reading and its end where its parent is of
 * another set, or does not wait for it: of a process group, the last seconds of its first process.
 *
 * A reading takes about 4 us for each process of the sets, whose files are kept open (256 of them at most; 9 us for
 * each of the rest). Others are read every sixteenth time only: one that joins a set later than at its birth is found
 * that much later.
 *
 * Listing all processes of a machine costs more than reading the few of a set. Readers of one machine can share that
 * (process_times_share()): then the table (process_table.h) names the processes and their parents, and those that the
 * sets are about, and they alone, are read. What they have used is right at the moment of the reading all the same; a
 * process that was born since the table was made is found at the next reading, with all that it has used. One that is
 * older than the last table and joins a set counts from then on.
 *
 * Not thread-safe; no global state.
 */
#ifndef WEFT_OBSERVE_PROC_PROCESS_TIMES_H
#define WEFT_OBSERVE_PROC_PROCESS_TIMES_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct process_times;

/** A set, and what is told of it. The caller sets one of the first two, and zeroes the rest at the start. */
struct process_set {
    int32_t group;         /**< the process group of this number; or 0 */
    int32_t ancestor;      /**< this process and all below it; or 0 */
    uint32_t processes;    /**< that it has now */
    uint64_t ticks;        /**< of processor time since the first reading; only grows */
    uint64_t resident;     /**< pages of all of them; memory that several share counts once for each */
    uint64_t proportional; /**< bytes, shared ones divided among all that share them (PSS); 0: not read */
};

/** The processes below the directory `root` (its descriptor, kept open by the caller): root/proc/NUMBER. Errors: MEMORY.
 */
weft_status process_times_open(int root, struct process_times **times, struct error *error);
void process_times_close(struct process_times *times);

/** From now on, take processes from the table that is shared in the file `path`, and renewed every `seconds` / 2 by
 * whoever reads; once at most. Where that cannot be, they are listed as before. Errors: those of process_table_open().
 */
weft_status process_times_share(struct process_times *times, const char *path, double seconds, struct error *error);

/** How often all processes of the machine were listed for this one's readings, by itself. */
uint64_t process_times_walks(const struct process_times *times);

/**
 * Read all processes, and bring `count` sets up to date. `proportional`: read their PSS, too, for which the kernel
 * walks all of their memory: up to milliseconds a process. Errors: MEMORY. What cannot be read counts as not there.
 */
weft_status process_times_read(struct process_times *times, struct process_set *sets, uint32_t count, bool proportional,
                               struct error *error);

#endif
