/* SPDX-License-Identifier: Apache-2.0 */
/* The price of every algorithm of a collective, and the choice among them. */
#include "core/schedule/simulate/simulate_price.h"

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

static weft_status prefer_fewer_bytes(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                                      uint32_t most_ranks, struct algorithm_prices *prices, struct error *error)
{
    const double most = prices->prices[prices->chosen].seconds * (1 + EQUAL_WITHIN);
    struct simulated_cluster busy = *cluster;
    double least = 0;
    size_t chosen = prices->chosen;
    busy.far.bandwidth /= 2;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        busy.above[level].bandwidth /= 2;
    for (size_t i = 0; i < prices->count; i++) {
        const struct algorithm_price *price = &prices->prices[i];
        double seconds;
        if (price->refusal || price->seconds > most)
            continue;
        weft_status status = simulate_estimate(price->algorithm, shape, &busy, most_ranks, &seconds, error);
        if (status != WEFT_OK)
            return status;
        if (least > 0 && seconds >= least)
            continue;
        least = seconds;
        chosen = i;
    }
    if (chosen != prices->chosen)
        prices->reason =
            shape->ranks > most_ranks
                ? "within the margin of the shortest time, extrapolated from fewer ranks, with less network load"
                : "within the margin of the shortest predicted time, with less network load";
    prices->chosen = chosen;
    return WEFT_OK;
}

weft_status simulate_prices(const struct simulated_cluster *cluster, const struct schedule_shape *shape,
                            uint32_t most_ranks, struct algorithm_prices *prices, struct error *error)
{
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape->collective, &count);
    size_t candidates = 0;
    bool found = false;
    prices->count = count < ALGORITHM_PRICES ? count : ALGORITHM_PRICES;
    prices->chosen = 0;
    for (size_t i = 0; i < prices->count; i++) {
        prices->prices[i] = (struct algorithm_price){&algorithms[i], refusal(&algorithms[i], shape), 0};
        candidates += !prices->prices[i].refusal;
    }
    for (size_t i = 0; i < prices->count; i++) {
        struct algorithm_price *price = &prices->prices[i];
        if (price->refusal)
            continue;
        if (candidates > 1 || shape->ranks > 1) {
            weft_status status =
                simulate_estimate(price->algorithm, shape, cluster, most_ranks, &price->seconds, error);
            if (status != WEFT_OK)
                return status;
        }
        if (!found || price->seconds < prices->prices[prices->chosen].seconds)
            prices->chosen = i;
        found = true;
    }
    if (!found)
        return error_set(error, WEFT_ERROR_ARGUMENT, "no algorithm can do %s among these %u ranks: %s",
                         collective_name(shape->collective), shape->ranks,
                         prices->count ? prices->prices[0].refusal : "there is none");
    prices->reason = candidates == 1             ? "the only candidate"
                     : shape->ranks > most_ranks ? "the shortest time, extrapolated from fewer ranks"
                                                 : "the shortest predicted time";
    if (candidates == 1 || shape_units(shape, 0) == 1)
        return WEFT_OK;
    return prefer_fewer_bytes(cluster, shape, most_ranks, prices, error);
}
