/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tables in which Linux tells what a machine does, read out of their texts: /proc/stat, /proc/meminfo,
 * /proc/net/dev, /proc/diskstats (proc(5); Documentation/admin-guide/iostats.rst). A text may hold anything: a line
 * that is not understood is left out, and so is a last line without its end, which was cut off. Thread-safe.
 */
#ifndef WEFT_OBSERVE_PROC_KERNEL_TABLES_H
#define WEFT_OBSERVE_PROC_KERNEL_TABLES_H

#include <stdbool.h>
#include <stdint.h>

/** What all processors together have done since the machine was started, in ticks (sysconf(_SC_CLK_TCK) a second). */
struct kernel_processors {
    uint32_t count;   /**< processors */
    uint64_t busy;    /**< running something: user, nice, system, interrupts; guests are in user and nice */
    uint64_t idle;    /**< nothing to do */
    uint64_t waiting; /**< nothing to do, and something waits for a disk */
    uint64_t stolen;  /**< the hypervisor ran somebody else */
};

/** Whether `text` of /proc/stat has the line of all processors. */
bool kernel_processors_parse(const char *text, struct kernel_processors *processors);

struct kernel_memory {
    uint64_t total, available; /**< bytes; available: without swapping */
    uint64_t swap_total, swap_free;
};

/** Whether `text` of /proc/meminfo has total and available; swap that is not told of is none. */
bool kernel_memory_parse(const char *text, struct kernel_memory *memory);

#define KERNEL_NAME_BYTES 48

/** Two counters with a name: an interface, or a disk. */
struct kernel_traffic {
    char name[KERNEL_NAME_BYTES];
    uint64_t in, out; /**< bytes received and sent; bytes read and written */
};

/** Take the next line of `*text` of /proc/net/dev that tells of an interface; false: there is none left. */
bool kernel_interface_next(const char **text, struct kernel_traffic *interface);

/** The same of /proc/diskstats: disks and their partitions alike. Its sectors have 512 bytes, whatever the disk's do.
 */
bool kernel_disk_next(const char **text, struct kernel_traffic *disk);

/** What /proc/PID/stat tells. */
struct kernel_process {
    int32_t process, parent, group;
    uint64_t start;    /**< ticks after the machine's start: with the number, one process and no other */
    uint64_t own;      /**< ticks of processor time, all its threads */
    uint64_t children; /**< the same of its children that it has waited for, and of theirs */
    uint64_t resident; /**< pages */
};

bool kernel_process_parse(const char *text, struct kernel_process *process);

/** The number after "key" at the beginning of a line of `text`, as "key: 12 kB" or "key 12"; `missing` if none. */
uint64_t kernel_number_of(const char *text, const char *key, uint64_t missing);

#endif
