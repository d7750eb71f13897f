/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The lines of a run as they come, to its end. A run goes on while the server is away: the server is waited for then,
 * and the lines go on behind the last one that came, none of them twice.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_RUN_LINES_H
#define WEFT_CLI_PLATFORM_CLIENT_RUN_LINES_H

#include "cli/platform/client/client.h"

#define RUN_LINES_AWAY_SECONDS 60.0 /**< so long a server that has gone away is waited for */

/** What a command exits with that can follow a run no longer: neither 0 nor the 1 of a run that has failed. */
#define RUN_LINES_LOST 125

struct run_lines {
    int64_t run;
    int64_t attempt;                  /**< this one alone; 0: the last one, and those to come */
    int64_t last;                     /**< so many of the lines that are there already, 10000 at most */
    const struct platform_path *path; /**< of its log, with what chooses among its lines */
    FILE *output;                     /**< where lines go: none are asked for once that has an error */
    void (*take)(void *context, const cJSON *line, bool several); /**< nodes, that the run has */
    void *context;
};

/**
 * Give each line to `take`, until the run (or the attempt) is over; `*ended` is then what the server tells of the run
 * (GET /runs/N), to be freed with cJSON_Delete(). That the server has gone, and that it is back, are a message each on
 * standard error. Errors: as client.h has them; RENDEZVOUS, NETWORK, TIMEOUT or SYSTEM where it was waited for in vain.
 */
weft_status run_lines_follow(struct platform *platform, const struct run_lines *lines, cJSON **ended,
                             struct error *error);

#endif
