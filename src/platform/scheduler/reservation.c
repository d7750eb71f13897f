/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/reservation.h"

#include <math.h>
#include <stdlib.h>

#define NEVER   1e18
#define UNKNOWN 1e9 /* seconds that a run without a limit may go on */

/* The hosts that a run is to have. */
struct reservation_choice {
    struct reservation_candidate *all;  /* of a Pod */
    struct reservation_candidate *best; /* as many as it has nodes */
    double ready;                       /* when the last of them may be empty; NEVER: there are none */
};

static int by_readiness(const void *a, const void *b)
{
    const struct reservation_candidate *left = a, *right = b;
    if (left->ready != right->ready)
        return left->ready < right->ready ? -1 : 1;
    if (left->free != right->free)
        return left->free > right->free ? -1 : 1;
    return left->host < right->host ? -1 : left->host > right->host;
}

/* When a run may leave a host for another that reserves it exclusively: as soon as it may be preempted, or when it
 * must have ended. */
static double leaves_exclusive_at(const struct scheduler *scheduler, const struct scheduled_run *there,
                                  const struct scheduled_run *run)
{
    double limit = there->request.limit > 0 ? there->request.limit : UNKNOWN;
    return there->since + (run_gives_way(there, run) ? fmin(limit, scheduler->policy.least_age) : limit);
}

/* When it may leave for one that does not: when it may be moved, or preempted if it is as large. */
static double leaves_at(const struct scheduler *scheduler, const struct scheduled_run *there,
                        const struct scheduled_run *run)
{
    bool stays = there->request.fixed ||
                 (there->request.slots >= run->request.slots &&
                  (there->served_by_wait || there->priority < run->priority * scheduler->policy.preempt_ratio));
    return stays ? NEVER : there->since + scheduler->policy.least_age;
}

/* When `host` may be empty for `run`. */
static double host_ready_at(const struct scheduler *scheduler, const struct pool_host *host,
                            const struct scheduled_run *run, bool exclusive, double now)
{
    double ready = now;
    for (uint32_t i = 0; i < host->occupants && ready < NEVER; i++) {
        const struct scheduled_run *there = &scheduler->runs[host->occupant[i]];
        ready = fmax(ready, exclusive ? leaves_exclusive_at(scheduler, there, run) : leaves_at(scheduler, there, run));
    }
    return ready;
}

/* The hosts of the Pod that is ready soonest, if one ever is. */
static void reservation_choose_hosts(const struct scheduler *scheduler, uint32_t name, bool exclusive, double now,
                                     struct reservation_choice *choice)
{
    const struct scheduled_run *run = &scheduler->runs[name];
    uint32_t nodes = run->request.gang.nodes;
    choice->ready = NEVER;
    for (uint32_t p = 0; p < pool_places(&scheduler->pool, run->request.gang); p++) {
        struct pool_pod all;
        const struct pool_pod *pod = pool_place_of(&scheduler->pool, p, &all);
        uint32_t count = 0;
        for (uint32_t i = 0; i < pod->count; i++) {
            const struct pool_host *host = &scheduler->pool.hosts[pod->first + i];
            if (!host->open || (host->reserved_for != POOL_NOBODY && !exclusive) ||
                host->slots < run->request.gang.slots)
                continue;
            double ready = host_ready_at(scheduler, host, run, exclusive, now);
            if (ready < NEVER)
                choice->all[count++] = (struct reservation_candidate){ready, host->free, pod->first + i};
        }
        if (count < nodes)
            continue;
        qsort(choice->all, count, sizeof *choice->all, by_readiness);
        if (choice->all[nodes - 1].ready < choice->ready) {
            choice->ready = choice->all[nodes - 1].ready;
            for (uint32_t i = 0; i < nodes; i++)
                choice->best[i] = choice->all[i];
        }
    }
}

static void reservation_record(struct scheduler *scheduler, uint32_t name, const struct reservation_choice *choice)
{
    for (uint32_t i = 0; i < scheduler->runs[name].request.gang.nodes && choice->ready < NEVER; i++) {
        const uint32_t host = choice->best[i].host;
        if (scheduler->pool.hosts[host].reserved_for == POOL_NOBODY)
            scheduler->reserved[scheduler->reserved_count++] = host;
        pool_reserve(&scheduler->pool, host, name);
        if (name == scheduler->exclusive_run)
            pool_set_exclusive(&scheduler->pool, host, true);
    }
    if (name == scheduler->exclusive_run)
        scheduler->exclusive_ready = choice->ready;
}

/* Let go of the hosts that are exclusive, or of those that are not. */
static void reservation_drop(struct scheduler *scheduler, bool exclusive)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scheduler->reserved_count; i++) {
        const struct pool_host *host = &scheduler->pool.hosts[scheduler->reserved[i]];
        if (host->exclusive == exclusive)
            pool_reserve(&scheduler->pool, scheduler->reserved[i], POOL_NOBODY);
        if (host->reserved_for != POOL_NOBODY)
            scheduler->reserved[kept++] = scheduler->reserved[i];
    }
    scheduler->reserved_count = kept;
}

/* Whether one of these hosts has a run that can only be waited for. */
static bool must_drain(const struct scheduler *scheduler, uint32_t name, const struct reservation_choice *choice)
{
    for (uint32_t i = 0; i < scheduler->runs[name].request.gang.nodes; i++) {
        const struct pool_host *host = &scheduler->pool.hosts[choice->best[i].host];
        for (uint32_t k = 0; k < host->occupants; k++)
            if (scheduler->runs[host->occupant[k]].request.fixed)
                return true;
    }
    return false;
}

/* Whether a run may reserve hosts exclusively, and choose them. It keeps the right until it has started. */
static bool reservation_try_exclusive(struct scheduler *scheduler, uint32_t name, double now,
                                      struct reservation_choice *choice)
{
    const struct scheduler_policy *policy = &scheduler->policy;
    const struct scheduled_run *run = &scheduler->runs[name];
    const double waited = run_waited(run, now);
    if (now < scheduler->exclusive_next || waited < fmin(policy->patience, policy->exclusive_wait))
        return false;
    reservation_choose_hosts(scheduler, name, true, now, choice);
    if (choice->ready == NEVER)
        return false;
    const bool drains = must_drain(scheduler, name, choice);
    if (!drains && (!run->served_by_wait || waited < policy->exclusive_wait))
        return false;
    scheduler->exclusive_run = name;
    scheduler->exclusive_share = drains ? policy->drain_share : policy->exclusive_share;
    return true;
}

static struct reservation_choice choice_open(const struct scheduler *scheduler)
{
    return (struct reservation_choice){.all = scheduler->candidates,
                                       .best = scheduler->candidates + scheduler->pool.host_count};
}

void reservation_renew_exclusive(struct scheduler *scheduler, double now)
{
    struct reservation_choice choice = choice_open(scheduler);
    const uint32_t exclusive_run = scheduler->exclusive_run;
    reservation_drop(scheduler, true);
    if (exclusive_run == POOL_NOBODY)
        return;
    if (!run_is_beyond_share(scheduler, &scheduler->runs[exclusive_run], 0)) {
        reservation_choose_hosts(scheduler, exclusive_run, true, now, &choice);
        if (choice.ready < NEVER) {
            reservation_record(scheduler, exclusive_run, &choice);
            return;
        }
    }
    /* It may not run now, or hosts that it needs are out of use: others may reserve what there is. */
    scheduler->exclusive_run = POOL_NOBODY;
}

void reservation_renew(struct scheduler *scheduler, double now)
{
    struct reservation_choice choice = choice_open(scheduler);
    reservation_drop(scheduler, false);
    double left = (double)scheduler->pool.free;
    bool first = scheduler->exclusive_run == POOL_NOBODY;
    if (!first)
        left -= scheduler->runs[scheduler->exclusive_run].request.slots;
    for (uint32_t i = 0; i < scheduler->queued; i++) {
        const uint32_t name = scheduler->order[i];
        const struct scheduled_run *run = &scheduler->runs[name];
        if (run->place != RUN_QUEUED || name == scheduler->exclusive_run || run_is_beyond_share(scheduler, run, 0))
            continue;
        if (!run_is_wide(run) && run->request.gang.slots < scheduler->pool.largest)
            continue;
        if (left < run->request.slots && !first)
            break;
        if (!first || !reservation_try_exclusive(scheduler, name, now, &choice))
            reservation_choose_hosts(scheduler, name, false, now, &choice);
        reservation_record(scheduler, name, &choice);
        first = false;
        left -= run->request.slots;
    }
}
