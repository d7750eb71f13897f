/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The launchers that Weft recognizes, and the rendezvous that their environment variables describe. Reads the
 * environment; thread-safe while no thread changes it.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_ENVIRONMENT_H
#define WEFT_CORE_CONTROL_WIRE_ENVIRONMENT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define ENVIRONMENT_TEXT_BYTES 1024
#define ENVIRONMENT_HOST_BYTES 256 /**< a host name and its end */

/** The launchers, in the order in which they are looked for. */
enum launcher {
    LAUNCHER_WEFT,     /**< weft run */
    LAUNCHER_PMIX,     /**< Open MPI's mpirun, srun --mpi=pmix */
    LAUNCHER_PMI2,     /**< srun --mpi=pmi2 */
    LAUNCHER_PMI1,     /**< MPICH's mpirun (Hydra) */
    LAUNCHER_SLURM,    /**< srun without MPI */
    LAUNCHER_TORCHRUN, /**< torchrun, or its variables */
    LAUNCHER_NONE,     /**< a world of one rank */
};

/** As the status page and messages name it: "weft run", "PMIx", "Slurm", "torchrun variables", "alone" ... */
const char *launcher_name(enum launcher launcher);

/** Whether the variables by which `launcher` is recognized are set. */
bool launcher_is_present(enum launcher launcher);

/** The first launcher that is present, or LAUNCHER_NONE. */
enum launcher launcher_detect(void);

/**
 * The number of this rank from one launcher's variable alone, without its other variables; -1: none has a valid one.
 */
int64_t launcher_rank(void);

/** A rendezvous by TCP, as the environment describes it. */
struct environment {
    const char *launcher;                   /**< launcher_name() */
    uint32_t rank, ranks;                   /**< a rank that is not below `ranks` joins a running job */
    char addresses[ENVIRONMENT_TEXT_BYTES]; /**< "host:port,..." */
    char secret[ENVIRONMENT_TEXT_BYTES];    /**< text; derived from values that all ranks know if none is given */
    bool served;                            /**< the launcher serves; otherwise rank 0 does */
    bool grows;                             /**< it may start more ranks, which join the job */
    uint32_t node;                          /**< a number that the ranks of a node have in common, and no others */
    uint32_t local_rank, local_ranks;       /**< this rank's place among them, and how many; 0, 0: unknown */
};

/**
 * Read the variables of a launcher that is present and whose ranks use a TCP rendezvous: LAUNCHER_WEFT, LAUNCHER_SLURM,
 * LAUNCHER_TORCHRUN, LAUNCHER_NONE. Errors: RENDEZVOUS: a variable is missing or wrong.
 *
 * weft run: WEFT_RANK, WEFT_RANKS, WEFT_RENDEZVOUS, WEFT_SECRET; WEFT_RENDEZVOUS_SERVED=1 says that the launcher serves.
 * With that and WEFT_RESTARTS it may start more ranks later, numbered from WEFT_RANKS on.
 * Slurm: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID; the rendezvous is at
 * the first node of the list, or at 127.0.0.1 if SLURM_STEP_NUM_NODES is 1.
 * torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RUN_ID.
 *
 * Variables that say which ranks share a node are only a hint: the ranks look for each other there first (see
 * rendezvous.h). A missing or invalid hint counts as unknown. They are WEFT_LOCAL_RANK and WEFT_LOCAL_RANKS;
 * SLURM_NODEID, SLURM_LOCALID and SLURM_STEP_TASKS_PER_NODE; LOCAL_RANK and LOCAL_WORLD_SIZE.
 *
 * Under Slurm and torchrun, rank 0 serves, at WEFT_RENDEZVOUS_HOST and WEFT_RENDEZVOUS_PORT if these are set, and the
 * secret is WEFT_SECRET. Without that variable the secret is derived from job id and user (Slurm) or run id and master
 * (torchrun). Other users of the hosts may guess those: a derived secret keeps jobs apart but does not protect them.
 */
weft_status environment_read(enum launcher launcher, struct environment *environment, struct error *error);

/** The number of tasks of node `node` in Slurm's list: "4(x2),3" means 4, 4 and 3. 0 if unknown. */
uint32_t environment_tasks_of_node(const char *list, uint32_t node);

/** The first name of a Slurm host list: "n[03-10,12],m1" gives "n03". False if it is not a host list. */
bool environment_first_host(const char *list, char *host, size_t room);

#endif
