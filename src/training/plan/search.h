/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The search for the best strategy: branch and bound over the tree of strategies (strategy.h), sets with the lowest bound
 * first.
 *
 * A bound is admissible: no strategy of a set takes less time. When every set that is left has a bound above the best
 * price, the best strategy is proved to be the best of all, though most were never priced. Strategies that do not fit into
 * memory are never priced.
 *
 * The search knows nothing of models and clusters. Deterministic.
 */
#ifndef WEFT_TRAINING_PLAN_SEARCH_H
#define WEFT_TRAINING_PLAN_SEARCH_H

#include "training/plan/strategy.h"
#include "training/simulate/step_simulate.h"

/** What a strategy costs in a step. Seconds and bytes. */
struct price {
    double seconds;
    double terms[STEP_TERMS];       /**< of these; they add up */
    double bytes[STEP_LINK_LEVELS]; /**< that all ranks send over each level of links */
    double peak[STEP_LINK_LEVELS];  /**< use of the busiest unit of each level, a share */
};

/** How much a bound may cost. */
enum search_effort {
    SEARCH_QUICK,
    SEARCH_CLOSE,
    SEARCH_TIGHT /**< of whole strategies only */
};

/** What the search asks. `context` is passed through; `partial` is at `depth`. */
struct search_problem {
    const struct strategy_space *space;
    void *context;

    /** Seconds that every completion of `partial` takes at least. */
    weft_status (*bound)(void *context, const struct strategy *partial, enum strategy_depth depth,
                         enum search_effort effort, double *seconds, struct error *error);
    /** Bytes by which every completion of `partial` exceeds the memory; 0: some may fit. An estimate that is quick, then, at
     * STRATEGY_WHOLE only, what is exact. */
    weft_status (*excess)(void *context, const struct strategy *partial, enum strategy_depth depth, bool exact,
                          uint64_t *bytes, struct error *error);
    /** Whether a whole strategy that fits is not to be chosen, because it gives up time for nothing. NULL: none does. */
    weft_status (*is_needless)(void *context, const struct strategy *strategy, bool *needless, struct error *error);
    weft_status (*price)(void *context, const struct strategy *strategy, struct price *price, struct error *error);

    uint64_t prices_most; /**< end after so many prices, with a gap; 0: never */
    double gap;           /**< end when the best is proved to be within this share of its price; 0: of all */
};

/** A strategy that was priced. */
struct search_plan {
    struct strategy strategy;
    struct price price;
};

struct search_result {
    struct search_plan *plans; /**< best first */
    size_t count, room;
    uint64_t strategies; /**< in the whole space */
    uint64_t priced;     /**< of these: count */
    uint64_t unfit;      /**< do not fit into memory */
    uint64_t excluded;   /**< cannot be faster than the best, by their bounds, or are needless */
    double gap;          /**< (price of the best - lowest bound of those that are left) / price, 0 when complete */

    double unfit_bound;              /**< the lowest bound of those that do not fit; 0: all fit */
    uint64_t least_excess;           /**< the smallest excess that was seen, ... */
    struct strategy least_excessive; /**< ... and whose it is, with depth */
    enum strategy_depth least_depth;
};

/**
 * Find the best strategy. With no plan in the result, nothing fits. search_result_free() frees `result`, also after an
 * error. Errors: those of the callbacks; MEMORY.
 */
weft_status search_run(const struct search_problem *problem, struct search_result *result, struct error *error);
void search_result_free(struct search_result *result);

/**
 * The order of plans: by seconds (to about 7 digits, so that rounding does not decide), then by bytes on the slowest
 * levels of links, then strategy_compare().
 */
int search_plan_compare(const struct search_plan *a, const struct search_plan *b);

#endif
