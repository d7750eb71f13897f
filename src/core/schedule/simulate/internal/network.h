/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages in flight between nodes, in virtual time, on links that they share. Used by the simulator; belongs to one
 * simulation.
 *
 * A message passes the links of all units that it leaves and enters: an interface of its sender's node, the uplinks of
 * its leaf and of its pod, and the same on the way down; each direction is a link of its own. Messages share links by
 * max-min fairness (progressive filling: D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2): all rates
 * grow together until a link is full, which fixes the rates of its messages, then the others go on. Only messages that
 * are connected by shared links to one that begins or ends get new rates, once for all that begin and end at one time.
 */
#ifndef WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_NETWORK_H
#define WEFT_CORE_SCHEDULE_SIMULATE_INTERNAL_NETWORK_H

#include "core/schedule/simulate/simulate.h"

/** Levels of units that messages cross: nodes, leaves, pods. */
#define NETWORK_CROSSINGS (SHAPE_LEVELS + 1)

struct network_resource;
struct network_flow;

struct simulated_network {
    const struct schedule_shape *shape;
    const struct simulated_cluster *cluster;
    uint32_t levels;                    /**< of units that have links of their own */
    uint32_t units[NETWORK_CROSSINGS];  /**< how many there are of each level; nodes first */
    uint32_t interfaces;                /**< of a node */
    uint32_t copies[NETWORK_CROSSINGS]; /**< so many equal messages take a level's link for each that is simulated: 1,
                                             or where nodes are folded how many nodes are below a unit */
    bool folded;                        /**< one node stands for all: what it sends, it receives */
    uint32_t flow_count;                /**< messages in flight */
    uint32_t *interface_of;             /**< by rank: its interface, among those of its node */

    struct network_resource *resources;
    uint32_t resource_count, first[NETWORK_CROSSINGS]; /* resources of a level: up and down in turn */
    struct network_flow *flows;                        /* one for each sender, then those of the background */
    uint32_t sender_count;
    uint32_t *heap; /* of flows, by their end */
    uint32_t heap_count;
    uint32_t *dirty, dirty_count; /* resources whose messages have changed */
    uint32_t *found_resources, *found_flows;
    uint32_t stamp;
    uint32_t bucket_count, bucket_first; /* of the first resources, those with token buckets; which is empty first */
    double bucket_end, tokens_at;        /* when that is; when tokens were last counted */
    void *memory;
};

/**
 * For messages of `senders` lanes, one each at a time. `folded`: one node stands for all. Errors: MEMORY; PEER when a
 * failed link cuts ranks off. Call network_close() even then.
 */
weft_status network_open(struct simulated_network *network, const struct schedule_shape *shape,
                         const struct simulated_cluster *cluster, uint32_t senders, bool folded, struct error *error);
void network_close(struct simulated_network *network);

/** How many levels two ranks differ in: 0 on one node, 1 under one leaf. */
uint32_t network_crossed(const struct simulated_network *network, uint32_t a, uint32_t b);

/** The link that joins two ranks that differ in so many levels. */
const struct link_parameters *network_link(const struct simulated_network *network, uint32_t crossed);

/** `sender`'s message of `bytes` between two ranks on different nodes begins. */
void network_begin(struct simulated_network *network, double now, uint32_t sender, uint32_t from_rank, uint32_t to_rank,
                   uint64_t bytes);

/** Divide the links among the messages in flight; before time passes. */
void network_settle(struct simulated_network *network, double now);

/** When the first message will have left its sender; infinity: none is in flight. Only after network_settle(). */
double network_next_flow(const struct simulated_network *network);

/** The same, or when a token bucket will be empty, if that is earlier. */
double network_next(const struct simulated_network *network);

/** If that is a bucket, it is empty now: true, and links are to be divided again. */
bool network_empties_bucket(struct simulated_network *network);

/** The first message has left its sender at network_next_flow(): returns its sender, and how long it takes to arrive. */
uint32_t network_end(struct simulated_network *network, double *latency);

/** What the links have carried, `times` over: the bytes that leave units, and the busiest links in `seconds`. */
void network_report(const struct simulated_network *network, double seconds, double times,
                    struct simulated_report *report);

#endif
