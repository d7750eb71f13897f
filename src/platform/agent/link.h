/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The UNIX socket of an agent, in its node's directory. It accepts connections of the agent's user, of root, and of the
 * user whose processes the node runs. The latter may send only NODE_EXEC and NODE_SIGNAL, as `weft run` does on another
 * node of the attempt. Messages are frames (core/control/wire/frame.h):
 *
 *     to the agent      NODE_WATCH      report when something was appended to the journal; renews the lease
 *                       NODE_WAKE       look at the orders in the directory now
 *                       NODE_EXEC       terminal (4), command (texts), environment (texts); with three descriptors
 *                       NODE_SIGNAL     number (4): for the command that NODE_EXEC started
 *     from the agent    NODE_NUDGE      something was appended; once for all since the last look
 *                       NODE_STARTED    process (8)
 *                       NODE_REFUSED    message (text), exit code (4): NODE_NOT_RUN if the command cannot be run; else 0
 *                       NODE_EXITED     exit code (4), signal (4; 0: none)
 *
 * A connection carries at most one NODE_EXEC. When it closes, that command gets SIGHUP, and SIGKILL two seconds later.
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_AGENT_LINK_H
#define WEFT_PLATFORM_AGENT_LINK_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_FRAME_MOST  ((size_t)1 << 20)
#define NODE_SOCKET_NAME "socket"
#define NODE_NOT_RUN     127 /**< exit code of a command that cannot be run, as in shells */

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

/** Listen at, or connect to, the socket in a node's directory; its path may have any length. Errors: SYSTEM. */
weft_status node_listen(const char *directory, int *descriptor, struct error *error);
weft_status node_connect(const char *directory, int *descriptor, struct error *error);

/** Make the agent look at its orders now. Errors: SYSTEM, usually because it does not live. */
weft_status node_wake(const char *directory, struct error *error);

/** A descriptor that is readable when something was appended, and at end of file when the agent is gone. */
weft_status node_watch(const char *directory, int *descriptor, struct error *error);

/** Consume pending nudges. False: the agent is gone. */
bool node_watch_take(int descriptor);

/** A command to run in a node's context: its directory, environment, user and cgroup. */
struct node_exec_order {
    char *const *command;     /**< ends with NULL */
    char *const *environment; /**< "NAME=VALUE", overrides the node's; ends with NULL, or is NULL */
    int descriptors[3];       /**< its standard input, output and error; the caller keeps them */
    bool terminal;            /**< they are a terminal, which becomes the command's controlling one */
};

/** A command that runs, or has ended. */
struct node_exec {
    int descriptor; /**< readable when there is news; closing it ends the command */
    struct buffer in;
    int64_t process; /**< 0: not known yet */
    bool ended;
    int code, signal; /**< of its end; code is NODE_NOT_RUN if the command itself cannot be run */
};

/** Request it; node_exec_close() ends it. Errors: SYSTEM; ARGUMENT if the command is too long. */
weft_status node_exec_begin(const char *directory, const struct node_exec_order *order, struct node_exec *exec,
                            struct error *error);

/**
 * Read pending messages, or with `wait` at least one; sets exec->process, later exec->ended. Errors: ARGUMENT with the
 * agent's message if the command could not be run; PEER if the agent is gone.
 */
weft_status node_exec_hear(struct node_exec *exec, bool wait, struct error *error);

/** Send signal `number` to the command's process group. */
weft_status node_exec_signal(struct node_exec *exec, int number, struct error *error);
void node_exec_close(struct node_exec *exec);

#endif
