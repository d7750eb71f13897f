/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent: a process of its own for one node of an attempt, that outlives whoever started it. It runs what the order
 * in the node's directory says (platform/agent/order.h), writes what happens to the journal there, and obeys.
 *
 * A node is begun once: the agent holds a lock, and an agent that finds that another one has begun goes away. Before it
 * begins, it sees to it that agents of older attempts of the run on this machine have ended.
 *
 * The command and all that comes of it ends when
 *
 *     the command itself ends           what it has left behind is killed
 *     a stop is ordered                 its signal, and SIGKILL to all when the grace period is over
 *     the time limit or the lease ends  as a stop with SIGTERM; so if the agent itself gets SIGTERM
 *     there is a newer epoch            killed at once (fenced); so if the node's directory is taken away
 *     the agent is killed               the kernel kills its children; node_agent_bury_killed() the rest
 *
 * A node that is told to end before its command has begun never runs it, and says so by the exit code 75: nothing of it
 * has been done, and it has to be run again. One that has no command of its own has ended well then.
 *
 * Nothing escapes: the agent is the subreaper of what it starts, and a cgroup holds it where there may be one.
 */
#ifndef WEFT_PLATFORM_AGENT_AGENT_H
#define WEFT_PLATFORM_AGENT_AGENT_H

#include "platform/agent/order.h"

/** Be the agent of the node in `directory` (an absolute path) until it has ended: in a child of the process that calls,
 * which returns 0 at once, for the system to inherit. Returns the process's exit code. */
int node_agent_main(const char *directory);

enum node_life {
    NODE_NOT_BEGUN, /**< no agent has had the lock yet */
    NODE_LIVES,
    NODE_HAS_ENDED, /**< in order: the journal has its last record */
    NODE_IS_DEAD,   /**< the agent is gone, and did not end in order */
};

/** What the lock in `directory` says, and (`process`, may be NULL) the number of the agent, 0 if there was none or it does
 * not listen yet. */
enum node_life node_agent_life(const char *directory, int64_t *process);

/**
 * After the death of an agent: kill what is left of its node, and end the journal with JOURNAL_LOST and `message`, if
 * it has no end. Nothing is done if an agent lives. Errors: SYSTEM, DATA.
 */
weft_status node_agent_bury(const char *directory, const char *message, struct error *error);

/**
 * The same where the machine has gone on. An agent whose user is that of the run's processes was killed by these or by
 * their user, unless the kernel has killed processes for want of memory meanwhile: then the journal ends with
 * JOURNAL_EXITED and JOURNAL_AGENT_KILLED. Otherwise the node is lost.
 */
weft_status node_agent_bury_killed(const char *directory, struct error *error);

/**
 * Whether nothing of the node in `directory` runs any more, whatever has become of its journal. With `kill` its agent is
 * killed: ask again until it is gone, and the rest with it; and one that has not begun never will. Without a directory
 * nothing runs. Errors: SYSTEM where that cannot be found out, or done.
 */
weft_status node_agent_gone(const char *directory, bool kill, bool *gone, struct error *error);

#endif
