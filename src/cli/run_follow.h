/* SPDX-License-Identifier: Apache-2.0 */
/** The output of a run as it comes, until the run has ended. */
#ifndef WEFT_CLI_RUN_FOLLOW_H
#define WEFT_CLI_RUN_FOLLOW_H

#include "cli/platform_client.h"

/**
 * Print the lines of all its nodes, from the first on, each behind its node where there are several and its rank where
 * it names one, to `output`, or to stderr where it came from there; when it has ended, say on stderr how. A server that
 * goes away is waited for (run_lines.h). `*exit_code` is 0 if it succeeded, else 1; with an error, RUN_LINES_LOST.
 */
weft_status run_follow(struct platform *platform, int64_t run, FILE *output, int *exit_code, struct error *error);

#endif
