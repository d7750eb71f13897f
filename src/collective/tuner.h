/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tuner: which algorithm serves which size on which communicator.
 *
 * It prices every candidate by simulating its plan on the links as they were measured (alpha and beta: latency and
 * bandwidth of near and far links), and takes the cheapest. Candidates are the algorithms that serve the shape and keep
 * the canonical order of sums; ring and double-tree sums are only ever a user's choice. Rank 0's numbers are given to
 * all when the context is opened, so all ranks choose alike, and a choice never changes afterwards.
 */
#ifndef WEFT_COLLECTIVE_TUNER_H
#define WEFT_COLLECTIVE_TUNER_H

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/simulate.h"

#include <stdbool.h>

/** What the tuner knows; fixed once the context is open. */
struct tuner {
    struct simulated_cluster cluster;
    char source[128]; /**< where the numbers come from, for people */
};

/** A candidate and what it would cost. */
struct tuner_price {
    const struct algorithm *algorithm;
    const char *refusal; /**< why it is no candidate, or NULL */
    double seconds;      /**< predicted, when it is one */
};

#define TUNER_PRICES 32

/** Prices of all algorithms of a collective. */
struct tuner_prices {
    struct tuner_price prices[TUNER_PRICES];
    size_t count;
    size_t chosen;      /**< its number in `prices` */
    const char *reason; /**< a clause for people; static */
};

/** Measure or look up the links, agree on rank 0's numbers. Collective over the world, which is open. */
weft_status tuner_open(struct tuner *tuner, weft_context *context, struct error *error);

/** The cheapest algorithm for `shape`. Errors: ARGUMENT when none serves it. */
weft_status tuner_choose(const weft_comm *comm, const struct plan_shape *shape, const struct algorithm **algorithm,
                         struct tuner_prices *prices, struct error *error);

/** Among more ranks than these nothing is simulated to choose: the first algorithm that serves is taken, its price left
 * 0. */
#define TUNER_SIMULATED_RANKS 64

/** The same without a communicator: every price on a described cluster. */
weft_status tuner_price(const struct simulated_cluster *cluster, const struct plan_shape *shape,
                        struct tuner_prices *prices, struct error *error);

/** Seconds that `algorithm`, which must serve `shape`, takes for shape->block_bytes on a described cluster. */
weft_status tuner_simulate(const struct algorithm *algorithm, const struct plan_shape *shape,
                           const struct simulated_cluster *cluster, double *seconds, struct error *error);

/** Numbers of a common machine and network, used where nothing was measured. */
struct simulated_cluster tuner_default_cluster(void);

#endif
