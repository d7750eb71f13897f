/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command in a node of a run, with the standard input, output and error of this process: the client's side of
 * platform/service/internal/exec_session.h. The caller's thread writes the output; another thread sends the input, over its own
 * connection.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H
#define WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H

#include "base/error.h"

#include <stdbool.h>

/**
 * Run `command` (which ends with NULL) in the node `place` (RUN/node-N, or RUN for its first node) until it ends. With
 * `terminal` it gets a terminal, whose keyboard and screen is this process's terminal, if there is one. This process's
 * terminal is restored on return, and also if the process ends by a signal that can be caught. `*exit_code` is the
 * command's, or 128 plus the number of the signal that ended it; after an error, 127 if there is no such command, else
 * NODE_SESSION_FAILED.
 *
 * Errors: ARGUMENT if `place` is malformed; those of client.h; PEER if the command could not be run, or was lost.
 */
#define NODE_SESSION_FAILED 125 /**< as docker exec has it: this is no exit code of the command */
weft_status node_session_run(const char *place, char *const *command, bool terminal, int *exit_code,
                             struct error *error);

#endif
