/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a control group uses, version 2 (one tree), version 1 (a tree a controller) and machines that have both. The
 * trees are looked for where every current system mounts them: /sys/fs/cgroup, or directories in it. Thread-safe.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_CONTROL_GROUP_USE_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_CONTROL_GROUP_USE_H

#include <stdbool.h>
#include <stdint.h>

struct control_group_use {
    bool has_time, has_memory;
    uint64_t nanoseconds; /**< of processor time since the group was made; processes that have ended are in it */
    uint64_t memory;      /**< bytes, file cache that can be taken back not counted */
};

/** Read them for the group at `path` of its tree ("/weft/run-7"), below the directory `root` (a descriptor). */
void control_group_use_read(int root, const char *path, struct control_group_use *use);

#endif
