/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A control group (version 2) that holds the processes of a node, whatever they do to their parents and groups: where
 * this process may make one below its own. It limits nothing; it counts and it kills. Where there is none, the path is
 * "" and every call does nothing. Thread-safe.
 */
#ifndef WEFT_PLATFORM_CGROUP_H
#define WEFT_PLATFORM_CGROUP_H

#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>

/** Make the group `name` and write its folder to `path`; an old one of this name is used again. */
void cgroup_make(const char *name, char path[FILE_PATH_BYTES]);

/** In a child: move into the group. */
void cgroup_enter(const char *path);

/** Kill all that is in it (Linux 5.14; before that one by one), and wait until it is empty, at most `seconds`. */
bool cgroup_kill(const char *path, double seconds);

/** Remove the group, which must be empty. */
void cgroup_remove(const char *path);

/** The group as /proc/PID/cgroup names it, which is a part of `path`; NULL: there is none. */
const char *cgroup_in_tree(const char *path);

#endif
