/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The limits of this process's control groups, version 1 (a tree per controller) and version 2 (one tree) alike.
 *
 * A limit may be set at any level between the process's group and the root, and each level counts the usage of all
 * below it; the tightest applies. The trees are expected where every current system mounts them: at /sys/fs/cgroup, or
 * in directories in it.
 */
#ifndef WEFT_CORE_TOPOLOGY_INTERNAL_CONTROL_GROUP_H
#define WEFT_CORE_TOPOLOGY_INTERNAL_CONTROL_GROUP_H

#include <stdint.h>

struct control_group {
    uint64_t memory_limit; /**< bytes of the tightest level, or LIMITS_NONE */
    uint64_t
        memory_available;   /**< least left at any level, not counting reclaimable file cache as used; or LIMITS_NONE */
    double processor_quota; /**< processors' worth of time; 0: no limit */
};

/** Read them below `root` ("" for the real ones). A file that is missing or odd counts as no limit. Thread-safe. */
void control_group_read(const char *root, struct control_group *group);

#endif
