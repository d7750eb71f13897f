/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How gradients are added up over the data axis: which collectives run, and what they cost. Prices of steps and the
 * planner's bounds both ask here.
 *
 *     all-reduce       ZeRO-0 where all ranks' runs of micro-batches are subtrees (canonical_runs.h)
 *     reduce-scatter   ZeRO-1 there, and ZeRO-2 and 3 on a power of two of ranks: of arrays with even slices (slices.h)
 *     all-to-all       otherwise, the roots of all ranks to the owners of slices; under ZeRO-0 an all-gather of the totals
 *                      follows
 *
 * The last round of ZeRO-2 and 3 may lack ranks: the others then send theirs to the owners in any case. It is priced as an
 * all-to-all of so much less as its busiest host sends less than in a whole round.
 *
 * Systems that Weft does not run use all-reduces and reduce-scatters only. Pure functions but for the prices, which belong
 * to one thread.
 */
#ifndef WEFT_TRAINING_SIMULATE_STEP_REDUCTIONS_H
#define WEFT_TRAINING_SIMULATE_STEP_REDUCTIONS_H

#include "training/simulate/implementation.h"
#include "training/simulate/step_prices.h"

/** The reductions of a strategy. */
struct step_reductions {
    bool runnable;        /**< weft train does them */
    bool in_place;        /**< all-reduces: buckets of several layers may share one */
    bool scatters;        /**< reduce-scatters of arrays with even slices */
    bool gathers;         /**< totals are gathered after them */
    uint32_t ranks;       /**< of the data axis */
    uint32_t roots;       /**< partial sums that a rank sends of each gradient */
    uint32_t last;        /**< ranks that have a micro-batch in a last round that lacks some; 0: no round does */
    double element_bytes; /**< of a gradient as it moves */
};

/** `zero` is 0 where the data axis has one rank; `gradients` is the type that weft train moves them in. */
struct step_reductions step_reductions_of(const struct implementation *implementation, uint32_t zero,
                                          const struct micro_batch_division *division, weft_type gradients);

/**
 * Add the price of the reduction of `bytes` of gradients to *transfer: of one layer, or of a bucket; under ZeRO-2 and 3 of
 * one whole round. Errors: those of step_prices_add().
 */
weft_status step_reductions_add(const struct step_reductions *reductions, struct step_prices *prices,
                                const struct step_placement *placement, double bytes, struct step_transfer *transfer,
                                struct error *error);

/** What the host of a group that sends most in the last round sends then, as a share of a whole round; 0: all are whole. */
double step_reductions_last_share(const struct step_reductions *reductions, const struct step_placement *placement);

/** The same as step_reductions_add(), of the last round, with its share. */
weft_status step_reductions_add_last(const struct step_reductions *reductions, struct step_prices *prices,
                                     const struct step_placement *placement, double bytes, double share,
                                     struct step_transfer *transfer, struct error *error);

#endif
