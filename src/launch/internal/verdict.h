/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a job ends: which rank failed first, what is said about it, when the others are made to end, and the exit code of
 * it all.
 *
 * One rank's death makes the others fail within milliseconds, and over a network their ends may be told before its own.
 * So the ends that come within a quarter of a second of the first failure are judged together, and a death by a signal
 * comes before an exit.
 */
#ifndef WEFT_LAUNCH_INTERNAL_VERDICT_H
#define WEFT_LAUNCH_INTERNAL_VERDICT_H

#include "base/error.h"
#include "launch/internal/output.h"
#include "launch/launch.h"

#include <stdint.h>

struct verdict {
    const struct launch_config *config;
    struct output *output;
    uint32_t alive;       /**< ranks that have not ended */
    int *ends;            /**< wait statuses by rank; -1: runs */
    uint32_t last;        /**< rank that ended last */
    int64_t culprit;      /**< rank that failed first; -1: none */
    uint64_t judge_at;    /**< when the first failure is judged; 0: there is none, or it has been */
    char reason[512];     /**< the message about it */
    uint64_t next_kill;   /**< when the ranks that are left get the next signal; 0: never */
    int blows;            /**< so many of SIGTERM, then SIGKILL, have been sent */
    int user_signal;      /**< the last one that the user has had passed on */
    struct error failure; /**< no rank's: the job could not be started, or a host was lost */
};

/** All ranks of `config` run; what is said goes to `output`. verdict_close() frees. Errors: MEMORY. */
weft_status verdict_open(struct verdict *verdict, const struct launch_config *config, struct output *output,
                         struct error *error);
void verdict_close(struct verdict *verdict);

/** Rank `rank` has ended with wait status `end`. */
void verdict_rank_ended(struct verdict *verdict, uint32_t rank, int end);

/** The whole job fails for a reason that is no rank's end; the first one counts. */
void verdict_fail(struct verdict *verdict, weft_status status, const char *message);

/** A host was lost: nobody will tell of its ranks any more, they count as killed. verdict_fail() with `message`. */
void verdict_lose_host(struct verdict *verdict, const struct host *host, const char *message);

/** The user has sent the job signal `number`: who has not ended within `seconds` is made to. */
void verdict_user_signal(struct verdict *verdict, int number, double seconds);

/** Judge, if it is time or everybody has ended. */
void verdict_judge(struct verdict *verdict);

/** The signal that all ranks are to get now; 0: none. */
int verdict_kill_signal(struct verdict *verdict);

/** How the job has ended, once nobody runs; or the failure that is no rank's. */
weft_status verdict_result(struct verdict *verdict, struct launch_result *result, struct error *error);

#endif
