/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pods that this server holds: a long job of Slurm on all free nodes of each Pod. Attempts are steps of these jobs, so they begin
 * without waiting for Slurm's scheduler, and nobody else gets the nodes between them.
 *
 * What holds a Pod is itself an attempt of one node, "pod-NAME", whose command sleeps: so it has a job, a token, a host process
 * that is heard and lost, and a place on disk like any other (remote.h). A step is started by a command in that node (remote_exec()).
 * Nodes that become free while a Pod is held come into the next job, which follows when nothing runs in this one. When
 * the job's time is nearly over, attempts in it are asked for a checkpoint and start again in the next one.
 *
 * All functions belong to the engine's thread; none waits.
 */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PODS_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PODS_H

#include "platform/engine/slurm/internal/job.h"

/** Hold the Pods for so many seconds each time. Errors: MEMORY. */
weft_status pods_open(struct engine_slurm *slurm, uint64_t seconds, struct pods **pods, struct error *error);

/** The jobs stay. NULL is allowed. */
void pods_close(struct pods *pods);

/** Whether what was submitted is a step. */
bool pods_is_step(const struct slurm_submission *submission);

/** After a restart of the server: a job that was there before; `submission` NULL: it cannot be read. A step for an attempt; nothing
 * happens if there is one. Errors: MEMORY. */
weft_status pods_take(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
                      struct error *error);
weft_status pods_add_step(struct pods *pods, const struct attempt *attempt, const struct slurm_submission *submission,
                          struct error *error);

/** Look after jobs and steps: to be called every second. */
void pods_turn(struct pods *pods);

/** Why nothing can start on a host now; NULL: something can. */
const char *pods_lack(const struct pods *pods, const char *host);

/** Whether an order can be a step. Errors: ARGUMENT. */
weft_status pods_check(const struct pods *pods, const struct engine_order *order, const struct job_needs *needs,
                       struct error *error);

/** Start an attempt, whose orders have been written, as soon as a job has its nodes; idempotent. `needs->names` ends with NUL.
 * Errors: SYSTEM, MEMORY. */
weft_status pods_start(struct pods *pods, const struct engine_order *order, const struct job_needs *needs,
                       struct error *error);

#endif
