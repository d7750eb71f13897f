/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Regrouping: after a failure, the ranks that still live find each other and agree on who they are.
 *
 * Each agreement begins an *epoch*: some of the ranks of the epoch before, in their old order, renumbered, with a
 * secret and control listeners of their own. Ranks here are *first* ranks: their numbers in the job as it began.
 *
 * The lowest living rank leads. Everybody calls those below it at the listeners of the first epoch, which stay open for
 * the life of the job, and joins the lowest that answers; the leader calls those above it that have not joined. Who
 * refuses a connection is dead; who takes one and is silent is stopped; who cannot be reached at all may live on beyond
 * a broken network. Who answers but has not come is waited for up to a limit, then left out. Once nobody is missing,
 * the leader tells all who have joined the table of the new epoch. A leader that dies meanwhile is followed by the
 * next.
 *
 * Of a partition the larger side goes on: a leader that cannot reach more ranks than have joined it gives up, with the
 * message that says so (among equals the side of the lowest rank goes on).
 *
 * Threads: regroup_progress() is the context's helper thread's; regroup_meet() is one caller's at a time, who drives
 * progress while it waits.
 */
#ifndef WEFT_CORE_CONTROL_REGROUP_REGROUP_H
#define WEFT_CORE_CONTROL_REGROUP_REGROUP_H

#include "base/error.h"
#include "core/control/wire/endpoint_info.h"
#include "core/control/wire/secret.h"

#include <stdbool.h>
#include <stdint.h>

struct regroup;

/**
 * Be ready to regroup: take over the listener that `endpoint infos[rank].control` names (it is closed by regroup_close(), also
 * on failure). Endpoint infos and secret are copied.
 */
weft_status regroup_open(uint32_t rank, uint32_t ranks, const struct endpoint_info *endpoints, const uint8_t *secret,
                         int listener, struct regroup **regroup, struct error *error);
void regroup_close(struct regroup *regroup);

/** One descriptor (an epoll) that becomes readable when regroup_progress() has something to do. */
int regroup_descriptor(const struct regroup *regroup);

/**
 * Answer who calls, go on with a rendezvous; milliseconds until it must be called again, or -1. `quiet`: nothing of this
 * rank is in flight, nor can be again in this epoch, so that it may be left out without harm to the memory of others.
 */
int regroup_progress(struct regroup *regroup, bool quiet);

/** What has been agreed. */
struct regroup_table {
    uint32_t epoch; /**< 1 after the first regrouping */
    uint32_t rank, ranks;
    struct endpoint_info *endpoints; /**< of the new epoch, by new rank; malloc'ed, the caller's */
    uint32_t *first;                 /**< first[r]: the first rank of new rank r; malloc'ed, the caller's */
    uint8_t secret[SECRET_BYTES];
};

struct regroup_wait {
    double limit_seconds; /**< for ranks that live but have not come */
    double late_seconds;  /**< after which `late` gets the list of missing ranks */
    void (*late)(void *context, const char *message);
    void *context;
};

/**
 * Come with this rank's endpoint info for the epoch to be. Errors: PEER, with the message that says why this rank cannot go on
 * (the smaller side of a partition; left out by the others); TIMEOUT.
 */
weft_status regroup_meet(struct regroup *regroup, const struct endpoint_info *endpoint, const struct regroup_wait *wait,
                         struct regroup_table *table, struct error *error);

#endif
