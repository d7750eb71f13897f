/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Activities of channels that are under way, and the max-min fair shares of the resources that they get.
 *
 * An activity alone takes the seconds of its transfer; then its rate is 1. Where the activities of a resource together
 * want more than it has, their rates fall, so that all get the same bytes/s, except for those that want less (struct
 * step_channel: a channel may stand for several, which are counted).
 *
 * Messages that leave an interface take turns: as long as those that are under way fill nearly all of it, others wait, and
 * the one that was there first, or has the lowest turn, goes next. Pipelines that begin together would otherwise send at
 * the same time for ever, each at its share, and every message would take as long as all of them. On real links they do
 * not: a pipeline that is ahead by chance stays so, and soon they send one after the other.
 */
#ifndef WEFT_TRAINING_SIMULATE_INTERNAL_STEP_NETWORK_H
#define WEFT_TRAINING_SIMULATE_INTERNAL_STEP_NETWORK_H

#include "training/simulate/internal/step_events.h"
#include "training/simulate/internal/step_fold.h"

/** A time that is later by at most this factor is the same but for rounding. */
#define STEP_LATER (1 + 1e-11)

struct step_flow; /* the activity of a channel */
struct step_link; /* a resource */

struct step_network {
    const struct step_fold *fold;
    struct step_events *events; /**< the end of channel c's activity is the event of object first_object + c */
    uint32_t first_object;
    struct step_flow *flows;
    struct step_link *links;
    uint32_t *pending, pending_count; /**< flows whose rates step_network_settle() computes */
    uint32_t *turns, turn_count;      /**< resources where somebody may have a turn now */
    uint32_t *begun, begun_count;     /**< channels whose messages have got their turn in step_network_settle() */
    uint32_t *flow_list, *link_list;  /**< those whose rates are being computed */
    double *bytes;                    /**< that each resource has moved */
};

/** `fold` and `events` must outlive the network; step_network_close() frees it, also after an error. Errors: MEMORY. */
weft_status step_network_open(struct step_network *network, const struct step_fold *fold, struct step_events *events,
                              uint32_t first_object, struct error *error);
void step_network_close(struct step_network *network);

/**
 * Begin an activity of a channel that has none; its end becomes an event. End it when that comes. Rates change with the
 * next step_network_settle(), once for all that begin and end at a time. False: it begins when it has its turn.
 */
bool step_network_begin(struct step_network *network, uint32_t channel, const struct step_transfer *transfer,
                        double now);
void step_network_end(struct step_network *network, uint32_t channel);

/** Whether step_network_settle() has something to do. */
static inline bool step_network_changes(const struct step_network *network)
{
    return network->pending_count || network->turn_count;
}

/** Before time goes on from `now`: begin messages whose turn it is, share the links again, and move the events of
 * activities whose rates change. */
void step_network_settle(struct step_network *network, double now);

#endif
