/* SPDX-License-Identifier: Apache-2.0 */
/** What one algorithm costs, up to a limit: the parts of simulate_report(), for comparisons. */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_SCALE_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_SCALE_H

#include "core/schedule/simulate/simulate_price.h"

/** What ranks of the first node exchange with others. All zero: there is one node. */
struct scale_traffic {
    double messages;                            /**< of the rank with the most, sent and received */
    double rank_bytes, bytes[SHAPE_LEVELS + 1]; /**< of the rank that sends most; out of its node, leaf and pod */
    double simulated_messages, simulated_bytes; /**< of `messages` and `bytes[0]` those of the first iterations */
};

weft_status scale_count(const struct algorithm *algorithm, const struct schedule_shape *shape,
                        struct scale_traffic *traffic, struct error *error);

/**
 * A lower bound for the time: that for which messages occupy a rank of the first node, and the node's bytes its links.
 */
double scale_bound(const struct scale_traffic *traffic, const struct simulated_cluster *cluster);

/**
 * simulate_report(), ended early where the result is more than `limit` seconds: then report->seconds is infinite, and
 * nothing else is set. An extrapolated one lacks the bytes that leave leaves and pods until simulate_complete().
 * `traffic`: of scale_count().
 */
weft_status simulate_estimate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                              const struct simulated_cluster *cluster, uint32_t most_ranks,
                              const struct scale_traffic *traffic, double limit, struct simulated_report *report,
                              struct error *error);
weft_status simulate_complete(const struct algorithm *algorithm, const struct schedule_shape *shape,
                              struct simulated_report *report, struct error *error);

#endif
