/* SPDX-License-Identifier: Apache-2.0 */
/* The price of every algorithm of a collective, and the choice among them. */
#include "core/schedule/simulate/internal/scale.h"

#include <math.h>

/* Why an algorithm is not a candidate, or NULL. */
static const char *refusal(const struct algorithm *algorithm, const struct schedule_shape *shape)
{
    const char *reason = algorithm_refuses(algorithm, shape);
    if (!reason)
        reason = algorithm_only_on_request(algorithm, shape);
    return reason;
}

/*
 * Predictions that differ by less than this count as equal: links are shared, and measured for milliseconds. Among
 * equal ones, take the one that is fastest when the network is half as fast as measured, as under other traffic: it
 * moves the fewest bytes over the slowest level.
 */
#define EQUAL_WITHIN 0.15

/* A comparison under way. */
struct price_comparison {
    const struct simulated_cluster *cluster;
    const struct schedule_shape *shape;
    uint32_t most_ranks;
    bool all;    /* every price is wanted, that of algorithms that cannot be chosen, too */
    bool priced; /* that of the choice is, even where there is no other */
    size_t candidates;
    struct algorithm_prices *prices;
    size_t order[ALGORITHM_PRICES]; /* of candidates, the most promising first */
    struct scale_traffic traffic[ALGORITHM_PRICES];
    struct simulated_report reports[ALGORITHM_PRICES]; /* of candidates; seconds are infinite where it is certain that
                                                          they are not chosen */
};

/* A candidate that takes longer is not chosen. */
static double comparison_margin(const struct price_comparison *comparison)
{
    return comparison->reports[comparison->prices->chosen].seconds * (1 + EQUAL_WITHIN);
}

/* Candidates in the order of lower bounds: when good ones are known, others end early. */
static weft_status comparison_sort(struct price_comparison *comparison, struct error *error)
{
    const struct algorithm_prices *prices = comparison->prices;
    double bounds[ALGORITHM_PRICES];
    size_t sorted = 0;
    for (size_t i = 0; i < prices->count; i++) {
        comparison->reports[i].seconds = HUGE_VAL;
        if (prices->prices[i].refusal)
            continue;
        weft_status status =
            scale_count(prices->prices[i].algorithm, comparison->shape, &comparison->traffic[i], error);
        if (status != WEFT_OK)
            return status;
        bounds[i] = scale_bound(&comparison->traffic[i], comparison->cluster);
        size_t at = sorted++;
        for (; at && bounds[comparison->order[at - 1]] > bounds[i]; at--)
            comparison->order[at] = comparison->order[at - 1];
        comparison->order[at] = i;
    }
    return WEFT_OK;
}

static weft_status comparison_estimate(const struct price_comparison *comparison, size_t i,
                                       const struct simulated_cluster *cluster, double limit,
                                       struct simulated_report *report, struct error *error)
{
    return simulate_estimate(comparison->prices->prices[i].algorithm, comparison->shape, cluster,
                             comparison->most_ranks, &comparison->traffic[i], limit, report, error);
}

/* Among equal prices the first is chosen. */
static weft_status comparison_simulate(struct price_comparison *comparison, struct error *error)
{
    struct algorithm_prices *prices = comparison->prices;
    for (size_t k = 0; k < comparison->candidates; k++) {
        size_t i = comparison->order[k];
        struct simulated_report *report = &comparison->reports[i];
        weft_status status =
            comparison_estimate(comparison, i, comparison->cluster,
                                comparison->all ? HUGE_VAL : comparison_margin(comparison), report, error);
        if (status != WEFT_OK)
            return status;
        double seconds = prices->prices[i].seconds = report->seconds,
               best = comparison->reports[prices->chosen].seconds;
        if (seconds < best || (seconds == best && i < prices->chosen))
            prices->chosen = i;
    }
    return WEFT_OK;
}

static weft_status prefer_fewer_bytes(struct price_comparison *comparison, struct error *error)
{
    struct algorithm_prices *prices = comparison->prices;
    const double most = comparison_margin(comparison);
    struct simulated_cluster busy = *comparison->cluster;
    struct simulated_report report;
    size_t chosen = prices->chosen, equal = 0;
    double least = HUGE_VAL;
    busy.far.bandwidth /= 2;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        busy.above[level].bandwidth /= 2;
    for (size_t i = 0; i < prices->count; i++)
        equal += comparison->reports[i].seconds <= most;
    for (size_t i = 0; equal > 1 && i < prices->count; i++) {
        if (comparison->reports[i].seconds > most)
            continue;
        weft_status status = comparison_estimate(comparison, i, &busy, least, &report, error);
        if (status != WEFT_OK)
            return status;
        if (report.seconds >= least)
            continue;
        least = report.seconds;
        chosen = i;
    }
    if (chosen != prices->chosen)
        prices->reason =
            comparison->shape->ranks > comparison->most_ranks
                ? "within the margin of the shortest time, extrapolated from fewer ranks, with less network load"
                : "within the margin of the shortest predicted time, with less network load";
    prices->chosen = chosen;
    return WEFT_OK;
}

static weft_status comparison_decide(struct price_comparison *comparison, struct error *error)
{
    size_t count;
    const struct schedule_shape *shape = comparison->shape;
    const struct algorithm *algorithms = algorithms_of(shape->collective, &count);
    struct algorithm_prices *prices = comparison->prices;
    prices->count = count < ALGORITHM_PRICES ? count : ALGORITHM_PRICES;
    prices->chosen = prices->count;
    for (size_t i = 0; i < prices->count; i++) {
        prices->prices[i] = (struct algorithm_price){&algorithms[i], refusal(&algorithms[i], shape), 0};
        if (prices->prices[i].refusal)
            continue;
        comparison->candidates++;
        if (prices->chosen == prices->count)
            prices->chosen = i;
    }
    if (!comparison->candidates)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no algorithm can do %s among these %u ranks: %s",
                         collective_name(shape->collective), shape->ranks,
                         prices->count ? prices->prices[0].refusal : "there is none");
    prices->reason = comparison->candidates == 1             ? "the only candidate"
                     : shape->ranks > comparison->most_ranks ? "the shortest time, extrapolated from fewer ranks"
                                                             : "the shortest predicted time";
    if (comparison->candidates == 1 && (shape->ranks == 1 || !comparison->priced))
        return WEFT_OK;
    weft_status status = comparison_sort(comparison, error);
    if (status == WEFT_OK)
        status = comparison_simulate(comparison, error);
    if (status != WEFT_OK || comparison->candidates == 1 || shape_units(shape, 0) == 1)
        return status;
    return prefer_fewer_bytes(comparison, error);
}

weft_status simulate_prices(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                            uint32_t most_ranks, struct algorithm_prices *prices, struct error *error)
{
    struct price_comparison comparison = {
        .cluster = cluster, .shape = shape, .most_ranks = most_ranks, .all = true, .priced = true, .prices = prices};
    return comparison_decide(&comparison, error);
}

weft_status simulate_choice(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                            uint32_t most_ranks, const struct algorithm **algorithm, struct simulated_report *report,
                            struct error *error)
{
    struct algorithm_prices prices;
    struct price_comparison comparison = {
        .cluster = cluster, .shape = shape, .most_ranks = most_ranks, .priced = report, .prices = &prices};
    weft_status status = comparison_decide(&comparison, error);
    if (status != WEFT_OK)
        return status;
    *algorithm = prices.prices[prices.chosen].algorithm;
    if (!report)
        return WEFT_OK;
    *report = comparison.reports[prices.chosen];
    return simulate_complete(*algorithm, shape, report, error);
}
