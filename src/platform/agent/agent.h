/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent: a process for one node of an attempt that outlives the server. It runs the order in the node's directory
 * (platform/agent/order.h), writes what happens to the journal there, and obeys later orders.
 *
 * A node is started once. The agent holds a lock; a second agent exits. Before it starts the command, it ends agents of
 * older attempts of the run on this host.
 *
 * The command and all of its descendants end when
 *
 *     the command itself ends           what it left running is killed
 *     a stop is ordered                 by the ordered signal, and SIGKILL after the grace period
 *     the time limit or the lease ends  as a stop with SIGTERM; also when the agent itself gets SIGTERM
 *     there is a newer epoch            killed at once (fenced); also when the node's directory is removed
 *     the agent is killed               the kernel kills its children; node_agent_bury_killed() the rest
 *
 * A node that is stopped before its command has started never runs it, and reports exit code 75: nothing was done, and
 * it must run again. A node without a command then succeeds.
 *
 * The agent is the subreaper of its descendants, and a cgroup contains them where one is available.
 */
#ifndef WEFT_PLATFORM_AGENT_AGENT_H
#define WEFT_PLATFORM_AGENT_AGENT_H

#include "platform/agent/order.h"

/** Run the agent of the node in `directory` (an absolute path) until the node has ended. The agent is a forked child, and
 * the calling process returns 0 at once. Returns the exit code of the process. */
int node_agent_main(const char *directory);

enum node_life {
    NODE_NOT_BEGUN, /**< no agent has had the lock yet */
    NODE_LIVES,
    NODE_HAS_ENDED, /**< the journal has its last record */
    NODE_IS_DEAD,   /**< the agent is gone, and the journal has no end */
};

/** The state according to the lock in `directory`. `*process` (may be NULL) is the agent's process id; 0 if there was
 * none, or it does not listen yet. */
enum node_life node_agent_life(const char *directory, int64_t *process);

/**
 * After the death of an agent: kill what is left of its node, and end the journal with JOURNAL_LOST and `message` if it
 * has no end. Does nothing while an agent lives. Errors: SYSTEM, DATA.
 */
weft_status node_agent_bury(const char *directory, const char *message, struct error *error);

/**
 * The same if the host was up all the time. If the agent ran as the same user as the run's processes and the kernel has
 * not killed processes for lack of memory since, the run or its user killed the agent: the journal ends with
 * JOURNAL_EXITED and JOURNAL_AGENT_KILLED. Otherwise the node is lost.
 */
weft_status node_agent_bury_killed(const char *directory, struct error *error);

/**
 * Whether nothing of the node in `directory` runs any more, regardless of its journal. With `kill` the agent is killed,
 * and a node that has not started never will: call again until `*gone`. Without a directory nothing runs. Errors: SYSTEM.
 */
weft_status node_agent_gone(const char *directory, bool kill, bool *gone, struct error *error);

#endif
