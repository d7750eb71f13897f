/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Parsers for /proc/stat, /proc/meminfo, /proc/net/dev, /proc/diskstats and /proc/PID/stat (proc(5);
 * Documentation/admin-guide/iostats.rst). They accept any text: lines that they do not understand are skipped, and so
 * is a last line without a newline, which may be truncated. Thread-safe.
 */
#ifndef WEFT_OBSERVE_PROC_KERNEL_TABLES_H
#define WEFT_OBSERVE_PROC_KERNEL_TABLES_H

#include <stdbool.h>
#include <stdint.h>

/** Time of all processors together since boot, in ticks (sysconf(_SC_CLK_TCK) per second). */
struct kernel_processors {
    uint32_t count;   /**< processors */
    uint64_t busy;    /**< running something: user, nice, system, interrupts; guests are in user and nice */
    uint64_t idle;    /**< nothing to do */
    uint64_t waiting; /**< idle while something waited for a disk */
    uint64_t stolen;  /**< the hypervisor ran another guest */
};

/** Read the line of all processors of /proc/stat. False if there is none. */
bool kernel_processors_parse(const char *text, struct kernel_processors *processors);

struct kernel_memory {
    uint64_t total, available; /**< bytes; available: without swapping */
    uint64_t swap_total, swap_free;
};

/** Read /proc/meminfo. False if total or available is missing; missing swap counts as 0. */
bool kernel_memory_parse(const char *text, struct kernel_memory *memory);

#define KERNEL_NAME_BYTES 48

/** Two counters of an interface or a disk. */
struct kernel_traffic {
    char name[KERNEL_NAME_BYTES];
    uint64_t in, out; /**< bytes received and sent; bytes read and written */
};

/** Read the next interface of /proc/net/dev and advance `*text`. False after the last one. */
bool kernel_interface_next(const char **text, struct kernel_traffic *interface);

/** Read the next disk or partition of /proc/diskstats. Its sectors are always 512 bytes. */
bool kernel_disk_next(const char **text, struct kernel_traffic *disk);

/** Of /proc/PID/stat. */
struct kernel_process {
    int32_t process, parent, group;
    uint64_t start;    /**< ticks since boot; start and number together identify a process */
    uint64_t own;      /**< ticks of processor time of all threads */
    uint64_t children; /**< ticks of children that it has waited for, and of theirs */
    uint64_t resident; /**< pages */
};

bool kernel_process_parse(const char *text, struct kernel_process *process);

/** The number in a line "key: 12 kB" or "key 12" of `text`; `missing` if there is no such line. */
uint64_t kernel_number_of(const char *text, const char *key, uint64_t missing);

#endif
