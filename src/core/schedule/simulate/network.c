/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/internal/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Links on the way of a message. */
#define LINKS (2 * NETWORK_CROSSINGS)

/* Shares that differ by less are equal: they only differ by rounding. */
#define EQUAL_SHARES (1 + 1e-9)

/* A link, one direction. */
struct network_resource {
    double capacity;
    double left, weight;   /* while links are divided: capacity, and messages without a rate */
    uint32_t first, stamp; /* of its messages */
    double carried;        /* bytes of messages that have begun, headers included */
    double payload;        /* the same without headers */
    bool dirty;
    double tokens, load; /* of a token bucket: bytes in it, bytes/s that messages take */
};

struct network_flow {
    double bytes, rate; /* left at `since`; bytes per second */
    double since, end;
    double most; /* bytes per second; infinite for messages */
    uint32_t heap_at;
    uint32_t stamp;
    bool fixed; /* while links are divided: has its rate */
    uint8_t crossed, links;
    struct {
        uint32_t resource, next, previous; /* neighbors among the messages of the resource: flow x LINKS + link */
        double weight;
    } on[LINKS];
};

const struct link_parameters *network_link(const struct simulated_network *network, uint32_t crossed)
{
    return crossed == 0   ? &network->cluster->near
           : crossed == 1 ? &network->cluster->far
                          : &network->cluster->above[crossed - 2];
}

uint32_t network_crossed(const struct simulated_network *network, uint32_t a, uint32_t b)
{
    uint32_t crossed = 0;
    a = shape_node(network->shape, a);
    b = shape_node(network->shape, b);
    while (a != b && crossed < network->levels) {
        if (++crossed < network->levels) {
            a = network->shape->above[crossed - 1][a];
            b = network->shape->above[crossed - 1][b];
        }
    }
    return crossed;
}

/* ---- the heap of ends ---- */

static bool network_ends_before(const struct simulated_network *network, uint32_t a, uint32_t b)
{
    const struct network_flow *first = &network->flows[a], *second = &network->flows[b];
    return first->end < second->end || (first->end == second->end && a < b);
}

static void network_heap_set(struct simulated_network *network, uint32_t at, uint32_t flow)
{
    network->heap[at] = flow;
    network->flows[flow].heap_at = at;
}

/* Put a flow whose end has changed in its place, from place `at` on. */
static void network_heap_place(struct simulated_network *network, uint32_t at, uint32_t flow)
{
    for (; at && network_ends_before(network, flow, network->heap[(at - 1) / 2]); at = (at - 1) / 2)
        network_heap_set(network, at, network->heap[(at - 1) / 2]);
    for (uint32_t child; (child = 2 * at + 1) < network->heap_count; at = child) {
        if (child + 1 < network->heap_count &&
            network_ends_before(network, network->heap[child + 1], network->heap[child]))
            child++;
        if (!network_ends_before(network, network->heap[child], flow))
            break;
        network_heap_set(network, at, network->heap[child]);
    }
    network_heap_set(network, at, flow);
}

static void network_heap_remove(struct simulated_network *network, uint32_t flow)
{
    uint32_t at = network->flows[flow].heap_at, last = network->heap[--network->heap_count];
    network->flows[flow].heap_at = NONE;
    if (last != flow)
        network_heap_place(network, at, last);
}

/* ---- messages on links ---- */

static void network_mark(struct simulated_network *network, uint32_t resource)
{
    if (!network->resources[resource].dirty)
        network->dirty[network->dirty_count++] = resource;
    network->resources[resource].dirty = true;
}

static void network_join(struct simulated_network *network, uint32_t index, uint32_t resource, double weight,
                         double bytes)
{
    struct network_flow *flow = &network->flows[index];
    struct network_resource *joined = &network->resources[resource];
    joined->carried += weight * bytes;
    if (bytes > 0)
        joined->payload += weight * (bytes - SIMULATED_HEADER_BYTES);
    if (joined->capacity == INFINITY)
        return;
    uint32_t link = flow->links++, entry = index * LINKS + link;
    flow->on[link].resource = resource;
    flow->on[link].weight = weight;
    flow->on[link].previous = NONE;
    flow->on[link].next = joined->first;
    if (joined->first != NONE)
        network->flows[joined->first / LINKS].on[joined->first % LINKS].previous = entry;
    joined->first = entry;
    network_mark(network, resource);
}

static void network_leave(struct simulated_network *network, uint32_t index)
{
    struct network_flow *flow = &network->flows[index];
    for (uint32_t link = 0; link < flow->links; link++) {
        uint32_t next = flow->on[link].next, previous = flow->on[link].previous;
        if (previous == NONE)
            network->resources[flow->on[link].resource].first = next;
        else
            network->flows[previous / LINKS].on[previous % LINKS].next = next;
        if (next != NONE)
            network->flows[next / LINKS].on[next % LINKS].previous = previous;
        network_mark(network, flow->on[link].resource);
    }
    flow->links = 0;
}

/* The link upward, or downward, of the unit of a level that a rank's node is in. */
static uint32_t network_resource_of(const struct simulated_network *network, uint32_t level, uint32_t unit,
                                    uint32_t interface, uint32_t down)
{
    uint32_t each = level ? 1 : network->interfaces;
    return network->first[level] + 2 * (unit * each + interface) + down;
}

void network_begin(struct simulated_network *network, double now, uint32_t sender, uint32_t from_rank, uint32_t to_rank,
                   uint64_t bytes)
{
    struct network_flow *flow = &network->flows[sender];
    double size = (double)bytes + SIMULATED_HEADER_BYTES;
    *flow = (struct network_flow){.bytes = size, .since = now, .end = now, .most = INFINITY, .heap_at = NONE};
    flow->crossed = (uint8_t)network_crossed(network, from_rank, to_rank);
    uint32_t from = shape_node(network->shape, from_rank);
    uint32_t to = network->folded ? from : shape_node(network->shape, to_rank);
    for (uint32_t level = 0; level < flow->crossed; level++) {
        if (level) {
            from = network->shape->above[level - 1][from];
            to = network->shape->above[level - 1][to];
        }
        network_join(network, sender,
                     network_resource_of(network, level, from, level ? 0 : network->interface_of[from_rank], 0),
                     network->copies[level], size);
        network_join(network, sender,
                     network_resource_of(network, level, to, level ? 0 : network->interface_of[to_rank], 1),
                     network->copies[level], size);
    }
    network->flow_count++;
}

double network_next_flow(const struct simulated_network *network)
{
    return network->heap_count ? network->flows[network->heap[0]].end : INFINITY;
}

double network_next(const struct simulated_network *network)
{
    double flow = network_next_flow(network);
    return flow < network->bucket_end ? flow : network->bucket_end;
}

uint32_t network_end(struct simulated_network *network, double *latency)
{
    uint32_t sender = network->heap[0];
    *latency = network_link(network, network->flows[sender].crossed)->latency;
    network_heap_remove(network, sender);
    network_leave(network, sender);
    network->flow_count--;
    return sender;
}

/* ---- token buckets ---- */

/* Less is an empty bucket. */
#define NO_TOKENS 1e-3

/* Before the messages on interfaces change: what they have taken of the tokens so far. */
static void network_take_tokens(struct simulated_network *network, double now)
{
    double burst = network->cluster->burst_bytes / network->interfaces;
    for (uint32_t i = 0; i < network->bucket_count; i++) {
        struct network_resource *resource = &network->resources[i];
        double taken = (now - network->tokens_at) * (resource->load - resource->capacity);
        resource->tokens = fmin(burst, resource->tokens - taken);
    }
    network->tokens_at = now;
}

/* What a link lets through from now on. */
static double network_rate_of(const struct simulated_network *network, const struct network_resource *resource)
{
    return resource->tokens > NO_TOKENS ? network->cluster->burst_bandwidth / network->interfaces : resource->capacity;
}

/* Which bucket is empty first at the new rates. */
static void network_watch_buckets(struct simulated_network *network)
{
    network->bucket_end = INFINITY;
    for (uint32_t i = 0; i < network->bucket_count; i++) {
        struct network_resource *resource = &network->resources[i];
        resource->load = 0;
        for (uint32_t entry = resource->first; entry != NONE;) {
            const struct network_flow *flow = &network->flows[entry / LINKS];
            resource->load += flow->rate * flow->on[entry % LINKS].weight;
            entry = flow->on[entry % LINKS].next;
        }
        double drain = resource->load - resource->capacity, end = network->tokens_at + resource->tokens / drain;
        if (resource->tokens > NO_TOKENS && drain > 0 && end < network->bucket_end) {
            network->bucket_end = end;
            network->bucket_first = i;
        }
    }
}

bool network_empties_bucket(struct simulated_network *network)
{
    if (network->bucket_end >= network_next_flow(network))
        return false;
    network_take_tokens(network, network->bucket_end);
    network->resources[network->bucket_first].tokens = 0;
    network->bucket_end = INFINITY;
    network_mark(network, network->bucket_first);
    return true;
}

/* ---- dividing the links ---- */

/* All that is connected to the links whose messages have changed; returns the numbers of both. */
static uint32_t network_find_connected(struct simulated_network *network, uint32_t *flow_count)
{
    uint32_t found = 0, flows = 0;
    network->stamp++;
    for (uint32_t i = 0; i < network->dirty_count; i++) {
        struct network_resource *resource = &network->resources[network->dirty[i]];
        resource->dirty = false;
        if (resource->first == NONE)
            continue;
        resource->stamp = network->stamp;
        network->found_resources[found++] = network->dirty[i];
    }
    network->dirty_count = 0;
    for (uint32_t i = 0; i < found; i++) {
        struct network_resource *resource = &network->resources[network->found_resources[i]];
        resource->left = network_rate_of(network, resource);
        resource->weight = 0;
        for (uint32_t entry = resource->first; entry != NONE;) {
            struct network_flow *flow = &network->flows[entry / LINKS];
            resource->weight += flow->on[entry % LINKS].weight;
            if (flow->stamp != network->stamp) {
                flow->stamp = network->stamp;
                flow->fixed = false;
                network->found_flows[flows++] = entry / LINKS;
                for (uint32_t link = 0; link < flow->links; link++) {
                    struct network_resource *other = &network->resources[flow->on[link].resource];
                    if (other->stamp == network->stamp)
                        continue;
                    other->stamp = network->stamp;
                    network->found_resources[found++] = flow->on[link].resource;
                }
            }
            entry = flow->on[entry % LINKS].next;
        }
    }
    *flow_count = flows;
    return found;
}

/* A message gets its rate; one that keeps the rate that it has keeps its end. */
static void network_fix(struct simulated_network *network, double now, uint32_t index, double rate)
{
    struct network_flow *flow = &network->flows[index];
    flow->fixed = true;
    for (uint32_t link = 0; link < flow->links; link++) {
        struct network_resource *resource = &network->resources[flow->on[link].resource];
        double left = resource->left - rate * flow->on[link].weight;
        resource->left = left > 0 ? left : 0;
        resource->weight -= flow->on[link].weight;
    }
    if (flow->bytes == INFINITY || (flow->heap_at != NONE && fabs(flow->rate - rate) <= 1e-12 * rate))
        return;
    double left = flow->bytes - (now - flow->since) * flow->rate;
    flow->bytes = left > 0 ? left : 0;
    flow->since = now;
    flow->rate = rate;
    flow->end = now + flow->bytes / rate;
    network_heap_place(network, flow->heap_at == NONE ? network->heap_count++ : flow->heap_at, index);
}

void network_settle(struct simulated_network *network, double now)
{
    if (!network->dirty_count)
        return;
    if (network->bucket_count)
        network_take_tokens(network, now);
    uint32_t flows, resources = network_find_connected(network, &flows), fixed = 0;
    while (fixed < flows) {
        double share = INFINITY;
        for (uint32_t i = 0; i < resources;) {
            const struct network_resource *resource = &network->resources[network->found_resources[i]];
            if (resource->weight <= 0) { /* all of its messages have their rates */
                network->found_resources[i] = network->found_resources[--resources];
                continue;
            }
            double each = resource->left / resource->weight;
            share = each < share ? each : share;
            i++;
        }
        /* The background takes no more than it needs. */
        double most = share * EQUAL_SHARES;
        for (uint32_t i = 0; network->cluster->disturbance && i < flows; i++) {
            const struct network_flow *flow = &network->flows[network->found_flows[i]];
            if (!flow->fixed && flow->most < share) {
                share = flow->most;
                most = -1;
            }
        }
        for (uint32_t i = 0; most < 0 && i < flows; i++) {
            if (!network->flows[network->found_flows[i]].fixed &&
                network->flows[network->found_flows[i]].most <= share) {
                network_fix(network, now, network->found_flows[i], share);
                fixed++;
            }
        }
        for (uint32_t i = 0; most >= 0 && i < resources; i++) {
            const struct network_resource *resource = &network->resources[network->found_resources[i]];
            if (resource->weight <= 0 || resource->left / resource->weight > most)
                continue;
            for (uint32_t entry = resource->first; entry != NONE;) {
                uint32_t flow = entry / LINKS;
                entry = network->flows[flow].on[entry % LINKS].next;
                if (network->flows[flow].fixed)
                    continue;
                network_fix(network, now, flow, share);
                fixed++;
            }
        }
    }
    if (network->bucket_count)
        network_watch_buckets(network);
}

/* ---- setting up ---- */

/* Each interface serves equally many consecutive ranks of its node. */
static void network_spread_ranks(struct simulated_network *network, uint32_t *sizes)
{
    const struct schedule_shape *shape = network->shape;
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        network->interface_of[rank] = sizes[shape_node(shape, rank)]++;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        uint32_t size = sizes[shape_node(shape, rank)], *of = &network->interface_of[rank];
        if (size > network->interfaces)
            *of = (uint32_t)((uint64_t)*of * network->interfaces / size);
    }
}

/* A degraded or failed link. */
static weft_status network_weaken(struct simulated_network *network, const struct simulated_disturbance *disturbance,
                                  struct error *error)
{
    static const char *const names[] = {"node", "leaf", "pod"};
    const struct schedule_shape *shape = network->shape;
    uint32_t level = disturbance->weak_level, unit = disturbance->weak_unit, each = level ? 1 : network->interfaces;
    if (level >= network->levels || unit >= network->units[level])
        return error_set(error, WEFT_ERROR_ARGUMENT, "the link of %s %u cannot be degraded: there is no such link",
                         level <= SHAPE_LEVELS ? names[level] : "level", unit);
    if (disturbance->weak_share <= 0 && each == 1)
        return error_set(error, WEFT_ERROR_PEER, "the failed link of %s %u cuts its ranks off: nothing completes",
                         names[level], unit);
    for (uint32_t interface = 0; interface < (disturbance->weak_share > 0 ? each : 1); interface++)
        for (uint32_t down = 0; down < 2; down++)
            network->resources[network_resource_of(network, level, unit, interface, down)].capacity *=
                disturbance->weak_share;
    for (uint32_t rank = 0, next = 0; disturbance->weak_share <= 0 && rank < shape->ranks; rank++)
        if (shape_node(shape, rank) == unit && network->interface_of[rank] == 0)
            network->interface_of[rank] = 1 + next++ % (each - 1);
    return WEFT_OK;
}

/* What every node reads and writes besides, over each of its interfaces. */
static void network_add_background(struct simulated_network *network, const struct simulated_disturbance *disturbance)
{
    uint32_t next = network->sender_count;
    for (uint32_t down = 0; down < 2; down++) {
        double rate = (down ? disturbance->reading : disturbance->writing) / network->interfaces;
        for (uint32_t i = 0; rate > 0 && i < network->units[0] * network->interfaces; i++, next++) {
            uint32_t unit = i / network->interfaces;
            network->flows[next] = (struct network_flow){.bytes = INFINITY, .most = rate, .heap_at = NONE};
            if (network->resources[network_resource_of(network, 0, unit, i % network->interfaces, down)].capacity <= 0)
                continue; /* it has failed */
            for (uint32_t level = 0; level < network->levels; level++) {
                if (level)
                    unit = network->shape->above[level - 1][unit];
                network_join(network, next,
                             network_resource_of(network, level, unit, level ? 0 : i % network->interfaces, down), 1,
                             0);
            }
        }
    }
}

/* Uplinks that carry all that the units below can send never hold a message up, so they need not be divided. */
static void network_set_capacities(struct simulated_network *network)
{
    for (uint32_t level = 0; level < network->levels; level++) {
        double capacity = network_link(network, level + 1)->bandwidth;
        double below = level ? network_link(network, level)->bandwidth : 0;
        uint32_t each = level ? 1 : network->interfaces, *counts = network->found_resources;
        memset(counts, 0, network->units[level] * sizeof *counts);
        for (uint32_t unit = 0; level && unit < network->units[level - 1]; unit++)
            counts[network->shape->above[level - 1][unit]]++;
        for (uint32_t unit = 0; unit < network->units[level]; unit++) {
            bool ample = level && !network->cluster->disturbance && counts[unit] * below <= capacity;
            for (uint32_t i = 0; i < 2 * each; i++)
                network->resources[network->first[level] + unit * 2 * each + i].capacity =
                    ample ? INFINITY : capacity / each;
        }
    }
}

weft_status network_open(struct simulated_network *network, const struct schedule_shape *shape,
                         const struct simulated_cluster *cluster, uint32_t senders, bool folded, struct error *error)
{
    *network = (struct simulated_network){.shape = shape,
                                          .cluster = cluster,
                                          .levels = 1,
                                          .interfaces = cluster->interfaces ? cluster->interfaces : 1,
                                          .folded = folded,
                                          .sender_count = senders,
                                          .bucket_end = INFINITY};
    while (network->levels < shape_levels(shape) && network_link(network, network->levels + 1)->bandwidth > 0)
        network->levels++;
    for (uint32_t level = 0; level < network->levels; level++) {
        network->units[level] = shape_units(shape, level);
        network->first[level] = network->resource_count;
        network->resource_count += 2 * network->units[level] * (level ? 1 : network->interfaces);
        network->copies[level] = folded ? network->units[0] / network->units[level] : 1;
    }
    const struct simulated_disturbance *disturbance = cluster->disturbance;
    size_t background = disturbance ? 2 * (size_t)network->units[0] * network->interfaces : 0;
    size_t flows = senders + background, resources = network->resource_count;
    size_t bytes = flows * sizeof *network->flows + resources * sizeof *network->resources +
                   (2 * flows + 2 * resources + shape->ranks + network->units[0] + 1) * sizeof(uint32_t);
    network->memory = calloc(1, bytes);
    if (!network->memory)
        return error_memory(error, bytes, "the links of a simulation");
    network->flows = network->memory;
    network->resources = (struct network_resource *)(network->flows + flows);
    network->heap = (uint32_t *)(network->resources + resources);
    network->found_flows = network->heap + flows;
    network->dirty = network->found_flows + flows;
    network->found_resources = network->dirty + resources;
    network->interface_of = network->found_resources + resources;
    if (cluster->burst_bytes > 0) /* interfaces come first */
        network->bucket_count = 2 * network->units[0] * network->interfaces;
    for (uint32_t i = 0; i < resources; i++) {
        network->resources[i].first = NONE;
        network->resources[i].tokens = i < network->bucket_count ? cluster->burst_bytes / network->interfaces : 0;
    }
    network_set_capacities(network);
    network_spread_ranks(network, network->interface_of + shape->ranks);
    weft_status status = WEFT_OK;
    if (disturbance && disturbance->degrade)
        status = network_weaken(network, disturbance, error);
    if (status == WEFT_OK && disturbance)
        network_add_background(network, disturbance);
    return status;
}

void network_close(struct simulated_network *network)
{
    free(network->memory);
}

/* ---- what was found ---- */

void network_report(const struct simulated_network *network, double seconds, double times,
                    struct simulated_report *report)
{
    report->load_count = 0;
    for (uint32_t level = 0; level < network->levels; level++) {
        uint32_t each = level ? 1 : network->interfaces;
        for (uint32_t down = 0; down < 2; down++) {
            struct simulated_load busiest = {.level = level, .down = down};
            for (uint32_t unit = 0; unit < network->units[level]; unit++) {
                double leaving = 0;
                for (uint32_t interface = 0; interface < each; interface++) {
                    const struct network_resource *link =
                        &network->resources[network_resource_of(network, level, unit, interface, down)];
                    double bytes = link->carried * times, capacity = network_link(network, level + 1)->bandwidth / each;
                    if (link->capacity < INFINITY)
                        capacity = link->capacity;
                    leaving += link->payload * times;
                    double share = capacity > 0 ? bytes / (capacity * seconds) : 0;
                    if (share > busiest.share) {
                        busiest = (struct simulated_load){level, unit, interface, down, bytes, share};
                    }
                }
                if (!down)
                    report->leaving[level + 1] = fmax(report->leaving[level + 1], leaving);
            }
            if (busiest.bytes > 0 && report->load_count < SIMULATED_LOADS)
                report->loads[report->load_count++] = busiest;
        }
    }
}
