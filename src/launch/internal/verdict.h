/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a job ends: which rank failed first, the message about it, when the others are ended, and the exit code.
 *
 * The death of a rank makes the others fail within milliseconds, and over a network the reports of their ends may
 * arrive first. So ends within a quarter of a second of the first failure are judged together, and a death by a signal
 * counts before an exit.
 *
 * Once a rank has finished, or has asked to be run again, the job is at its end. A replacement that fails then has come
 * too late to join; its failure is not reported unless it leaves too few ranks.
 */
#ifndef WEFT_LAUNCH_INTERNAL_VERDICT_H
#define WEFT_LAUNCH_INTERNAL_VERDICT_H

#include "base/error.h"
#include "launch/internal/output.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

#define VERDICT_NAME_BYTES 320 /**< for a rank's name in messages: "rank 2 on host hostb" */

struct verdict {
    const struct launch_config *config;
    struct output *output;
    uint32_t started;          /**< ranks that were started, replacements included: all numbers below this one */
    bool met;                  /**< the ranks have met: before, they would wait for one that is lost */
    uint32_t alive;            /**< ranks that have not ended */
    uint32_t finished;         /**< ranks that have ended with exit code 0 */
    const struct host **hosts; /**< by rank: where it was started */
    bool *forgiven;            /**< by rank: its failure did not end the others */
    bool *joined;              /**< by rank: it was a member of the job at some time */
    bool *leaving;             /**< by rank: it was asked to leave the job */
    bool *overtaken;           /**< by rank: see verdict_rank_overtaken() */
    int *ends;                 /**< wait statuses by rank; -1: runs */
    uint32_t *lost;       /**< ranks whose failure did not end the others, in order: replacements may follow them */
    uint32_t losses;      /**< how many these are */
    uint32_t last;        /**< rank that ended last */
    int64_t again;        /**< rank that was the first to ask to be run again; -1: none */
    int64_t culprit;      /**< rank that failed first; -1: none */
    uint64_t judge_at;    /**< when to judge the first failure; 0: there is none, or it is judged */
    char reason[512];     /**< the message about it */
    uint64_t next_kill;   /**< when the remaining ranks get the next signal; 0: never */
    int blows;            /**< how many signals have been sent: SIGTERM, then SIGKILL */
    int user_signal;      /**< the last one that was passed on */
    struct error failure; /**< the job could not be started, or a host was lost */
};

/* Ranks that leave the job on request are neither lost nor finished. */

/** Begin, with all ranks of `config` running; messages go to `output`. verdict_close() frees. Errors: MEMORY. */
weft_status verdict_open(struct verdict *verdict, const struct launch_config *config, struct output *output,
                         struct error *error);
void verdict_close(struct verdict *verdict);

/** One more rank is started on `host`: its number. At most config->additions times. */
uint32_t verdict_rank_add(struct verdict *verdict, const struct host *host);

/** Write how messages name a rank into `text`, which it returns. */
char *verdict_rank_name(const struct verdict *verdict, uint32_t rank, char text[VERDICT_NAME_BYTES]);

/** Whether the others go on without the ranks that have failed. Once this is false it remains so. */
bool verdict_goes_on(const struct verdict *verdict);

/** The job does not take in rank `rank`, which is about to end: one that was started after it has joined before it. */
void verdict_rank_overtaken(struct verdict *verdict, uint32_t rank);

/** Rank `rank` has ended with wait status `end`. */
void verdict_rank_ended(struct verdict *verdict, uint32_t rank, int end);

/** The job fails for another reason than the end of a rank. The first reason counts. */
void verdict_fail(struct verdict *verdict, weft_status status, const char *message);

/**
 * A host was lost: its ranks count as killed. Unless the ranks of the job had `started` and the others continue, calls
 * verdict_fail() with `message`.
 */
void verdict_lose_host(struct verdict *verdict, const struct host *host, bool started, const char *message);

/** The user has sent the job signal `number`: ranks that have not ended within `seconds` are ended. */
void verdict_user_signal(struct verdict *verdict, int number, double seconds);

/** Judge, if it is time or all ranks have ended. */
void verdict_judge(struct verdict *verdict);

/** The signal to send to all ranks now; 0: none. */
int verdict_kill_signal(struct verdict *verdict);

/** How the job has ended, once all ranks have; or the failure of verdict_fail(). */
weft_status verdict_result(struct verdict *verdict, struct launch_result *result, struct error *error);

#endif
