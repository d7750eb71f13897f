/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths: from a rail here to a rail of a peer. Both ends pair their rails in the same way, verify the pairs by probes,
 * and report to each other the observed rate of each pair.
 */
#include "core/transport/fabric/internal/state.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define UNKNOWN_RATE   1.25e9 /* bytes per second, of a link that reports no rate: the rate that virtual ones report */
#define MOST_RATE      1e15   /* no peer reports more */
#define LEARN_BYTES    ((uint64_t)1 << 20) /* over all rails: enough for a first estimate ... */
#define LEARN_TIME     20000000u           /* ns; ... and for a better one */
#define NEW_WEIGHT     0.25                /* weight of the latest observation */
#define CLEARLY_FASTER 1.25                /* messages change only to a path that is faster by this factor */
#define PROBE_LIMIT    5000000000u         /* ns: a probe that the provider does not even accept */
#define WATCH_INTERVAL 100000000u          /* ns */
#define SILENCE_ASKED  300000000u          /* ns without any message of a peer: probe all paths */
#define SILENCE_DEAD   1200000000u         /* ns without an answer, while another path has answered */

/* ---- pairing ---- */

static bool same_network(const struct fabric_rail_endpoint *a, const struct fabric_rail_endpoint *b)
{
    static const uint8_t nothing[sizeof a->network];
    return memcmp(a->network, nothing, sizeof nothing) != 0 && memcmp(a->network, b->network, sizeof a->network) == 0;
}

/**
 * Pair the rails of two ranks: those on the same network first, the rest in order. The result depends on both
 * endpoints, not on which side computes it: `low` is the lower rank's.
 */
static uint8_t pair_rails(const struct fabric_endpoint *low, const struct fabric_endpoint *high,
                          uint8_t pairs[FABRIC_RAILS][2])
{
    uint8_t count = 0;
    uint32_t low_taken = 0, high_taken = 0;
    for (int any = 0; any < 2; any++)
        for (uint32_t l = 0; l < low->rails; l++)
            for (uint32_t h = 0; h < high->rails && !(low_taken & 1u << l); h++)
                if (!(high_taken & 1u << h) && low->rail[l].address_bytes == high->rail[h].address_bytes &&
                    (any || same_network(&low->rail[l], &high->rail[h]))) {
                    low_taken |= 1u << l;
                    high_taken |= 1u << h;
                    pairs[count][0] = (uint8_t)l;
                    pairs[count++][1] = (uint8_t)h;
                }
    return count;
}

weft_status paths_open(struct fabric *fabric, uint32_t rank, const struct fabric_endpoint *endpoint,
                       struct error *error)
{
    struct peer *peer = &fabric->peers[rank];
    bool lower = fabric->rank < rank;
    uint8_t pairs[FABRIC_RAILS][2];
    uint8_t count = endpoint->rails > FABRIC_RAILS
                        ? 0
                        : pair_rails(lower ? &fabric->endpoint : endpoint, lower ? endpoint : &fabric->endpoint, pairs);
    if (!count)
        return error_set(
            error, WEFT_ERROR_NETWORK,
            "%s: the addresses of rank %u and rank %u are of different kinds (IPv4 and IPv6?); name an interface",
            fabric->name, rank, fabric->rank);
    peer->paths = calloc(count, sizeof *peer->paths);
    if (!peer->paths)
        return error_memory(error, count * sizeof *peer->paths, "the paths to a rank");
    peer->path_count = count;
    peer->rails = (uint8_t)endpoint->rails;
    for (uint8_t i = 0; i < count; i++) {
        struct path *path = &peer->paths[i];
        path->rail = pairs[i][!lower];
        path->peer_rail = pairs[i][lower];
        path->state = count == 1 ? PATH_VERIFIED : PATH_NEW; /* a single path needs no probe */
        const struct fabric_rail_endpoint *theirs = &endpoint->rail[path->peer_rail];
        struct rail *rail = &fabric->rails[path->rail];
        const uint64_t here = fabric->endpoint.rail[path->rail].bytes_per_second, there = theirs->bytes_per_second;
        const uint64_t rate = here < there ? here : there;
        path->rate = rate ? (double)rate : UNKNOWN_RATE;
        snprintf(path->peer_interface, sizeof path->peer_interface, "%.*s", (int)sizeof path->peer_interface - 1,
                 theirs->interface);
        if (fi_av_insert(rail->addresses, theirs->address, 1, &path->address, 0, NULL) != 1 ||
            fi_av_insert(rail->addresses, theirs->bulk_address, 1, &path->bulk_address, 0, NULL) != 1)
            return error_set(error, WEFT_ERROR_NETWORK, "%s: the provider rejects rank %u's address", fabric->name,
                             rank);
    }
    return WEFT_OK;
}

struct path *path_by_rail(const struct peer *peer, uint32_t rail)
{
    for (uint8_t i = 0; i < peer->path_count; i++)
        if (peer->paths[i].rail == rail)
            return &peer->paths[i];
    return NULL;
}

/* ---- choosing ---- */

struct path *path_of_messages(struct peer *peer)
{
    struct path *path = &peer->paths[peer->message_path];
    return path->state == PATH_VERIFIED ? path : NULL;
}

/** Messages take the fastest path; they change it only for one that is clearly faster. */
static void choose_message_path(struct peer *peer)
{
    for (uint8_t i = 0; i < peer->path_count; i++) {
        const struct path *path = &peer->paths[i], *now = path_of_messages(peer);
        if (path->state == PATH_VERIFIED && (!now || path->rate > CLEARLY_FASTER * now->rate))
            peer->message_path = i;
    }
}

/** When `path` would have carried another `bytes`. */
static uint64_t finish_of(const struct fabric *fabric, const struct path *path, uint64_t now, uint64_t bytes)
{
    uint64_t start = now + (uint64_t)((double)path->bytes_in_flight / path->rate * 1e9);
    uint64_t busy_until = fabric->rails[path->rail].busy_until;
    return (start > busy_until ? start : busy_until) + (uint64_t)((double)bytes / path->rate * 1e9);
}

struct path *path_for_chunk(struct fabric *fabric, struct peer *peer, uint64_t bytes)
{
    struct path *best = NULL;
    uint64_t now = peer->path_count > 1 ? clock_now() : 0, best_finish = 0;
    for (uint8_t i = 0; i < peer->path_count; i++) {
        struct path *path = &peer->paths[i];
        if (path->state != PATH_VERIFIED)
            continue;
        uint64_t finish = peer->path_count > 1 ? finish_of(fabric, path, now, bytes) : 0;
        if (best && finish >= best_finish)
            continue;
        best = path;
        best_finish = finish;
    }
    return best && (!best->bytes_in_flight || best->bytes_in_flight + bytes <= FABRIC_BYTES_IN_FLIGHT) ? best : NULL;
}

void path_take_chunk(struct fabric *fabric, struct peer *peer, struct path *path, uint64_t bytes)
{
    if (peer->path_count > 1)
        fabric->rails[path->rail].busy_until = finish_of(fabric, path, clock_now(), bytes);
    path->bytes_in_flight += bytes;
}

/* ---- rates ---- */

void paths_take_rates(struct peer *peer, const struct fabric_announcement *announcement)
{
    if (peer->path_count == 1)
        return;
    for (uint8_t i = 0; i < peer->path_count; i++) {
        double rate = announcement->rail[peer->paths[i].peer_rail].rate;
        if (rate >= 1 && rate <= MOST_RATE)
            peer->paths[i].rate = rate;
    }
    choose_message_path(peer);
}

/**
 * The rate of each path is measured by itself: bytes that arrived on it, from the first to the last of a transfer's
 * chunks, divided by the time between. So it does not depend on the path's share of the message, nor on the time when
 * the sender began. Bytes and times are added up over many transfers, because a rank that polls late sees chunks arrive
 * all at once, and the first bytes after a pause often pass at another speed than those of a long message.
 */
void paths_learn(struct peer *peer, const struct fabric_lane *lane)
{
    for (uint8_t i = 0; i < peer->path_count; i++) {
        struct path *path = &peer->paths[i];
        const struct arrivals *arrivals = &lane->rail[path->rail];
        path->seen_bytes += arrivals->last_bytes - arrivals->first_bytes;
        path->seen_time += arrivals->last - arrivals->first;
        double old = path->arrival_rate;
        if (path->seen_time < LEARN_TIME && (old > 0 || path->seen_bytes < LEARN_BYTES))
            continue;
        double rate = (double)path->seen_bytes / ((double)path->seen_time * 1e-9);
        path->arrival_rate = old > 0 ? old * (1 - NEW_WEIGHT) + rate * NEW_WEIGHT : rate;
        path->seen_bytes = path->seen_time = 0;
    }
}

/* ---- probing ---- */

static void probe(struct fabric *fabric, struct peer *peer, struct path *path)
{
    path->probe_due = true;
    path->asked = clock_now();
    peer_is_busy(fabric, peer);
}

void paths_probe(struct fabric *fabric, struct peer *peer)
{
    peer->contacted = true;
    for (uint8_t i = 0; i < peer->path_count; i++) {
        if (peer->paths[i].state != PATH_NEW)
            continue;
        peer->paths[i].state = PATH_PROBING;
        probe(fabric, peer, &peer->paths[i]);
    }
}

static bool send_probe(struct fabric *fabric, struct peer *peer, const struct path *path, enum message_kind kind)
{
    const struct fabric_header header = {
        .kind = (uint8_t)kind,
        .source = fabric->rank,
        .sequence = (uint32_t)(peer - fabric->peers),
    };
    return message_post_probe(fabric, peer, path, &header);
}

bool paths_flush(struct fabric *fabric, struct peer *peer)
{
    bool all = true;
    for (uint8_t i = 0; i < peer->path_count && !fabric->closing; i++) {
        struct path *path = &peer->paths[i];
        if (path->answer_due)
            path->answer_due = !send_probe(fabric, peer, path, MESSAGE_PROBED);
        if (path->probe_due)
            path->probe_due = !send_probe(fabric, peer, path, MESSAGE_PROBE);
        if (path->probe_due && path->state == PATH_PROBING && clock_now() - path->asked > PROBE_LIMIT)
            path_refuse_probe(peer, path->rail);
        all = all && !path->answer_due && !path->probe_due;
    }
    return all;
}

void path_take_probe(struct fabric *fabric, struct peer *peer, uint32_t rail, const struct fabric_header *header)
{
    struct path *path = path_by_rail(peer, rail);
    if (!path || header->sequence != fabric->rank)
        return; /* meant for another rank: two hosts have the same address */
    if (header->kind == MESSAGE_PROBE) {
        path->answer_due = true;
    } else {
        path->asked = 0;
        path->answered = clock_now();
        if (path->state == PATH_PROBING) {
            path->state = PATH_VERIFIED;
            choose_message_path(peer);
        }
    }
    peer_is_busy(fabric, peer);
}

void path_refuse_probe(struct peer *peer, uint32_t rail)
{
    struct path *path = path_by_rail(peer, rail);
    if (!path || path->state != PATH_PROBING)
        return;
    path->state = PATH_DEAD;
    path->probe_due = path->answer_due = false;
}

/* ---- silence ---- */

/** Fail if `path` has not answered while another one has. */
static void judge(struct fabric *fabric, const struct peer *peer, const struct path *path, uint64_t now)
{
    for (uint8_t i = 0; i < peer->path_count; i++) {
        const struct path *other = &peer->paths[i];
        if (other == path || other->answered <= path->asked)
            continue;
        error_set(
            &fabric->failure, WEFT_ERROR_NETWORK,
            "%s: interface %s of rank %u has not reached rank %u (its %s) for %.1f s while interface %s has; look "
            "at its cable and switch, or leave it out (WEFT_INTERFACE=%s)",
            fabric->name, fabric->rails[path->rail].interface, fabric->rank, (uint32_t)(peer - fabric->peers),
            path->peer_interface, (double)(now - path->asked) * 1e-9, fabric->rails[other->rail].interface,
            fabric->rails[other->rail].interface);
        return;
    }
}

void paths_watch(struct fabric *fabric)
{
    uint64_t now = fabric->rail_count > 1 ? clock_now() : 0;
    if (fabric->rail_count == 1 || now - fabric->watched < WATCH_INTERVAL)
        return;
    fabric->watched = now;
    for (struct peer *peer = fabric->peers; peer < fabric->peers + fabric->ranks; peer++) {
        if (!peer->active || peer->path_count < 2 || peer->events != peer->events_seen) {
            peer->events_seen = peer->events;
            peer->moved = now;
            continue;
        }
        for (uint8_t i = 0; i < peer->path_count && now - peer->moved > SILENCE_ASKED; i++) {
            struct path *path = &peer->paths[i];
            if (path->state != PATH_VERIFIED)
                continue;
            if (!path->asked)
                probe(fabric, peer, path);
            else if (now - path->asked > SILENCE_DEAD)
                judge(fabric, peer, path, now);
        }
    }
}

bool fabric_is_asked(const struct fabric *fabric)
{
    return fabric && fabric->rail_count > 1;
}
