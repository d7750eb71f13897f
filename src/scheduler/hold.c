/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/hold.h"

#include <math.h>
#include <stdlib.h>

#define NEVER 1e18

struct candidate {
    double ready; /* when it may be empty */
    uint32_t free, host;
};

static int by_readiness(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->ready != right->ready)
        return left->ready < right->ready ? -1 : 1;
    if (left->free != right->free)
        return left->free > right->free ? -1 : 1;
    return left->host < right->host ? -1 : left->host > right->host;
}

/* When `host` may be empty for `run`: when all on it may be moved, or displaced if they are as large. */
static double ready_at(const struct scheduler *scheduler, const struct pool_host *host, const struct scheduled_run *run,
                       double now)
{
    double ready = now;
    for (uint32_t i = 0; i < host->occupants; i++) {
        const struct scheduled_run *there = &scheduler->runs[host->occupant[i]];
        bool stays = there->request.fixed ||
                     (there->request.slots >= run->request.slots &&
                      (there->served_by_wait || there->rank < run->rank * scheduler->policy.displace_ratio));
        if (stays)
            return NEVER;
        ready = fmax(ready, there->since + scheduler->policy.least_age);
    }
    return ready;
}

/* Hold the hosts of the Pod that is ready soonest, if one ever is. */
static void hold_for(struct scheduler *scheduler, uint32_t name, double now, struct candidate *candidates,
                     struct candidate *best)
{
    const struct scheduled_run *run = &scheduler->runs[name];
    uint32_t nodes = run->request.gang.nodes;
    double soonest = NEVER;
    for (uint32_t p = 0; p < pool_places(&scheduler->pool, run->request.gang); p++) {
        struct pool_pod all;
        const struct pool_pod *pod = pool_place_of(&scheduler->pool, p, &all);
        uint32_t count = 0;
        for (uint32_t i = 0; i < pod->count; i++) {
            const struct pool_host *host = &scheduler->pool.hosts[pod->first + i];
            if (!host->open || host->held_for != POOL_NOBODY || host->slots < run->request.gang.slots)
                continue;
            double ready = ready_at(scheduler, host, run, now);
            if (ready < NEVER)
                candidates[count++] = (struct candidate){ready, host->free, pod->first + i};
        }
        if (count < nodes)
            continue;
        qsort(candidates, count, sizeof *candidates, by_readiness);
        if (candidates[nodes - 1].ready < soonest) {
            soonest = candidates[nodes - 1].ready;
            for (uint32_t i = 0; i < nodes; i++)
                best[i] = candidates[i];
        }
    }
    for (uint32_t i = 0; i < nodes && soonest < NEVER; i++) {
        pool_hold(&scheduler->pool, best[i].host, name);
        scheduler->held[scheduler->held_count++] = best[i].host;
    }
}

weft_status hold_hosts(struct scheduler *scheduler, double now, struct error *error)
{
    for (uint32_t i = 0; i < scheduler->held_count; i++)
        pool_hold(&scheduler->pool, scheduler->held[i], POOL_NOBODY);
    scheduler->held_count = 0;
    size_t bytes = scheduler->pool.host_count * sizeof(struct candidate);
    struct candidate *candidates = malloc(2 * bytes);
    if (!candidates)
        return error_memory(error, 2 * bytes, "hosts to hold");
    double left = (double)scheduler->pool.free;
    bool first = true;
    for (uint32_t i = 0; i < scheduler->queued; i++) {
        const struct scheduled_run *run = &scheduler->runs[scheduler->order[i]];
        if (run->place != RUN_QUEUED || run_is_beyond_share(scheduler, run, 0))
            continue;
        if (!run_is_wide(run) && run->request.gang.slots < scheduler->pool.largest)
            continue;
        if (left < run->request.slots && !first)
            break;
        first = false;
        left -= run->request.slots;
        hold_for(scheduler, scheduler->order[i], now, candidates, candidates + scheduler->pool.host_count);
    }
    free(candidates);
    return WEFT_OK;
}
