/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a collective costs on a described cluster: the algorithms' schedules, simulated. Thread-safe.
 *
 * simulate_price() answers for one collective of one group of ranks: how long, by which algorithm, how many bytes over
 * which links. simulate_prices() compares all algorithms and makes the choice of the tuner
 * (core/collective/tuner/tuner.h), which uses it, too: what is priced is what runs.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_PRICE_H
#define WEFT_CORE_SCHEDULE_SIMULATE_SIMULATE_PRICE_H

#include "core/schedule/simulate/simulate.h"

/** Prices for more ranks than this are extrapolated where nodes are not alike, because callers wait for them. */
#define SIMULATED_RANKS 64

struct simulated_price {
    const struct algorithm *algorithm; /**< NULL: a single rank, nothing to do */
    double seconds;
    double leaving[SIMULATED_UNITS]; /**< bytes that messages carry out of the rank, node, leaf and pod that most leave;
                                          the most enter it, too, or fewer. What ranks of a node read from one another
                                          in shared memory counts as leaving the rank that reads it */
    double busy;                     /**< share of `seconds` that the processors of the ranks work, a mean: 0 to 1 */
};

/**
 * The collective `shape` (ranks, nodes, leaves, pods and block size; `reproducible`: only canonical sums) on `cluster`,
 * by the algorithm that the tuner chooses.
 *
 * `block_bytes` is the size of a *block* (core/schedule/format/schedule.h): all bytes of an all-reduce, a broadcast, a
 * reduce; of a reduce-scatter, an all-gather, an all-to-all one rank's part, the whole divided by the ranks.
 *
 * `alike`: so many groups like this one run the same collective at the same time and share interfaces and uplinks
 * evenly (eight data-parallel groups, for example, each with one device of every host); 1: the group is alone.
 *
 * Deterministic: equal arguments give equal prices, so that callers may keep them by (collective, bytes, shape).
 * Errors: ARGUMENT when no algorithm supports the shape; MEMORY.
 */
weft_status simulate_price(const struct simulated_cluster *cluster, const struct schedule_shape *shape, uint32_t alike,
                           struct simulated_price *price, struct error *error);

/**
 * The places of `count` members of `world` (its rank numbers, in the order of the group) as a group of their own:
 * *group gets ranks, nodes and above, numbered in order of first appearance, and copies the rest from `world`.
 * Release with simulate_group_close(). Errors: MEMORY.
 */
weft_status simulate_group_open(const struct schedule_shape *world, const uint32_t *members, uint32_t count,
                                struct schedule_shape *group, struct error *error);
void simulate_group_close(struct schedule_shape *group);

/* ---- all algorithms of a collective ---- */

/** A candidate and what it would cost. */
struct algorithm_price {
    const struct algorithm *algorithm;
    const char *refusal; /**< why it is not a candidate, or NULL */
    double seconds;      /**< predicted, when it is one */
};

#define ALGORITHM_PRICES 32

/** Prices of all algorithms of a collective. */
struct algorithm_prices {
    struct algorithm_price prices[ALGORITHM_PRICES];
    size_t count;
    size_t chosen;      /**< index into `prices` */
    const char *reason; /**< a clause for messages; static */
};

/**
 * Every price, and the choice. Shapes of up to `most_ranks` ranks are simulated whole; larger ones are extrapolated
 * from smaller shapes of the same kind, where they exist, unless all nodes are alike, so that one is simulated for all.
 * Errors: ARGUMENT when no algorithm supports the shape.
 */
weft_status simulate_prices(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                            uint32_t most_ranks, struct algorithm_prices *prices, struct error *error);

/**
 * The same choice alone, several times faster: an algorithm's simulation ends when it is certain that it is not chosen.
 * `report`: NULL, or for what simulate_report() finds for the choice.
 */
weft_status simulate_choice(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                            uint32_t most_ranks, const struct algorithm **algorithm, struct simulated_report *report,
                            struct error *error);

/**
 * What is found for `algorithm`, which must support `shape`, for shape->block_bytes; extrapolated as in
 * simulate_prices() (then there are no loads, and the work of the ranks is that in smaller shapes).
 */
weft_status simulate_report(const struct algorithm *algorithm, const struct schedule_shape *shape,
                            const struct simulated_cluster *cluster, uint32_t most_ranks,
                            struct simulated_report *report, struct error *error);

#endif
