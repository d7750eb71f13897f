/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Limits of a node's processes: control groups (cgroup.h), and for controllers that are not available, limits that each
 * process sets for itself before it starts the run's program:
 *
 *     memory       RLIMIT_DATA, for each process, if the run has asked for an amount; shared memory and files do not
 *                  count there
 *     processes    RLIMIT_NPROC, if the processes are another user's than the agent's; counts all of that user's
 *     processors   the CPU affinity, which a program can change
 *
 * A node's processes are killed before the agent and the server when the machine itself runs out of memory
 * (oom_score_adj). Thread-safe.
 */
#ifndef WEFT_PLATFORM_AGENT_LIMITS_H
#define WEFT_PLATFORM_AGENT_LIMITS_H

#include "platform/agent/cgroup/cgroup.h"
#include "platform/agent/order.h"

/** Make the node's control group; one without any tree is harmless. */
void node_limits_make(const struct node_order *order, const char *directory, struct cgroup *group);

/** Find the group that a node of this directory may have left, without setting limits. */
void node_limits_find(const struct node_order *order, const char *directory, struct cgroup *group);

/** In a child, after fork() and before it changes its user: apply the limits. False: the group has limits but cannot be
 * entered. */
bool node_limits_enter(const struct node_order *order, const struct cgroup *group, bool other_user);

/**
 * Write to `message` which limits the node has reached since `seen`, and update `seen`: "run 3
 * used more than its 1 GiB of memory on host a ...". False: nothing.
 */
bool node_limits_tell(const struct node_order *order, const struct cgroup *group, struct cgroup_events *seen,
                      char *message, size_t size);

/** Which limits are enforced on this machine, as a message for people; returns `text`. */
#define NODE_LIMITS_TEXT_BYTES 512
char *node_limits_describe(char text[NODE_LIMITS_TEXT_BYTES]);

#endif
