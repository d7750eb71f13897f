/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command in a node of a run, with the standard input, output and error of this process: the client's side of
 * platform/service/internal/exec_session.h. What comes is written by the caller's thread; what is typed is sent by another one, over a
 * connection of its own.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H
#define WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H

#include "base/error.h"

#include <stdbool.h>

/**
 * Run `command` (which ends with NULL) in the node that `place` names, RUN/node-N, or the first one of RUN, until it
 * has ended. With `terminal` it is given one; this process's, if it has one, is its keyboard and screen meanwhile. The
 * terminal is as it was before when this returns, and also when this process ends in between, by whatever can be
 * caught. `*exit_code` is the command's own, or 128 and the number of the signal that ended it; with an error, 127
 * where there is no such command to run, else NODE_SESSION_FAILED. Errors: ARGUMENT if `place` is malformed; as client.h
 * has them; PEER where the command could not be run, or was lost.
 */
#define NODE_SESSION_FAILED 125 /**< as docker exec has it: this is no exit code of the command */
weft_status node_session_run(const char *place, char *const *command, bool terminal, int *exit_code,
                             struct error *error);

#endif
