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
struct keyed {
    double key;
    uint32_t run;
};

static int priority_by_key(const void *a, const void *b)
{
    const struct keyed *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->run < right->run ? -1 : left->run > right->run;
}

/* Those wide runs that have waited longest, as far as the share goes, are served by that. */
static weft_status serve_waiting(struct scheduler *scheduler, double now, struct error *error)
{
    const struct scheduler_policy *policy = &scheduler->policy;
    double served = 0, share = policy->wide_share * (double)scheduler->pool.slots;
    size_t bytes = (scheduler->queued + 1) * sizeof(struct keyed);
    struct keyed *wide = malloc(bytes);
    if (!wide)
        return error_memory(error, bytes, "the queue of wide runs");
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
            wide[count++] = (struct keyed){-run_waited(run, now), i};
        } else if (run->served_by_wait) {
            served += run->request.gang.nodes * run->request.gang.slots;
        }
    }
    qsort(wide, count, sizeof *wide, priority_by_key);
    bool within = true;
    for (size_t i = 0; i < count; i++) {
        struct scheduled_run *run = &scheduler->runs[wide[i].run];
        double waited = -wide[i].key, slots = run->request.gang.nodes * run->request.gang.slots;
        within = within && served + slots <= share && waited >= policy->wide_patience;
        if (!within && waited < policy->longest_wide_wait)
            break;
        run->served_by_wait = true;
        served += slots;
    }
    free(wide);
    return WEFT_OK;
}

/* Those personal runs that have waited longest, as far as what is kept for them goes, are served by that. */
static weft_status serve_personal(struct scheduler *scheduler, double now, struct error *error)
{
    if (!kept_of(scheduler, scheduler->pool.slots))
        return WEFT_OK;
    size_t bytes = (scheduler->queued + 1) * sizeof(struct keyed), count = 0;
    struct keyed *personal = malloc(bytes);
    if (!personal)
        return error_memory(error, bytes, "the queue of personal runs");
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place == RUN_QUEUED && scheduler->runs[i].request.personal)
            personal[count++] = (struct keyed){-run_waited(&scheduler->runs[i], now), i};
    qsort(personal, count, sizeof *personal, priority_by_key);
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        struct scheduled_run *run = &scheduler->runs[personal[i].run];
        if (!run_is_within_share(scheduler, run, before))
            continue;
        run->served_by_wait = true;
        before += run_slots(run);
    }
    free(personal);
    return WEFT_OK;
}

static void scheduler_priority_sort(struct scheduler *scheduler, struct keyed *keys)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place == RUN_QUEUED)
            keys[count++] = (struct keyed){scheduler->runs[i].priority, i};
    qsort(keys, count, sizeof *keys, priority_by_key);
    for (uint32_t i = 0; i < count; i++)
        scheduler->order[i] = keys[i].run;
}

weft_status priority_sort(struct scheduler *scheduler, struct error *error)
{
    size_t bytes = (scheduler->queued + 1) * sizeof(struct keyed);
    struct keyed *keys = malloc(bytes);
    if (!keys)
        return error_memory(error, bytes, "the queue's order");
    scheduler_priority_sort(scheduler, keys);
    free(keys);
    return WEFT_OK;
}

weft_status priority_update_all(struct scheduler *scheduler, double now, struct error *error)
{
    weft_status status = priority_learn(scheduler, now, error);
    if (status == WEFT_OK)
        status = weigh_projects(scheduler, error);
    if (status == WEFT_OK)
        status = serve_waiting(scheduler, now, error);
    if (status == WEFT_OK)
        status = serve_personal(scheduler, now, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < scheduler->run_count; i++)
        if (scheduler->runs[i].place != RUN_NONE)
            priority_update(scheduler, &scheduler->runs[i], now);
    return priority_sort(scheduler, error);
}
