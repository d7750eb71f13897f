/* SPDX-License-Identifier: Apache-2.0 */
/** A node of a run on a command line: RUN, or RUN/node-N with N from 0 on. */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_NODE_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_NODE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define RUN_NODE_NONE (-1)

/** Divide `word`: the RUN in front (`room` bytes), and the node, or RUN_NODE_NONE where none is named. Errors:
 * ARGUMENT. */
weft_status run_node_parse(const char *word, char *run, size_t room, int64_t *node, struct error *error);

#endif
