/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command in a node of a run, with the standard input, output and error of this process: the client's side of
 * service/exec_session.h. What comes is written by the caller's thread; what is typed is sent by another one, over a
 * connection of its own.
 */
#ifndef WEFT_CLI_NODE_SESSION_H
#define WEFT_CLI_NODE_SESSION_H

#include "cli/platform_client.h"

struct node_session_order {
    int64_t run, node;
    char *const *command; /**< ends with NULL */
    bool terminal; /**< give it a terminal; this process's, if it has one, is its keyboard and screen meanwhile */
};

/**
 * Run it until it has ended. `*exit_code` is its own, or 128 and the number of the signal that ended it. The terminal
 * is as it was before when this returns, and also when this process ends in between, by whatever can be caught. Errors:
 * as client.h has them; PEER where the command was lost.
 */
weft_status node_session_run(struct platform *platform, const struct node_session_order *order, int *exit_code,
                             struct error *error);

#endif
