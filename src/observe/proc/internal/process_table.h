/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One reading of this machine's processes for all who want one: to list /proc costs some microseconds for each process
 * of the machine, whoever asks, and a thousand that ask every few seconds keep processors busy with nothing else.
 *
 * The table is a file in a directory that all of them know. Who finds it older than half the time between two of its
 * readings, and gets the lock beside it, lists the machine and replaces it; all others take it as it is. So /proc is
 * listed once in such a time, however many read. A table is replaced as a whole: one that is killed meanwhile, with
 * SIGKILL or by a full disk, leaves the one before, and its lock is free. Nobody waits for anybody.
 *
 * The file is for its owner alone, and all the same nothing in it is believed: size, checksum and order are looked at,
 * and that it is of this machine since its last start. A table that is not right is replaced.
 *
 * Which processes there are, and whose they are, is as old as the table. So are its counters: who wants those of now
 * reads the few processes that matter to it again (process_times.h does). A process that is there for long is read
 * every sixteenth time only, as its parent and its group hardly ever change.
 *
 * Where the file cannot be made or read, process_table_read() says so, and its caller lists for itself.
 *
 * Not thread-safe; no global state.
 */
#ifndef WEFT_OBSERVE_PROC_INTERNAL_PROCESS_TABLE_H
#define WEFT_OBSERVE_PROC_INTERNAL_PROCESS_TABLE_H

#include "base/error.h"
#include "observe/proc/kernel_tables.h"

#include <stddef.h>

#define PROCESS_TABLE_MOST  (1u << 18) /**< processes; a table beyond this is none that a machine has */
#define PROCESS_TABLE_TURNS 16         /**< readings, in one of which a process that is known is read again */

struct process_table;

/**
 * Share the table in the file `path`, absolute, with others; PATH.new and PATH.lock are beside it. Nothing is made or
 * read yet. `root` is the descriptor of a directory with proc/ in it, kept open by the caller; `seconds` is the time from
 * one reading to the next. Errors: MEMORY; ARGUMENT where the path is too long.
 */
weft_status process_table_open(const char *path, int root, double seconds, struct process_table **table,
                               struct error *error);
void process_table_close(struct process_table *table);

/**
 * The processes of the machine, rising by number, until process_table_release() or the next call: at most two times
 * `seconds` old. False: nobody keeps the table up to date at the moment, or it cannot be kept here.
 */
bool process_table_read(struct process_table *table, const struct kernel_process **processes, uint32_t *count);

/** Give the memory of the last reading back. */
void process_table_release(struct process_table *table);

/** How often this one has listed the machine itself. */
uint64_t process_table_walks(const struct process_table *table);

/* ---- what is in the file ---- */

/** In front of the processes, which follow as they are in memory. */
struct process_table_head {
    char magic[8];     /**< PROCESS_TABLE_MAGIC, with the version of all this */
    uint64_t machine;  /**< whose processes they are: this boot, this namespace of numbers */
    uint64_t moment;   /**< when they were read: nanoseconds of CLOCK_BOOTTIME */
    uint64_t walks;    /**< so many tables there were, with this one */
    uint64_t count;    /**< processes */
    uint64_t checksum; /**< hash_bytes() of the processes, begun with that of the head up to here */
};

#define PROCESS_TABLE_MAGIC "weftpt01"

/** The checksum that belongs in `head`. */
uint64_t process_table_checksum(const struct process_table_head *head, const struct kernel_process *processes);

/** Whether `size` bytes, aligned for 64-bit numbers, are a table of `machine`; then its processes are behind the head.
 */
bool process_table_parse(const void *bytes, size_t size, uint64_t machine, const struct process_table_head **head,
                         const struct kernel_process **processes);

/* ---- listing a machine ---- */

/** Called with each process of `root`/proc: the directory, and a name in it that is a number. Errors end the walk. */
typedef weft_status process_walk_visit(void *context, int directory, const char *number, struct error *error);

/** Visit all of them; a machine that cannot be read has none. */
weft_status process_walk(int root, process_walk_visit *visit, void *context, struct error *error);

#endif
