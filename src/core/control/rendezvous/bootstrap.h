/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bootstrap: however the ranks were launched, each gets its number, the number of ranks, the job's secret, and the
 * endpoint info of all ranks.
 *
 * Sources, in the order in which they are tried: the configuration; weft run's own variables (WEFT_RANK, WEFT_RANKS,
 * WEFT_RENDEZVOUS, WEFT_SECRET ...); PMIx (loaded at run time: Open MPI, srun --mpi=pmix); PMI-1 and PMI-2 over PMI_FD
 * (MPICH, srun --mpi=pmi2); Slurm's variables alone (srun --mpi=none); torchrun's (RANK, WORLD_SIZE, LOCAL_RANK,
 * MASTER_ADDR, MASTER_PORT); none: a world of one rank.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_BOOTSTRAP_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_BOOTSTRAP_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"

#include <stdbool.h>

#define BOOTSTRAP_SECRET_BYTES 32

struct bootstrap;

/** The caller's configuration; all zero for none. See weft_config. */
struct bootstrap_config {
    int rank, ranks;
    const char *address;
    const char *secret;
    double limit_seconds;        /**< for all ranks to join; 0: 60 */
    int node;                    /**< if rank, ranks, address and secret are given: the node's number ... */
    int local_rank, local_ranks; /**< ... the rank's number on its node, and the ranks of that node; 0, 0: unknown */
};

/**
 * Find the launcher or use the configuration; waits until the rendezvous is served. Rank 0 may serve it itself (see
 * environment.h).
 */
weft_status bootstrap_open(const struct bootstrap_config *config, struct bootstrap **bootstrap, struct error *error);
void bootstrap_close(struct bootstrap *bootstrap);

/** After a failure: bootstrap_close() will not notify the launcher, which may be busy ending the job. */
void bootstrap_abandon(struct bootstrap *bootstrap);

/**
 * Whether this rank joins a running job: its number is not below the ranks that the job began with. Then there is no
 * exchange: bootstrap_find_members() instead.
 */
bool bootstrap_joins(const struct bootstrap *bootstrap);

/** Whether ranks may join this job later: its lowest rank then leaves the members with bootstrap_leave_members(). */
bool bootstrap_grows(const struct bootstrap *bootstrap);

uint32_t bootstrap_rank(const struct bootstrap *bootstrap);
uint32_t bootstrap_ranks(const struct bootstrap *bootstrap);
const char *bootstrap_launcher(
    const struct bootstrap *bootstrap); /**< "weft run", "PMIx", "PMI-2", "torchrun variables", "alone" ... */

/** The numeric address of this host that reaches the others, for control_open(); NULL when unknown. */
const char *bootstrap_interface_hint(const struct bootstrap *bootstrap);

/**
 * All-gather the endpoint info: endpoints[0..ranks), malloc'ed, the caller's. The error message names the ranks that
 * are missing.
 */
weft_status bootstrap_exchange(struct bootstrap *bootstrap, const struct endpoint_info *endpoint,
                               struct endpoint_info **endpoints, struct error *error);

/**
 * Leave bytes about the members with the launcher, in place of the former ones; after the exchange. Waits five seconds at
 * most. Errors: RENDEZVOUS, TIMEOUT.
 */
weft_status bootstrap_leave_members(const struct bootstrap *bootstrap, const void *bytes, size_t size,
                                    struct error *error);

/**
 * For a rank that joins: the bytes that were left; waits for them. *bytes is malloc'ed, the caller's. Errors:
 * RENDEZVOUS, TIMEOUT, DATA, MEMORY.
 */
weft_status bootstrap_find_members(struct bootstrap *bootstrap, uint8_t **bytes, size_t *size, struct error *error);

/** For a rank that joins: tell the launcher that it was overtaken, see rendezvous_say_overtaken(). */
weft_status bootstrap_say_overtaken(const struct bootstrap *bootstrap, struct error *error);

/**
 * The cost of bootstrap_exchange(): messages and bytes of this rank, and the longest chain of dependent messages until
 * it was done (see rendezvous.h). A launcher's key-value store is not included.
 */
struct bootstrap_cost {
    uint32_t messages, chain;
    uint64_t bytes;
};
struct bootstrap_cost bootstrap_cost(const struct bootstrap *bootstrap);

/** The job's secret, derived to BOOTSTRAP_SECRET_BYTES; valid after bootstrap_exchange() or
 * bootstrap_find_members(). */
const uint8_t *bootstrap_secret(const struct bootstrap *bootstrap);

#endif
