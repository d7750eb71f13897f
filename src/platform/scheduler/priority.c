/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/priority.h"

#include <math.h>
#include <stdlib.h>

#define LEAST_SHARE 0.25 /* of a share: those who have less stand alike */

static weft_status priority_learn(struct scheduler *scheduler, double now, struct error *error)
{
    const double since = now - scheduler->learned_at;
    if (since >= 0 && since < scheduler->policy.learning_period)
        return WEFT_OK;
    scheduler->learned_at = now;
    history_renew_begin(scheduler->history);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < scheduler->run_count && status == WEFT_OK; i++) {
        const struct scheduled_run *run = &scheduler->runs[i];
        double attained = run->place == RUN_NONE ? 0 : run_attained(run, now);
        if (attained > 0)
            status = history_renew_running(scheduler->history, run_kind(run), attained, error);
    }
    history_renew_end(scheduler->history);
    return status;
}

/* What each project has, and how its runs stand to one another. */
static weft_status weigh_projects(struct scheduler *scheduler, struct error *error)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place != RUN_NONE && scheduler->runs[i].request.project >= count)
            count = scheduler->runs[i].request.project + 1;
    if (ARRAY_RESERVE(scheduler->standings, scheduler->standing_room, count, "the standings of projects", error) !=
        WEFT_OK)
        return WEFT_ERROR_MEMORY;
    if (count > scheduler->standing_count)
        scheduler->standing_count = count;
    for (uint32_t i = 0; i < scheduler->standing_count; i++)
        scheduler->standings[i] = (struct standing){0};
    for (uint32_t i = 0; i < scheduler->run_count; i++) {
        const struct scheduled_run *run = &scheduler->runs[i];
        struct standing *standing = &scheduler->standings[run->place != RUN_NONE ? run->request.project : 0];
        if (run->place == RUN_RUNNING)
            standing->taken += run_slots(run);
        else if (run->place == RUN_QUEUED)
            standing->heaviest = fmax(standing->heaviest, run->request.weight);
    }
    scheduler->rivals = 0;
    for (uint32_t i = 0; i < scheduler->standing_count; i++)
        scheduler->rivals += scheduler->standings[i].taken || scheduler->standings[i].heaviest > 0;
    return WEFT_OK;
}

/*
 * By how much a queued run's priority is worse for what its project has already: 1 where that is its equal share of all
 * slots, below where it has less. And by how much for what others of its project are to go before it: who gives their
 * run a weight puts it before others of the project, not before those of anybody else.
 */
static double standing_of(const struct scheduler *scheduler, const struct scheduled_run *run)
{
    if (run->request.project >= scheduler->standing_count)
        return 1;
    const struct standing *standing = &scheduler->standings[run->request.project];
    const double share = (double)(scheduler->pool.slots + 1) / fmax(scheduler->rivals, 1);
    const double has = (double)standing->taken / share;
    const double behind = fmax(standing->heaviest / run->request.weight, 1);
    return pow((LEAST_SHARE + has) / (LEAST_SHARE + 1), scheduler->policy.fairness) * behind;
}

void priority_update(const struct scheduler *scheduler, struct scheduled_run *run, double now)
{
    const struct scheduler_policy *policy = &scheduler->policy;
    const struct scheduler_request *request = &run->request;
    double waited = run_waited(run, now);
    if (run->place == RUN_QUEUED && run->served_by_wait) {
        run->priority = 1e-3 / (1 + waited); /* before all others, longest first */
        return;
    }
    double priority = history_cost(scheduler->history, run_kind(run), run_attained(run, now));
    priority = fmax(priority, policy->least_priority) * request->slots;
    if (run->place == RUN_QUEUED)
        priority *= standing_of(scheduler, run) / (1 + run_age(run, now) / policy->waiting_scale);
    run->priority = priority;
}

/* qsort() takes no context: keys are sorted with their runs. */
int priority_compare_keys(const void *a, const void *b)
{
    const struct scheduler_key *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

static void sort_keys(struct scheduler_key *keys, size_t count)
{
    if (count > 1)
        qsort(keys, count, sizeof *keys, priority_compare_keys);
}

/* Those wide runs that have waited longest, as far as the share goes, are served by that. */
static void serve_waiting(struct scheduler *scheduler, double now)
{
    const struct scheduler_policy *policy = &scheduler->policy;
    double served = 0, share = policy->wide_share * (double)scheduler->pool.slots;
    struct scheduler_key *wide = scheduler->keys;
    size_t count = 0;
    for (uint32_t i = 0; i < scheduler->run_count; i++) {
        struct scheduled_run *run = &scheduler->runs[i];
        if (run->place == RUN_NONE)
            continue;
        if (!run_is_wide(run)) {
            if (run->place == RUN_QUEUED)
                run->served_by_wait = run_waited(run, now) >= policy->longest_wait;
        } else if (run->place == RUN_QUEUED) {
            run->served_by_wait = false;
            wide[count++] = (struct scheduler_key){-run_waited(run, now), i};
        } else if (run->served_by_wait) {
            served += run->request.gang.nodes * run->request.gang.slots;
        }
    }
    sort_keys(wide, count);
    bool within = true;
    for (size_t i = 0; i < count; i++) {
        struct scheduled_run *run = &scheduler->runs[wide[i].number];
        double waited = -wide[i].key, slots = run->request.gang.nodes * run->request.gang.slots;
        within = within && served + slots <= share && waited >= policy->wide_patience;
        if (!within && waited < policy->longest_wide_wait)
            break;
        run->served_by_wait = true;
        served += slots;
    }
}

/* Those personal runs that have waited longest, as far as what is kept for them goes, are served by that. */
static void serve_personal(struct scheduler *scheduler, double now)
{
    struct scheduler_key *personal = scheduler->keys;
    size_t count = 0;
    uint64_t before = 0;
    if (!kept_of(scheduler, scheduler->pool.slots))
        return;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place == RUN_QUEUED && scheduler->runs[i].request.personal)
            personal[count++] = (struct scheduler_key){-run_waited(&scheduler->runs[i], now), i};
    sort_keys(personal, count);
    for (size_t i = 0; i < count; i++) {
        struct scheduled_run *run = &scheduler->runs[personal[i].number];
        if (!run_is_within_share(scheduler, run, before))
            continue;
        run->served_by_wait = true;
        before += run_slots(run);
    }
}

void priority_sort(struct scheduler *scheduler)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place == RUN_QUEUED)
            scheduler->keys[count++] = (struct scheduler_key){scheduler->runs[i].priority, i};
    sort_keys(scheduler->keys, count);
    for (uint32_t i = 0; i < count; i++)
        scheduler->order[i] = scheduler->keys[i].number;
}

weft_status priority_update_all(struct scheduler *scheduler, double now, struct error *error)
{
    weft_status status = priority_learn(scheduler, now, error);
    if (status == WEFT_OK)
        status = weigh_projects(scheduler, error);
    if (status != WEFT_OK)
        return status;
    serve_waiting(scheduler, now);
    serve_personal(scheduler, now);
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place != RUN_NONE)
            priority_update(scheduler, &scheduler->runs[i], now);
    priority_sort(scheduler);
    return WEFT_OK;
}
