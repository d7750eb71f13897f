/* SPDX-License-Identifier: Apache-2.0 */
/** What Slurm is asked for an attempt, and what runs then: a process on each node. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_JOB_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_JOB_H

#include "base/buffer.h"
#include "platform/engine/slurm/internal/state.h"

#define JOB_OUTPUT_BYTES (NODE_PLATFORM_BYTES + ATTEMPT_RUN_BYTES + 64)

/** What each node of an order needs of Slurm. */
struct job_needs {
    uint32_t cpus, gpus;
    uint64_t memory;     /**< 0: not known */
    struct buffer names; /**< "n1,n2", not terminated; the caller frees it */
    bool spans;          /**< the nodes are in several Pods */
};

/** Slots of a node: its GPUs, or its processors; with more than 64, each slot stands for several. */
uint32_t job_slots(const struct driver_host *host);

/** Errors: ARGUMENT for a host that there is not; MEMORY. */
weft_status job_find_needs(struct engine_slurm *slurm, const struct engine_order *order, struct job_needs *needs,
                           struct error *error);

/** The script of an attempt's own job, not terminated. */
void job_write_script(const struct engine_slurm *slurm, const struct engine_order *order, const struct job_needs *needs,
                      const char *token, struct buffer *script);

#define JOB_STEP_SECONDS 25

/** A shell's command that starts an attempt in a step of the job around it; not terminated. It looks on for JOB_STEP_SECONDS at most, prints
 * the last line that srun has printed as its error, and fails if srun has ended. The token is to be in WEFT_HOST_TOKEN. */
void job_write_step(const struct engine_slurm *slurm, const struct engine_order *order, const struct job_needs *needs,
                    struct buffer *command);

/** A shell's command, for the same place, that ends what is left of such a step; not terminated. */
void job_write_step_end(const struct attempt *attempt, struct buffer *command);

/** The script of a job that holds nodes: the process of one of them, in a step of its own. Not terminated. */
void job_write_holder(const struct engine_slurm *slurm, const struct engine_order *order, const char *token,
                      struct buffer *script);

/** The file with what was asked for, for the next start of the server. Errors: SYSTEM. */
weft_status job_path(const struct engine_slurm *slurm, const struct attempt *attempt, char path[FILE_PATH_BYTES],
                     struct error *error);

/** The file, on a node, of what an attempt's script or srun prints. */
char *job_output(const struct engine_slurm *slurm, const struct attempt *attempt, char output[JOB_OUTPUT_BYTES]);

/** The mark in the comment of an attempt's job. */
char *job_mark(const char *token, char mark[SLURM_MARK_BYTES]);

#endif
