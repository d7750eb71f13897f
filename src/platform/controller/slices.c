/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose time slice is over, and who gives way because of it.
 *
 * After a pass, in the order of the queue: for each run that still waits, as few as will do of those whose slice is
 * over leave their slots, if it then fits; another pass, at once, gives it the slots before anybody else can have them.
 * Nobody is stopped for a run that would not fit all the same, or that fits as soon as those have left who are leaving.
 *
 * A run that gave way has had its turn: for its sake another run's slice counts from that time. So runs that began
 * together do not all leave one after another because one of them had to.
 */
#include "platform/controller/internal/state.h"

#include "platform/scheduler/outlook.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPES 64 /* of gangs that were found to fit nowhere */

/* The pool as it would be; `fixed` slots of it are of runs that never give way. */
struct supposed {
    struct pool pool;
    uint64_t fixed;
};

struct slices {
    struct controller *controller;
    int64_t now;
    struct supposed here, soon;   /* as it is; without those who are leaving */
    struct controlled_run **over; /* whose slice is over, the smallest first */
    bool *gives;                  /* which of them give way to the run that is looked at */
    uint32_t over_count;
    uint32_t *hosts; /* of a gang, as many as there are */
    struct gang shapes[SHAPES];
    uint32_t shape_count;
};

static bool is_fixed(const struct controlled_run *run)
{
    return !run->preemptible && !run->personal;
}

/* Its slots come free soon, without anybody's doing. */
static bool is_leaving(const struct controlled_run *run)
{
    bool leaving = run->leaving;
    for (uint32_t i = 0; i < run->nodes && !leaving; i++)
        leaving = run->node[i].ended && !run->node[i].dropped;
    return leaving;
}

/* It could give way now: it has its hosts by the scheduler's book and by its own. */
static bool slices_is_over(const struct controlled_run *run, int64_t now)
{
    return run->node && run->slice_end <= now && run->place == CONTROLLED_ON_HOSTS && !run->promised &&
           !is_leaving(run);
}

static int smallest_first(const void *a, const void *b)
{
    const struct controlled_run *left = *(struct controlled_run *const *)a;
    const struct controlled_run *right = *(struct controlled_run *const *)b;
    const int64_t sizes = controlled_size(left) - controlled_size(right);
    if (sizes)
        return sizes < 0 ? -1 : 1;
    return left->slice_end < right->slice_end ? -1 : left->slice_end > right->slice_end;
}

bool slices_due(const struct controller *controller, int64_t now)
{
    for (uint32_t i = 0; i < controller->run_count; i++)
        if (controller->runs[i]->slice_end > controller->passed_at && slices_is_over(controller->runs[i], now))
            return true;
    return false;
}

/* ---- what would be ---- */

static void supposed_free(struct supposed *supposed)
{
    free(supposed->pool.hosts);
    free(supposed->pool.pods);
}

static bool suppose(const struct pool *pool, struct supposed *supposed)
{
    const size_t hosts = pool->host_count * sizeof *pool->hosts, pods = pool->pod_count * sizeof *pool->pods;
    supposed->pool = *pool;
    supposed->pool.hosts = malloc(hosts + 1);
    supposed->pool.pods = malloc(pods + 1);
    if (!supposed->pool.hosts || !supposed->pool.pods)
        return false;
    memcpy(supposed->pool.hosts, pool->hosts, hosts);
    memcpy(supposed->pool.pods, pool->pods, pods);
    return true;
}

static void suppose_left(struct supposed *supposed, const struct controlled_run *run)
{
    for (uint32_t i = 0; i < run->nodes; i++)
        if (!run->node[i].dropped)
            pool_give_back(&supposed->pool, run->node[i].host, run->name);
    supposed->fixed -= is_fixed(run) ? (uint64_t)controlled_held(run) : 0;
}

static void suppose_back(struct supposed *supposed, const struct controlled_run *run)
{
    for (uint32_t i = 0; i < run->nodes; i++)
        if (!run->node[i].dropped)
            pool_take(&supposed->pool, run->node[i].host, run->name, (uint16_t)run->slots);
    supposed->fixed += is_fixed(run) ? (uint64_t)controlled_held(run) : 0;
}

static bool slices_fits(struct slices *slices, const struct supposed *supposed, const struct outlook *waits)
{
    const struct controlled_run *run = slices->controller->by_name[waits->run];
    if (is_fixed(run) && waits->kept &&
        supposed->fixed + (uint64_t)controlled_size(run) + waits->kept > supposed->pool.slots)
        return false;
    return pool_place(&supposed->pool, waits->gang, waits->run, slices->hosts);
}

/* The run takes the hosts that slices_fits() has found, as far as they are free in the one or the other. */
static void suppose_started(struct slices *slices, struct supposed *supposed, const struct outlook *waits)
{
    const struct controlled_run *run = slices->controller->by_name[waits->run];
    for (uint32_t i = 0; i < waits->gang.nodes; i++)
        if (supposed->pool.hosts[slices->hosts[i]].free >= waits->gang.slots)
            pool_take(&supposed->pool, slices->hosts[i], waits->run, waits->gang.slots);
    supposed->fixed += is_fixed(run) ? (uint64_t)controlled_size(run) : 0;
}

/* ---- who gives way ---- */

static bool failed_before(const struct slices *slices, struct gang gang)
{
    for (uint32_t i = 0; i < slices->shape_count; i++)
        if (gang_equal(slices->shapes[i], gang))
            return true;
    return false;
}

/* It is stopped, and its slots are the scheduler's again; it stays out of the pass that gives them away. */
static weft_status give_way(struct slices *slices, struct controlled_run *run, const struct controlled_run *waits,
                            struct error *error)
{
    const double now = controlled_seconds(slices->now);
    char detail[96];
    snprintf(detail, sizeof detail, "has used up its time slice; run %" PRId64 " has its turn", waits->run);
    weft_status status = attempt_ask(slices->controller, run, RUN_CAUSE_SLICE_END, "", detail, slices->now, error);
    if (status != WEFT_OK || !run->leaving)
        return status;
    run->slice_end = INT64_MAX;
    run->had_turn = slices->now;
    scheduler_requeue(slices->controller->scheduler, run->name, now);
    scheduler_park(slices->controller->scheduler, run->name, now);
    run->place = CONTROLLED_IN_QUEUE;
    slices->controller->parked++; /* until the next pass */
    return WEFT_OK;
}

/* Choose the runs that give way to a run, into slices->gives: add runs until it fits, then drop those that are not
 * needed. False if it would not fit even if all of them left. */
static bool slices_choose(struct slices *slices, const struct outlook *waits)
{
    const struct controlled_run *run = slices->controller->by_name[waits->run];
    bool fit = false;
    uint32_t end = 0;
    memset(slices->gives, 0, slices->over_count * sizeof *slices->gives);
    for (; end < slices->over_count && !fit; end++) {
        const struct controlled_run *over = slices->over[end];
        if (!slices_is_over(over, slices->now) || (run->had_turn && run->had_turn + over->time_slice > slices->now))
            continue;
        suppose_left(&slices->here, over);
        slices->gives[end] = true;
        fit = slices_fits(slices, &slices->here, waits);
    }
    while (end-- > 0) {
        if (!slices->gives[end])
            continue;
        suppose_back(&slices->here, slices->over[end]);
        slices->gives[end] = fit && !slices_fits(slices, &slices->here, waits);
        if (slices->gives[end])
            suppose_left(&slices->here, slices->over[end]);
    }
    return fit && slices_fits(slices, &slices->here, waits);
}

static weft_status make_way(struct slices *slices, const struct outlook *waits, bool *made, struct error *error)
{
    const struct controlled_run *run = slices->controller->by_name[waits->run];
    weft_status status = WEFT_OK;
    if (slices_fits(slices, &slices->soon, waits)) { /* by itself */
        suppose_started(slices, &slices->soon, waits);
        return WEFT_OK;
    }
    if (failed_before(slices, waits->gang))
        return WEFT_OK;
    if (!slices_choose(slices, waits)) {
        if (!run->had_turn && slices->shape_count < SHAPES)
            slices->shapes[slices->shape_count++] = waits->gang;
        return WEFT_OK;
    }
    suppose_started(slices, &slices->here, waits);
    for (uint32_t i = 0; i < slices->over_count && status == WEFT_OK; i++)
        if (slices->gives[i]) {
            suppose_left(&slices->soon, slices->over[i]);
            status = give_way(slices, slices->over[i], run, error);
            *made = true;
        }
    suppose_started(slices, &slices->soon, waits);
    return status;
}

/* What is, and who could leave. */
static bool slices_look(struct slices *slices)
{
    const struct controller *controller = slices->controller;
    const struct pool *pool = scheduler_pool(controller->scheduler);
    slices->over = malloc((controller->run_count + 1) * sizeof(struct controlled_run *));
    slices->gives = malloc(controller->run_count + 1);
    slices->hosts = malloc((pool->host_count + 1) * sizeof *slices->hosts);
    if (!slices->over || !slices->gives || !slices->hosts || !suppose(pool, &slices->here) ||
        !suppose(pool, &slices->soon))
        return false;
    for (uint32_t i = 0; i < controller->run_count; i++) {
        struct controlled_run *run = controller->runs[i];
        if (run->place != CONTROLLED_ON_HOSTS)
            continue;
        slices->here.fixed += is_fixed(run) ? (uint64_t)controlled_size(run) : 0;
        if (slices_is_over(run, slices->now))
            slices->over[slices->over_count++] = run;
    }
    slices->soon.fixed = slices->here.fixed;
    for (uint32_t i = 0; i < controller->run_count; i++) {
        const struct controlled_run *run = controller->runs[i];
        if (run->place == CONTROLLED_ON_HOSTS && run->node && !run->promised && is_leaving(run))
            suppose_left(&slices->soon, run);
    }
    qsort(slices->over, slices->over_count, sizeof(struct controlled_run *), smallest_first);
    return true;
}

weft_status slices_end(struct controller *controller, int64_t now, bool *made, struct error *error)
{
    const uint32_t queued = scheduler_queued(controller->scheduler);
    bool any = false;
    *made = false;
    for (uint32_t i = 0; i < controller->run_count && !any; i++)
        any = slices_is_over(controller->runs[i], now);
    if (!any || !queued)
        return WEFT_OK;
    struct slices slices = {.controller = controller, .now = now};
    struct outlook *outlooks = malloc(queued * sizeof *outlooks);
    weft_status status = WEFT_OK;
    if (!outlooks || !slices_look(&slices))
        status = error_memory(error, queued * sizeof *outlooks, "time slices");
    if (status == WEFT_OK)
        status = outlook_all(controller->scheduler, controlled_seconds(now), outlooks, error);
    for (uint32_t i = 0; i < queued && status == WEFT_OK; i++)
        status = make_way(&slices, &outlooks[i], made, error);
    free(outlooks);
    supposed_free(&slices.here);
    supposed_free(&slices.soon);
    free(slices.over);
    free(slices.gives);
    free(slices.hosts);
    return status;
}
