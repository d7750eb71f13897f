/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The output of a run, line by line as it comes, until the run ends. A run continues while the server is away: then this
 * waits for the server and continues after the last line that came, without repeating any.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_RUN_LINES_H
#define WEFT_CLI_PLATFORM_CLIENT_RUN_LINES_H

#include "cli/platform/client/client.h"

#define RUN_LINES_AWAY_SECONDS 60.0 /**< how long to wait for a server that has gone away */

/** Exit code of a command that lost the run: neither 0 nor the 1 of a run that failed. */
#define RUN_LINES_LOST 125

struct run_lines {
    int64_t run;
    int64_t attempt;                  /**< this one alone; 0: the last one, and those to come */
    int64_t last;                     /**< how many of the lines that are there already, 10,000 at most */
    const struct platform_path *path; /**< of its log, with the selection of lines */
    FILE *output;                     /**< where lines go; an error of it ends the reading */
    void (*take)(void *context, const cJSON *line, bool several); /**< `several`: the run has more than one node */
    void *context;
};

/**
 * Give each line to `take` until the run (or the attempt) is over. `*ended` is then the server's description of the run
 * (GET /runs/N), freed with cJSON_Delete(). A message on standard error says that the server has gone, another one that
 * it is back. Errors: as client.h; RENDEZVOUS, NETWORK, TIMEOUT or SYSTEM if the server did not come back in time.
 */
weft_status run_lines_follow(struct platform *platform, const struct run_lines *lines, cJSON **ended,
                             struct error *error);

/** Print what a line begins with: "[node 1] " if the run has several nodes, "[rank 3] " if the line names its rank. */
void run_lines_print_origin(const cJSON *line, bool several, FILE *output);

#endif
