/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rendezvous according to the launchers' environment variables. Reads the environment; thread-safe while no thread
 * sets it.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_ENVIRONMENT_H
#define WEFT_CORE_CONTROL_WIRE_ENVIRONMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define ENVIRONMENT_TEXT_BYTES 1024
#define ENVIRONMENT_HOST_BYTES 256 /**< a host name and its end */

/** A TCP rendezvous, as the environment describes it. */
struct environment {
    const char *launcher; /**< "weft run", "Slurm", "torchrun variables" */
    uint32_t rank, ranks;
    char addresses[ENVIRONMENT_TEXT_BYTES]; /**< "host:port,..." */
    char secret[ENVIRONMENT_TEXT_BYTES];    /**< text; derived from values that all ranks know if none is given */
    bool served;                            /**< the launcher serves; otherwise rank 0 does */
    uint32_t node;                          /**< a number shared by the ranks of a node, and no others */
    uint32_t local_rank, local_ranks;       /**< this rank's number on its node, and the ranks of that node; 0, 0:
                                                 unknown */
};

/**
 * Each: false if that launcher is not in the environment; otherwise true and `*status`, with a message when a variable
 * is missing or wrong.
 *
 * weft run: WEFT_RANK, WEFT_RANKS, WEFT_RENDEZVOUS, WEFT_SECRET; WEFT_RENDEZVOUS_SERVED=1 says that the launcher
 * serves. Slurm (srun without MPI): SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID,
 * SLURM_STEP_ID; the rendezvous is at the first node of the list, or at 127.0.0.1 where SLURM_STEP_NUM_NODES is 1.
 * torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID.
 *
 * Variables that say which ranks share a node only decide which ranks look for each other first (see rendezvous.h).
 * Missing or inconsistent values count as unknown: WEFT_LOCAL_RANK and WEFT_LOCAL_RANKS; SLURM_NODEID, SLURM_LOCALID
 * and SLURM_STEP_TASKS_PER_NODE; LOCAL_RANK and LOCAL_WORLD_SIZE.
 *
 * Under the last two, rank 0 serves, at WEFT_RENDEZVOUS_HOST and WEFT_RENDEZVOUS_PORT if these are set, and the secret
 * is WEFT_SECRET if that is set. If it is not, it is derived from job id and user (Slurm) or run id and master
 * (torchrun), which other users of the hosts may guess: it separates jobs but does not protect them.
 */
bool environment_weft(struct environment *environment, weft_status *status, struct error *error);
bool environment_slurm(struct environment *environment, weft_status *status, struct error *error);
bool environment_torchrun(struct environment *environment, weft_status *status, struct error *error);

/** The number of tasks of node `node` in Slurm's list: "4(x2),3" means 4, 4 and 3. 0 if unknown. */
uint32_t environment_tasks_of_node(const char *list, uint32_t node);

/** The first name of a Slurm host list: "n[03-10,12],m1" gives "n03". False if it is not a host list. */
bool environment_first_host(const char *list, char *host, size_t room);

#endif
