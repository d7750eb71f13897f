/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of messages; max-min fair shares by progressive filling, of those activities alone that a change can reach. */
#include "training/simulate/internal/step_network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of demands are rounded: a resource is full from a little more than its capacity on. */
#define FULL (1 + 1e-9)

/* A link is filled by less than that: messages are short of it by their latency. */
#define FILLED 0.9

/* No flow stops, whatever rounding leaves of a resource. */
#define LEAST 1e-9

struct step_flow {
    const struct step_transfer *transfer; /* NULL: the channel is idle */
    double left;                          /* share of the activity that is left at `since` */
    double rate;                          /* 1: as if it were alone */
    double since;
    const struct step_transfer *waits; /* for its turn, */
    double asked;                      /* since then */
    double wanted;                     /* bytes/s of one activity at full rate, where it crosses the highest level */
    uint32_t *positions;               /* of each use: its place in the link's list */
    double *demands;                   /* of each use: bytes/s through the resource at full rate */
    bool pending, listed, fixed;
};

struct step_link {
    uint32_t *flows; /* channels whose activities use it, and which of their uses this is */
    uint32_t *uses;
    uint32_t count, room;
    double demand;        /* bytes/s that they would move at full rate */
    double left, weights; /* while filling: capacity that is not given out; of those that still rise */
    uint32_t rising;      /* ... and how many they are */
    bool listed, full;
    uint32_t *waiting, waiting_count; /* channels whose messages wait for their turn */
    uint32_t turn, messages;          /* whose messages are under way, and how many */
    bool turns;                       /* somebody may have a turn now */
};

weft_status step_network_open(struct step_network *network, const struct step_fold *fold, struct step_events *events,
                              uint32_t first_object, struct error *error)
{
    *network = (struct step_network){.fold = fold,
                                     .events = events,
                                     .first_object = first_object,
                                     .flows = calloc((size_t)fold->channel_count + 1, sizeof *network->flows),
                                     .links = calloc((size_t)fold->resource_count + 1, sizeof *network->links),
                                     .pending = calloc((size_t)fold->channel_count + 1, sizeof(uint32_t)),
                                     .begun = calloc((size_t)fold->channel_count + 1, sizeof(uint32_t)),
                                     .turns = calloc((size_t)fold->resource_count + 1, sizeof(uint32_t)),
                                     .flow_list = calloc((size_t)fold->channel_count + 1, sizeof(uint32_t)),
                                     .link_list = calloc((size_t)fold->resource_count + 1, sizeof(uint32_t)),
                                     .bytes = calloc((size_t)fold->resource_count + 1, sizeof *network->bytes)};
    bool complete = network->flows && network->links && network->pending && network->turns && network->begun &&
                    network->flow_list && network->link_list && network->bytes;
    for (uint32_t c = 0; complete && c < fold->channel_count; c++) {
        const struct step_channel *channel = &fold->channels[c];
        struct step_flow *flow = &network->flows[c];
        flow->positions = calloc((size_t)channel->use_count + 1, sizeof *flow->positions);
        flow->demands = calloc((size_t)channel->use_count + 1, sizeof *flow->demands);
        complete = flow->positions && flow->demands;
        for (uint32_t u = 0; u < channel->use_count; u++)
            network->links[channel->uses[u].resource].room++;
    }
    for (uint32_t r = 0; complete && r < fold->resource_count; r++) {
        struct step_link *link = &network->links[r];
        link->flows = calloc(3 * (size_t)link->room + 1, sizeof *link->flows);
        link->uses = link->flows + link->room;
        link->waiting = link->uses + link->room;
        complete = link->flows != NULL;
    }
    return complete ? WEFT_OK
                    : error_memory(error, fold->channel_count * sizeof *network->flows, "the links of a cluster");
}

void step_network_close(struct step_network *network)
{
    for (uint32_t c = 0; network->flows && c < network->fold->channel_count; c++) {
        free(network->flows[c].positions);
        free(network->flows[c].demands);
    }
    for (uint32_t r = 0; network->links && r < network->fold->resource_count; r++)
        free(network->links[r].flows);
    free(network->flows);
    free(network->links);
    free(network->pending);
    free(network->turns);
    free(network->begun);
    free(network->flow_list);
    free(network->link_list);
    free(network->bytes);
}

static bool link_is_full(const struct step_network *network, uint32_t resource)
{
    return network->links[resource].demand > network->fold->capacity[resource] * FULL;
}

/* ---- progressive filling ---- */

/* The flows that compete, directly or through others: from `channel` over all full resources. */
struct competition {
    uint32_t flows, links;
};

static void list_flow(struct step_network *network, struct competition *competition, uint32_t channel)
{
    struct step_flow *flow = &network->flows[channel];
    if (flow->listed)
        return;
    flow->listed = true;
    flow->fixed = false;
    network->flow_list[competition->flows++] = channel;
}

static void list_links_of(struct step_network *network, struct competition *competition, uint32_t channel)
{
    const struct step_channel *of = &network->fold->channels[channel];
    for (uint32_t u = 0; u < of->use_count; u++) {
        const uint32_t resource = of->uses[u].resource;
        struct step_link *link = &network->links[resource];
        if (link->listed || !link_is_full(network, resource))
            continue;
        link->listed = true;
        link->left = network->fold->capacity[resource];
        link->weights = 0;
        link->rising = link->count;
        network->link_list[competition->links++] = resource;
        for (uint32_t i = 0; i < link->count; i++) {
            const struct step_flow *flow = &network->flows[link->flows[i]];
            list_flow(network, competition, link->flows[i]);
            link->weights += flow->demands[link->uses[i]] / flow->wanted;
        }
    }
}

static void list_competition(struct step_network *network, struct competition *competition)
{
    for (uint32_t i = 0; i < competition->flows; i++)
        list_links_of(network, competition, network->flow_list[i]);
}

/* The level to which all flows that still rise can rise, in bytes/s of one activity. */
static double next_level(struct step_network *network, const struct competition *competition)
{
    double level = INFINITY;
    for (uint32_t i = 0; i < competition->links; i++) {
        const struct step_link *link = &network->links[network->link_list[i]];
        if (link->rising && link->left < level * link->weights)
            level = link->left / link->weights;
    }
    for (uint32_t i = 0; i < competition->flows; i++) {
        const struct step_flow *flow = &network->flows[network->flow_list[i]];
        if (!flow->fixed && flow->wanted < level)
            level = flow->wanted;
    }
    return level > 0 ? level : 0;
}

static void fix_flow(struct step_network *network, uint32_t channel, double level, double *rates)
{
    struct step_flow *flow = &network->flows[channel];
    const struct step_channel *of = &network->fold->channels[channel];
    const double share = level < flow->wanted ? level / flow->wanted : 1, rate = share > LEAST ? share : LEAST;
    flow->fixed = true;
    *rates = rate;
    for (uint32_t u = 0; u < of->use_count; u++) {
        struct step_link *link = &network->links[of->uses[u].resource];
        if (!link->listed || !(flow->transfer->bytes[of->uses[u].level] > 0))
            continue;
        link->left -= flow->demands[u] * rate;
        link->weights -= flow->demands[u] / flow->wanted;
        link->rising--;
    }
}

static void set_rate(struct step_network *network, uint32_t channel, double rate, double now)
{
    struct step_flow *flow = &network->flows[channel];
    if (flow->rate == rate)
        return;
    flow->left -= (now - flow->since) * flow->rate / flow->transfer->seconds;
    flow->left = flow->left > 0 ? flow->left : 0;
    flow->since = now;
    flow->rate = rate;
    step_events_set(network->events, network->first_object + channel,
                    now + flow->left * flow->transfer->seconds / rate);
}

/* Fix all flows that end at this level: those that get all they want, and those of full resources. */
static uint32_t fix_level(struct step_network *network, const struct competition *competition, double level, double now)
{
    uint32_t fixed = 0;
    double rate;
    for (uint32_t i = 0; i < competition->links; i++) {
        struct step_link *link = &network->links[network->link_list[i]];
        link->full = link->rising && link->left <= level * link->weights * FULL;
    }
    for (uint32_t i = 0; i < competition->links; i++) {
        const struct step_link *link = &network->links[network->link_list[i]];
        for (uint32_t k = 0; link->full && k < link->count; k++)
            if (!network->flows[link->flows[k]].fixed) {
                fix_flow(network, link->flows[k], level, &rate);
                set_rate(network, link->flows[k], rate, now);
                fixed++;
            }
    }
    for (uint32_t i = 0; i < competition->flows; i++) {
        const uint32_t channel = network->flow_list[i];
        if (!network->flows[channel].fixed && network->flows[channel].wanted <= level * FULL) {
            fix_flow(network, channel, level, &rate);
            set_rate(network, channel, rate, now);
            fixed++;
        }
    }
    return fixed;
}

static void share_links(struct step_network *network, double now)
{
    struct competition competition = {0};
    for (uint32_t i = 0; i < network->pending_count; i++) {
        struct step_flow *flow = &network->flows[network->pending[i]];
        flow->pending = false;
        if (flow->transfer)
            list_flow(network, &competition, network->pending[i]);
    }
    network->pending_count = 0;
    list_competition(network, &competition);
    for (uint32_t done = 0; done < competition.flows;)
        done += fix_level(network, &competition, next_level(network, &competition), now);
    for (uint32_t i = 0; i < competition.flows; i++)
        network->flows[network->flow_list[i]].listed = false;
    for (uint32_t i = 0; i < competition.links; i++)
        network->links[network->link_list[i]].listed = false;
}

/* ---- activities ---- */

/* The rate of a flow is to be computed again before time goes on. */
static void flow_is_pending(struct step_network *network, uint32_t channel)
{
    struct step_flow *flow = &network->flows[channel];
    if (!flow->pending)
        network->pending[network->pending_count++] = channel;
    flow->pending = true;
}

static void flow_begin(struct step_network *network, uint32_t channel, const struct step_transfer *transfer, double now)
{
    struct step_flow *flow = &network->flows[channel];
    const struct step_channel *of = &network->fold->channels[channel];
    bool competes = false;
    flow->transfer = transfer;
    flow->left = 1;
    flow->rate = 1;
    flow->since = now;
    flow->wanted = 0;
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        if (transfer->bytes[level] > 0)
            flow->wanted = transfer->bytes[level] / transfer->seconds;
    for (uint32_t u = 0; u < of->use_count && transfer->seconds > 0; u++) {
        const struct step_use *use = &of->uses[u];
        if (!(transfer->bytes[use->level] > 0))
            continue;
        struct step_link *link = &network->links[use->resource];
        flow->positions[u] = link->count;
        link->flows[link->count] = channel;
        link->uses[link->count++] = u;
        flow->demands[u] = use->weight * transfer->bytes[use->level] / transfer->seconds;
        link->demand += flow->demands[u];
        network->bytes[use->resource] += use->weight * transfer->bytes[use->level];
        competes = competes || link_is_full(network, use->resource);
    }
    step_events_set(network->events, network->first_object + channel, now + transfer->seconds);
    if (competes)
        flow_is_pending(network, channel);
}

/* ---- turns ---- */

/* Somebody may have a turn there, before time goes on. */
static void link_may_turn(struct step_network *network, uint32_t resource)
{
    struct step_link *link = &network->links[resource];
    if (!link->turns)
        network->turns[network->turn_count++] = resource;
    link->turns = true;
}

/* Whether the message of a channel that waits goes before that of another. */
static bool goes_before(const struct step_network *network, uint32_t channel, uint32_t other)
{
    const struct step_channel *channels = network->fold->channels;
    const double asked = network->flows[channel].asked, of_other = network->flows[other].asked;
    if (asked > of_other * STEP_LATER || of_other > asked * STEP_LATER)
        return asked < of_other;
    return channels[channel].turn != channels[other].turn ? channels[channel].turn < channels[other].turn
                                                          : channel < other;
}

/* Whether those with a turn are the ones whose messages are under way, or there is room beside these. */
static bool has_turn(const struct step_network *network, uint32_t resource, uint32_t turn)
{
    const struct step_link *link = &network->links[resource];
    return !link->messages || link->turn == turn || link->demand < FILLED * network->fold->capacity[resource];
}

/* Begin the messages whose turn it is. */
static void link_turn(struct step_network *network, uint32_t resource, double now)
{
    struct step_link *link = &network->links[resource];
    link->turns = false;
    while (link->waiting_count) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < link->waiting_count; i++)
            if (goes_before(network, link->waiting[i], link->waiting[first]))
                first = i;
        const uint32_t channel = link->waiting[first];
        if (!has_turn(network, resource, network->fold->channels[channel].turn))
            return;
        link->waiting[first] = link->waiting[--link->waiting_count];
        link->turn = network->fold->channels[channel].turn;
        link->messages++;
        flow_begin(network, channel, network->flows[channel].waits, now);
        network->begun[network->begun_count++] = channel;
    }
}

bool step_network_begin(struct step_network *network, uint32_t channel, const struct step_transfer *transfer,
                        double now)
{
    const uint32_t resource = network->fold->channels[channel].turn_resource;
    if (resource == STEP_NONE || !(transfer->seconds > 0)) {
        flow_begin(network, channel, transfer, now);
        return true;
    }
    struct step_link *link = &network->links[resource];
    network->flows[channel].waits = transfer;
    network->flows[channel].asked = now;
    link->waiting[link->waiting_count++] = channel;
    link_may_turn(network, resource);
    return false;
}

void step_network_settle(struct step_network *network, double now)
{
    network->begun_count = 0;
    for (uint32_t i = 0; i < network->turn_count; i++)
        link_turn(network, network->turns[i], now);
    network->turn_count = 0;
    share_links(network, now);
}

void step_network_end(struct step_network *network, uint32_t channel)
{
    struct step_flow *flow = &network->flows[channel];
    const struct step_channel *of = &network->fold->channels[channel];
    for (uint32_t u = 0; u < of->use_count && flow->transfer->seconds > 0; u++) {
        const struct step_use *use = &of->uses[u];
        if (!(flow->transfer->bytes[use->level] > 0))
            continue;
        struct step_link *link = &network->links[use->resource];
        const bool was_full = link_is_full(network, use->resource);
        const uint32_t at = flow->positions[u], last = --link->count;
        link->flows[at] = link->flows[last];
        link->uses[at] = link->uses[last];
        network->flows[link->flows[at]].positions[link->uses[at]] = at;
        link->demand = link->count ? link->demand - flow->demands[u] : 0;
        for (uint32_t k = 0; was_full && k < link->count; k++)
            flow_is_pending(network, link->flows[k]);
        if (link->waiting_count)
            link_may_turn(network, of->uses[u].resource);
    }
    const uint32_t resource = of->turn_resource;
    if (resource != STEP_NONE && flow->transfer->seconds > 0) {
        network->links[resource].messages--;
        link_may_turn(network, resource);
    }
    flow->transfer = NULL;
}
