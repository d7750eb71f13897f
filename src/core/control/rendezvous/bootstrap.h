/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The rendezvous: however the ranks were launched, each learns its number, how many there are, the job's secret, and
 * everybody's endpoint info.
 *
 * Rendezvous points, in the order in which they are looked for: the configuration; weft run's own variables (WEFT_RANK,
 * WEFT_RANKS, WEFT_RENDEZVOUS, WEFT_SECRET ...); PMIx (loaded at run time: Open MPI, srun --mpi=pmix); PMI-1 and PMI-2
 * over PMI_FD (MPICH, srun --mpi=pmi2); Slurm's variables alone (srun --mpi=none); torchrun's (RANK, WORLD_SIZE,
 * LOCAL_RANK, MASTER_ADDR, MASTER_PORT); none: a world of one rank.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_BOOTSTRAP_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_BOOTSTRAP_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"

#include <stdbool.h>

#define BOOTSTRAP_SECRET_BYTES 32

struct bootstrap;

/** What the caller knows itself; all zero when nothing. See weft_config. */
struct bootstrap_config {
    int rank, ranks;
    const char *address;
    const char *secret;
    double limit_seconds;        /**< for all ranks to come; 0: 60 */
    int node;                    /**< where rank, ranks, address and secret are given: a number of the node ... */
    int local_rank, local_ranks; /**< ... the rank's place among its ranks, and how many they are; 0, 0: unknown */
};

/** Find the launcher or take the configuration; waits until somebody serves the rendezvous. Rank 0 may serve it itself
 * (see environment.h). */
weft_status bootstrap_open(const struct bootstrap_config *config, struct bootstrap **bootstrap, struct error *error);
void bootstrap_close(struct bootstrap *bootstrap);

/** After a failure: bootstrap_close() shall not say farewell to the launcher, which may be busy with ending the job. */
void bootstrap_abandon(struct bootstrap *bootstrap);

uint32_t bootstrap_rank(const struct bootstrap *bootstrap);
uint32_t bootstrap_ranks(const struct bootstrap *bootstrap);
const char *bootstrap_launcher(
    const struct bootstrap *bootstrap); /**< "weft run", "PMIx", "PMI-2", "torchrun variables", "alone" ... */

/** The address (digits) of this host that reaches the others, for control_open(); NULL when the launcher does not tell.
 */
const char *bootstrap_interface_hint(const struct bootstrap *bootstrap);

/** Give `endpoint info`, get everybody's: endpoint infos[0..ranks), allocated with malloc, the caller's. Names in its message who has
 * not come. */
weft_status bootstrap_exchange(struct bootstrap *bootstrap, const struct endpoint_info *endpoint,
                               struct endpoint_info **endpoints, struct error *error);

/** What bootstrap_exchange() took here, and the longest chain of messages that waited for one another until it was over
 * (see rendezvous.h); what a launcher's key-value store did not included. */
struct bootstrap_cost {
    uint32_t messages, chain;
    uint64_t bytes;
};
struct bootstrap_cost bootstrap_cost(const struct bootstrap *bootstrap);

/** The job's secret, derived to BOOTSTRAP_SECRET_BYTES; valid after bootstrap_exchange(). */
const uint8_t *bootstrap_secret(const struct bootstrap *bootstrap);

#endif
