/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/internal/room.h"

#include "platform/scheduler/internal/priority.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES 8 /* runs of one host that are tried in all combinations */

/* Hosts where a run may move to, counted by free slots. */
struct holes {
    uint32_t with_free[POOL_SLOTS_MOST + 1];
};

struct room_search {
    struct scheduler *scheduler;
    struct room_plan best, trial;
    struct holes holes;          /* of the whole pool, but for the hosts being emptied */
    bool *chosen;                /* hosts of the plan whose moves are being settled */
    struct scheduler_key *costs; /* of a Pod's hosts */
};

/* What is asked of a search. */
struct room_question {
    const struct scheduled_run *run;
    uint32_t name;
    enum room_means means;
    double now;
};

struct room_search *room_search_new(struct scheduler *scheduler, struct error *error)
{
    struct room_search *search = calloc(1, sizeof *search);
    uint32_t hosts = scheduler->pool.host_count;
    if (search) {
        search->scheduler = scheduler;
        search->chosen = calloc(hosts, sizeof *search->chosen);
        search->costs = malloc(hosts * sizeof *search->costs);
        struct room_plan *plans[] = {&search->best, &search->trial};
        bool whole = search->chosen && search->costs;
        for (int i = 0; i < 2; i++) {
            plans[i]->hosts = malloc(hosts * sizeof *plans[i]->hosts);
            plans[i]->departures = malloc(hosts * CANDIDATES * sizeof *plans[i]->departures);
            whole = whole && plans[i]->hosts && plans[i]->departures;
        }
        if (whole)
            return search;
        room_search_free(search);
    }
    error_memory(error, hosts * (CANDIDATES * sizeof(struct departure) + 32), "the search for room");
    return NULL;
}

void room_search_free(struct room_search *search)
{
    if (!search)
        return;
    free(search->chosen);
    free(search->costs);
    free(search->best.hosts);
    free(search->best.departures);
    free(search->trial.hosts);
    free(search->trial.departures);
    free(search);
}

/* ---- who may leave, and where to ---- */

static bool may_move(const struct room_search *search, const struct room_question *question,
                     const struct scheduled_run *run)
{
    return run->request.gang.nodes == 1 && run_may_move(search->scheduler, run, question->now);
}

static bool may_be_preempted(const struct room_search *search, const struct room_question *question,
                             const struct scheduled_run *run)
{
    if (question->means == ROOM_MOVES)
        return false;
    if (question->means == ROOM_KEPT_AT_ONCE)
        return run->place == RUN_RUNNING && !run->request.fixed && !run->request.personal && !run->leaving;
    if (question->name == search->scheduler->exclusive_run)
        return run_may_move(search->scheduler, run, question->now) && run_gives_way(run, question->run);
    return run_may_be_preempted(search->scheduler, run, question->now) &&
           (question->means == ROOM_KEPT ||
            run->priority >= question->run->priority * search->scheduler->policy.preempt_ratio);
}

/* Reserved hosts are not holes, whichever run they are reserved for. */
static bool is_hole(const struct pool_host *host)
{
    return host->open && host->free && host->reserved_for == POOL_NOBODY;
}

/* Holes of the pool, those of hosts being emptied left out. */
static void count_holes(struct room_search *search)
{
    const struct pool *pool = &search->scheduler->pool;
    memset(&search->holes, 0, sizeof search->holes);
    for (uint32_t p = 0; p < pool->pod_count; p++)
        for (unsigned free = 1; free <= POOL_SLOTS_MOST; free++)
            search->holes.with_free[free] += pool->pods[p].with_free[free];
}

static void leave_out(struct room_search *search, uint32_t host)
{
    const struct pool_host *that = &search->scheduler->pool.hosts[host];
    if (is_hole(that))
        search->holes.with_free[that->free]--;
}

/* Fill the tightest hole of at least `slots`; false if there is none. */
static bool fill_hole(struct holes *holes, uint16_t slots)
{
    for (unsigned free = slots; free <= POOL_SLOTS_MOST; free++) {
        if (holes->with_free[free]) {
            holes->with_free[free]--;
            holes->with_free[free - slots]++;
            return true;
        }
    }
    return false;
}

/* ---- one host ---- */

/* The runs of a host that may leave it for this question. */
static unsigned leavers(const struct room_search *search, const struct room_question *question,
                        const struct pool_host *host, uint32_t *runs, uint16_t *slots)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < host->occupants && count < CANDIDATES; i++) {
        const struct scheduled_run *run = &search->scheduler->runs[host->occupant[i]];
        if (!may_move(search, question, run) && !may_be_preempted(search, question, run))
            continue;
        runs[count] = host->occupant[i];
        slots[count++] = host->occupant_slots[i];
    }
    return count;
}

/*
 * Free `needed` slots of a host in the cheapest way that costs less than `limit`: departures are appended to the trial,
 * holes filled. False if there is none.
 */
static bool empty_host(struct room_search *search, const struct room_question *question, uint32_t host, uint16_t needed,
                       double limit)
{
    const struct scheduler *scheduler = search->scheduler;
    const struct pool_host *that = &scheduler->pool.hosts[host];
    uint32_t runs[CANDIDATES];
    uint16_t slots[CANDIDATES];
    /* A gang may sit on several of the hosts being emptied: what has left already is free here. */
    uint16_t free = that->free;
    for (uint32_t i = 0; i < that->occupants; i++)
        if (scheduler->runs[that->occupant[i]].leaving)
            free = (uint16_t)(free + that->occupant_slots[i]);
    if (free >= needed)
        return true;
    uint16_t lacking = (uint16_t)(needed - free);
    if (lacking * scheduler->policy.restart_cost >= limit)
        return false;
    unsigned count = leavers(search, question, that, runs, slots), best_set = 0, best_moves = 0;
    double best_cost = limit;
    struct holes best_holes = search->holes;
    for (unsigned set = 1; set < 1u << count; set++) {
        unsigned freed = 0, least = POOL_SLOTS_MOST;
        for (unsigned i = 0; i < count; i++) {
            if (set >> i & 1) {
                freed += slots[i];
                least = slots[i] < least ? slots[i] : least;
            }
        }
        if (freed < lacking || freed - least >= lacking) /* too few, or one too many */
            continue;
        struct holes holes = search->holes;
        unsigned moves = 0;
        double cost = 0;
        for (unsigned i = 0; i < count && cost < best_cost; i++) {
            if (!(set >> i & 1))
                continue;
            const struct scheduled_run *run = &scheduler->runs[runs[i]];
            if (may_move(search, question, run) && fill_hole(&holes, slots[i])) {
                moves |= 1u << i;
                cost += run->request.slots * scheduler->policy.restart_cost;
            } else if (may_be_preempted(search, question, run)) {
                cost += run->request.slots * scheduler->policy.preempt_price;
            } else {
                cost = limit;
            }
        }
        if (cost < best_cost) {
            best_cost = cost;
            best_set = set;
            best_moves = moves;
            best_holes = holes;
        }
    }
    if (!best_set)
        return false;
    struct room_plan *trial = &search->trial;
    for (unsigned i = 0; i < count; i++) {
        if (!(best_set >> i & 1))
            continue;
        /* Where to is settled for the plan that is taken; 0 stands for "somewhere". */
        trial->departures[trial->departure_count++] =
            (struct departure){runs[i], best_moves >> i & 1 ? 0 : POOL_NOBODY};
        scheduler->runs[runs[i]].leaving = true;
    }
    search->holes = best_holes;
    trial->cost += best_cost;
    return true;
}

static void begin_trial(struct room_search *search)
{
    search->trial.cost = 0;
    search->trial.departure_count = 0;
}

static void end_trial(struct room_search *search)
{
    for (uint32_t i = 0; i < search->trial.departure_count; i++)
        search->scheduler->runs[search->trial.departures[i].run].leaving = false;
}

static void keep_trial(struct room_search *search)
{
    struct room_plan kept = search->trial;
    search->trial = search->best;
    search->best = kept;
}

/* ---- one host for one node, several for several ---- */

static bool reserved_for_another(const struct pool_host *host, const struct room_question *question)
{
    return host->reserved_for != POOL_NOBODY && host->reserved_for != question->name &&
           question->means != ROOM_KEPT_AT_ONCE;
}

static bool find_one(struct room_search *search, const struct room_question *question, double limit)
{
    const struct scheduler *scheduler = search->scheduler;
    uint16_t needed = question->run->request.gang.slots;
    bool found = false;
    double cheapest = scheduler->policy.restart_cost;
    struct holes holes = search->holes;
    for (uint32_t h = 0; h < scheduler->pool.host_count && limit > cheapest; h++) {
        const struct pool_host *host = &scheduler->pool.hosts[h];
        if (!host->open || host->slots < needed || reserved_for_another(host, question))
            continue;
        if ((needed - host->free) * cheapest >= limit)
            continue;
        begin_trial(search);
        leave_out(search, h);
        search->trial.hosts[0] = h;
        bool empty = empty_host(search, question, h, needed, limit);
        end_trial(search);
        search->holes = holes;
        if (empty) {
            limit = search->trial.cost;
            found = true;
            keep_trial(search);
        }
    }
    return found;
}

/* Hosts of a Pod that might be emptied for a node, with what that costs at least; how many. */
static uint32_t price_hosts(struct room_search *search, const struct room_question *question,
                            const struct pool_pod *pod)
{
    const struct scheduler *scheduler = search->scheduler;
    uint16_t needed = question->run->request.gang.slots;
    uint32_t count = 0;
    for (uint32_t h = pod->first; h < pod->first + pod->count; h++) {
        const struct pool_host *host = &scheduler->pool.hosts[h];
        if (!host->open || host->slots < needed || reserved_for_another(host, question))
            continue;
        double cost = 0;
        uint32_t free = host->free;
        for (uint32_t i = 0; i < host->occupants; i++) {
            const struct scheduled_run *run = &scheduler->runs[host->occupant[i]];
            bool moves = may_move(search, question, run);
            if (!moves && !may_be_preempted(search, question, run))
                continue;
            free += host->occupant_slots[i];
            cost +=
                host->occupant_slots[i] * (moves ? scheduler->policy.restart_cost : scheduler->policy.preempt_price);
        }
        if (free >= needed)
            search->costs[count++] = (struct scheduler_key){host->free >= needed ? 0 : cost, h};
    }
    qsort(search->costs, count, sizeof *search->costs, priority_compare_keys);
    return count;
}

static bool find_several(struct room_search *search, const struct room_question *question, double limit)
{
    const struct pool *pool = &search->scheduler->pool;
    uint32_t nodes = question->run->request.gang.nodes;
    bool found = false;
    for (uint32_t p = 0; p < pool_places(pool, question->run->request.gang); p++) {
        struct pool_pod all;
        const struct pool_pod *pod = pool_place_of(pool, p, &all);
        if (price_hosts(search, question, pod) < nodes)
            continue;
        begin_trial(search);
        count_holes(search);
        for (uint32_t i = 0; i < nodes; i++)
            leave_out(search, search->costs[i].number);
        bool empty = true;
        for (uint32_t i = 0; i < nodes && empty; i++) {
            search->trial.hosts[i] = search->costs[i].number;
            empty = empty_host(search, question, search->costs[i].number, question->run->request.gang.slots,
                               limit - search->trial.cost);
        }
        end_trial(search);
        if (empty && search->trial.cost < limit) {
            limit = search->trial.cost;
            found = true;
            keep_trial(search);
        }
    }
    return found;
}

/* ---- where to ---- */

/* Settle where each run of the plan moves to: the same tightest holes that were counted. */
static void room_settle(struct room_search *search)
{
    const struct scheduler *scheduler = search->scheduler;
    const struct pool *pool = &scheduler->pool;
    struct room_plan *plan = &search->best;
    for (uint32_t i = 0; i < plan->departure_count; i++) {
        struct departure *departure = &plan->departures[i];
        if (departure->to == POOL_NOBODY)
            continue;
        uint16_t slots = scheduler->runs[departure->run].request.gang.slots;
        uint32_t to = POOL_NOBODY;
        unsigned tightest = POOL_SLOTS_MOST + 1;
        for (uint32_t h = 0; h < pool->host_count; h++) {
            const struct pool_host *host = &pool->hosts[h];
            if (search->chosen[h] || !is_hole(host))
                continue;
            unsigned free = host->free;
            for (uint32_t k = 0; k < i && free; k++) /* those before have gone there already */
                if (plan->departures[k].to == h)
                    free -= scheduler->runs[plan->departures[k].run].request.gang.slots;
            if (free >= slots && free < tightest) {
                tightest = free;
                to = h;
            }
        }
        assert(to != POOL_NOBODY);
        departure->to = to;
    }
}

bool room_find(struct room_search *search, uint32_t run, enum room_means means, double limit, double now,
               struct room_plan *plan)
{
    const struct scheduled_run *that = &search->scheduler->runs[run];
    struct room_question question = {.run = that, .name = run, .means = means, .now = now};
    count_holes(search);
    bool found =
        that->request.gang.nodes == 1 ? find_one(search, &question, limit) : find_several(search, &question, limit);
    if (!found)
        return false;
    for (uint32_t i = 0; i < that->request.gang.nodes; i++)
        search->chosen[search->best.hosts[i]] = true;
    room_settle(search);
    for (uint32_t i = 0; i < that->request.gang.nodes; i++)
        search->chosen[search->best.hosts[i]] = false;
    *plan = search->best;
    return true;
}
