/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How one reaches the agent of a node: the UNIX socket in the node's directory, which takes connections of the agent's
 * user, of root, and of the user whose processes the node runs; that one may say NODE_EXEC and NODE_SIGNAL alone, as
 * `weft run` does on another node of the attempt. What is said are frames (core/control/wire/frame.h):
 *
 *     to the agent      NODE_WATCH      say when something was appended to the journal; counts as contact for the lease
 *                       NODE_WAKE       look at the orders in the directory now
 *                       NODE_EXEC       terminal (4), command (texts), environment (texts); three descriptors with it
 *                       NODE_SIGNAL     number (4): for what NODE_EXEC has started
 *     from the agent    NODE_NUDGE      something was appended; once for what came since the last look
 *                       NODE_STARTED    process (8)
 *                       NODE_REFUSED    message (text), exit code (4): NODE_NOT_RUN where it is the command that
 * cannot be run, else 0 NODE_EXITED     exit code (4), signal (4; 0: none)
 *
 * A connection carries one NODE_EXEC at most; when it closes, what that has started gets SIGHUP, and SIGKILL two
 * seconds later. Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_AGENT_LINK_H
#define WEFT_PLATFORM_AGENT_LINK_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_FRAME_MOST  ((size_t)1 << 20)
#define NODE_SOCKET_NAME "socket"
#define NODE_NOT_RUN     127 /**< the exit code of a command that cannot be run, as shells have it */

enum node_frame {
    NODE_WATCH = 1,
    NODE_WAKE,
    NODE_EXEC,
    NODE_SIGNAL,
    NODE_NUDGE,
    NODE_STARTED,
    NODE_REFUSED,
    NODE_EXITED,
};

/** Listen at, or connect to, the socket of a node's directory, whatever the length of its path. Errors: SYSTEM. */
weft_status node_listen(const char *directory, int *descriptor, struct error *error);
weft_status node_connect(const char *directory, int *descriptor, struct error *error);

/** Have the agent look at its orders now. Errors: SYSTEM, mostly because it does not live. */
weft_status node_wake(const char *directory, struct error *error);

/** A descriptor that becomes readable when something was appended, and at its end when the agent is gone. */
weft_status node_watch(const char *directory, int *descriptor, struct error *error);

/** Take away the nudges that have come; false: the agent is gone. */
bool node_watch_take(int descriptor);

/** A command to run in a node's context: its directory, environment, user and cgroup. */
struct node_exec_order {
    char *const *command;     /**< ends with NULL */
    char *const *environment; /**< "NAME=VALUE", over the node's; ends with NULL, or is NULL */
    int descriptors[3];       /**< its standard input, output and error; stay the caller's */
    bool terminal;            /**< they are a terminal: it becomes the command's own */
};

/** A command that runs, or whose end is known. */
struct node_exec {
    int descriptor; /**< readable when there is something to hear; closing it ends the command */
    struct buffer in;
    int64_t process; /**< 0: not known yet */
    bool ended;
    int code, signal; /**< of its end; of one that could not be run, code is NODE_NOT_RUN where that is its own fault */
};

/** Ask for it. node_exec_close() ends what was begun. Errors: SYSTEM; ARGUMENT for too long a command. */
weft_status node_exec_begin(const char *directory, const struct node_exec_order *order, struct node_exec *exec,
                            struct error *error);

/**
 * Hear what has come, with `wait` until something has: exec->process and then exec->ended are set. Errors: ARGUMENT
 * with the agent's message if the command could not be run; PEER if the agent is gone.
 */
weft_status node_exec_hear(struct node_exec *exec, bool wait, struct error *error);

/** Send signal `number` to the command's process group. */
weft_status node_exec_signal(struct node_exec *exec, int number, struct error *error);
void node_exec_close(struct node_exec *exec);

#endif
