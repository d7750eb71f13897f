/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The control groups of a node: they hold its processes, whatever these do to their parents and process groups, and
 * limit their processors, memory and number.
 *
 * Version 2 has one tree for all of this. Version 1 has a tree for each controller; where it is mounted, there may also
 * be a tree of version 2 without controllers, which can count and kill. A group is made in all trees that this process
 * may write to, at the same place below its own group:
 *
 *     OWN/weft-runs          all runs: bounded so that the server, its agents and the machine have a reserve
 *     OWN/weft-runs/NAME     a node
 *     OWN/weft-server        version 2: the server and its agents; a group with limits below it has no processes
 *
 * Where no tree can be written to (not root, no delegation, a container), groups are empty and every call does nothing.
 * Thread-safe.
 */
#ifndef WEFT_PLATFORM_AGENT_CGROUP_CGROUP_H
#define WEFT_PLATFORM_AGENT_CGROUP_CGROUP_H

#include "base/file/file.h"

#include <stdbool.h>
#include <stdint.h>

enum cgroup_controller {
    CGROUP_CPU,
    CGROUP_CPUSET,
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CONTROLLERS, /**< how many there are */
};

#define CGROUP_UNIFIED CGROUP_CONTROLLERS /**< the place of version 2's tree among the directories */

/** Where groups can be made: the directory for each controller, and that of version 2's tree; "": none. */
struct cgroup_place {
    char directories[CGROUP_CONTROLLERS + 1][FILE_PATH_BYTES];
    bool version_2[CGROUP_CONTROLLERS]; /**< the controller is in version 2's tree */
};

/** A group, or none. `directories` as above. */
struct cgroup {
    char directories[CGROUP_CONTROLLERS + 1][FILE_PATH_BYTES];
    bool version_2[CGROUP_CONTROLLERS];
    bool limits[CGROUP_CONTROLLERS]; /**< what was to be limited by this controller is */
};

/** What a node may use. */
struct cgroup_limits {
    uint64_t memory;        /**< bytes, swap included; 0: no limit */
    uint64_t memory_of_all; /**< of all groups here together; 0: no limit */
    uint64_t processes;     /**< threads count; 0: no limit */
    uint32_t quota;         /**< processors' worth of time; 0: no limit */
    uint32_t weight;        /**< its share of busy processors, against other groups; 0: 1 */
    const char *processors; /**< those that it may run on, "0-3,8"; NULL or "": all */
};

/** What has happened in a group. */
struct cgroup_events {
    uint64_t memory_kills; /**< processes that were killed because the group was at its limit of memory */
    uint64_t memory_peak;  /**< bytes; 0: not known */
    uint64_t forks_denied; /**< because of the limit of processes */
};

/** How many processes the kernel has killed for want of memory in a group, without those below it. */
struct cgroup_kills {
    uint64_t count;
    char file[FILE_PATH_BYTES]; /**< that counts them */
};

/** Those of this process's own group; those of the group with that file. False: it cannot be read. */
bool cgroup_kills_find(const char *root, struct cgroup_kills *kills);
bool cgroup_kills_read(struct cgroup_kills *kills);

/** Find where this process may make groups. `root` is "" but in tests. */
void cgroup_find(const char *root, struct cgroup_place *place);

/**
 * Make version 2 ready: give the controllers to groups below this process's own one, and move this process to
 * OWN/weft-server if it is alone in its group and that needs it. For the server, once, before it starts an agent.
 */
void cgroup_prepare(const char *root);

/** Make the group `name`, with its limits; an old one of this name is used again. */
void cgroup_make(const struct cgroup_place *place, const char *name, const struct cgroup_limits *limits,
                 struct cgroup *group);

/** In a child, after fork(): move into the group. False: it is not in every part of it. */
bool cgroup_enter(const struct cgroup *group);

/** Read what has happened in it; what cannot be read is 0. */
void cgroup_events_read(const struct cgroup *group, struct cgroup_events *events);

/** Kill all that is in it, and wait until it is empty, at most `seconds`. */
bool cgroup_kill(const struct cgroup *group, double seconds);

/** Remove the group, which must be empty, and what only it has needed. */
void cgroup_remove(const struct cgroup *group);

/** The group as /proc/PID/cgroup names it in version 2's tree, a part of `group`; NULL: there is none. */
const char *cgroup_in_tree(const struct cgroup *group);

#endif
