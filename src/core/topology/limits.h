/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The memory and processor time still available to this process: physical memory, control groups (version 1 and 2,
 * every level up to the root), RLIMIT_AS, and the set of processors it may run on. Read in well under a millisecond,
 * without hwloc. Thread-safe.
 */
#ifndef WEFT_CORE_TOPOLOGY_LIMITS_H
#define WEFT_CORE_TOPOLOGY_LIMITS_H

#include "base/error.h"

#include <stdint.h>

#define LIMITS_NONE UINT64_MAX /**< there is no such limit */

struct limits {
    uint64_t memory_total;     /**< bytes of physical memory */
    uint64_t memory_available; /**< bytes that can be used without swapping (MemAvailable) */
    uint64_t group_limit;      /**< tightest memory limit of the control groups, or LIMITS_NONE */
    uint64_t group_available;  /**< the unused rest of it, reclaimable file cache not counted as used, or LIMITS_NONE */
    uint64_t address_space_limit; /**< RLIMIT_AS, or LIMITS_NONE */
    uint64_t address_space_used;  /**< bytes mapped by this process now */
    uint64_t locked_limit;        /**< RLIMIT_MEMLOCK (verbs and efa pin memory), or LIMITS_NONE */
    uint32_t processors;          /**< processors this process may run on (sched_getaffinity) */
    uint64_t processor_set;       /**< a hash of that set of processors */
    double processor_quota;       /**< processors' worth of time the control groups allow; 0: no limit */
};

/**
 * Read all of them. A limit that the kernel does not report counts as absent. Errors: SYSTEM if even /proc/meminfo is
 * missing.
 */
weft_status limits_read(struct limits *limits, struct error *error);

/**
 * As limits_read(), with every file looked up below `root` ("" for the real ones), so that tests can use other
 * machines' files.
 */
weft_status limits_read_below(const char *root, struct limits *limits, struct error *error);

/** Bytes that may still be mapped (address space), and that may still be touched (memory and control groups). */
uint64_t limits_mappable(const struct limits *limits);
uint64_t limits_touchable(const struct limits *limits);

/** Processors that can be busy at once: the affinity set, less by a quota; at least 1. */
uint32_t limits_processors(const struct limits *limits);

/**
 * Check whether `bytes` can be mapped, and `touched` of them used, for `what` ("the shared heap"). Errors: MEMORY with
 * a message that names the limit that is too small, its value, and what to do.
 */
weft_status limits_check(const struct limits *limits, uint64_t bytes, uint64_t touched, const char *what,
                         struct error *error);

#endif
