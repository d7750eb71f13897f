/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command in a node of a run, with an input and an output of this process: the client's side of
 * platform/service/internal/exec_session.h. The caller's thread writes the output; another thread sends the input, over its own
 * connection. Thread-safe without a terminal.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H
#define WEFT_CLI_PLATFORM_RUNS_NODE_SESSION_H

#include "base/error.h"

#include <stdbool.h>

struct node_session_config {
    const char *place;        /**< RUN/node-N, or RUN for its first node */
    char *const *command;     /**< ends with NULL */
    char *const *environment; /**< "NAME=VALUE", added to the node's; ends with NULL, or is NULL */
    bool terminal; /**< give it a terminal, whose keyboard and screen is this process's terminal, if there is one */
    int input;     /**< descriptor of what it reads; standard error is this process's */
    int output;    /**< and of what it writes */
};

/**
 * Run the command until it ends. This process's terminal is restored on return, and also if the process ends by a
 * signal that can be caught. `*exit_code` is the command's, or 128 plus the number of the signal that ended it; after an
 * error, 127 if there is no such command, else NODE_SESSION_FAILED.
 *
 * Errors: ARGUMENT if the place is malformed; those of client.h; PEER if the command could not be run, or was lost.
 */
#define NODE_SESSION_FAILED 125 /**< as docker exec has it: this is no exit code of the command */
weft_status node_session_run(const struct node_session_config *config, int *exit_code, struct error *error);

#endif
