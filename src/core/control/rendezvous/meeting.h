/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The meeting: however the ranks were launched, each learns its number, how many there are, the job's secret, and
 * everybody's card.
 *
 * Meeting points, in the order in which they are looked for: the configuration; weft run's own variables (WEFT_RANK,
 * WEFT_RANKS, WEFT_MEETING, WEFT_SECRET ...); PMIx (loaded at run time: Open MPI, srun --mpi=pmix); PMI-1 and PMI-2
 * over PMI_FD (MPICH, srun --mpi=pmi2); Slurm's variables alone (srun --mpi=none); torchrun's (RANK, WORLD_SIZE,
 * LOCAL_RANK, MASTER_ADDR, MASTER_PORT); none: a world of one rank.
 */
#ifndef WEFT_CORE_CONTROL_RENDEZVOUS_MEETING_H
#define WEFT_CORE_CONTROL_RENDEZVOUS_MEETING_H

#include "base/error.h"
#include "core/control/wire/card.h"

#include <stdbool.h>

#define MEETING_SECRET_BYTES 32

struct meeting;

/** What the caller knows itself; all zero when nothing. See weft_config. */
struct meeting_config {
    int rank, ranks;
    const char *address;
    const char *secret;
    double limit_seconds;        /**< for all ranks to come; 0: 60 */
    int node;                    /**< where rank, ranks, address and secret are given: a number of the node ... */
    int local_rank, local_ranks; /**< ... the rank's place among its ranks, and how many they are; 0, 0: unknown */
};

/** Find the launcher or take the configuration; waits until somebody serves the meeting. Rank 0 may serve it itself
 * (see environment.h). */
weft_status meeting_open(const struct meeting_config *config, struct meeting **meeting, struct error *error);
void meeting_close(struct meeting *meeting);

/** After a failure: meeting_close() shall not say farewell to the launcher, which may be busy with ending the job. */
void meeting_abandon(struct meeting *meeting);

uint32_t meeting_rank(const struct meeting *meeting);
uint32_t meeting_ranks(const struct meeting *meeting);
const char *
meeting_launcher(const struct meeting *meeting); /**< "weft run", "PMIx", "PMI-2", "torchrun variables", "alone" ... */

/** The address (digits) of this host that reaches the others, for control_open(); NULL when the launcher does not tell.
 */
const char *meeting_interface_hint(const struct meeting *meeting);

/** Give `card`, get everybody's: cards[0..ranks), allocated with malloc, the caller's. Names in its message who has
 * not come. */
weft_status meeting_exchange(struct meeting *meeting, const struct card *card, struct card **cards,
                             struct error *error);

/** What meeting_exchange() took here, and the longest chain of messages that waited for one another until it was over
 * (see rendezvous.h); what a launcher's key-value store did not included. */
struct meeting_cost {
    uint32_t messages, chain;
    uint64_t bytes;
};
struct meeting_cost meeting_cost(const struct meeting *meeting);

/** The job's secret, derived to MEETING_SECRET_BYTES; valid after meeting_exchange(). */
const uint8_t *meeting_secret(const struct meeting *meeting);

#endif
