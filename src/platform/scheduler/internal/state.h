/* SPDX-License-Identifier: Apache-2.0 */
/** What the scheduler's parts share: the runs, in the queue or running. */
#ifndef WEFT_PLATFORM_SCHEDULER_INTERNAL_STATE_H
#define WEFT_PLATFORM_SCHEDULER_INTERNAL_STATE_H

#include "platform/scheduler/internal/history.h"
#include "platform/scheduler/scheduler.h"

#include <math.h>

enum run_place { RUN_NONE, RUN_QUEUED, RUN_PARKED, RUN_RUNNING };

struct scheduled_run {
    struct scheduler_request request;
    enum run_place place;
    uint32_t nodes_lost; /**< of its gang, since its present start: it has so many fewer hosts */
    double attained;     /**< seconds of useful running in the attempts before this one */
    double lost;         /**< seconds at the begin of this attempt that compute nothing */
    double since;        /**< of this attempt, or of this wait */
    double ends;         /**< this attempt, at the latest; INFINITY: nobody has said so */
    double reported_end; /**< when this attempt ends, as its program reports; past: it does not. For outlooks */
    double waited;       /**< seconds in the queue before this wait */
    double parked;       /**< since when, if it is parked */
    unsigned preempted;  /**< how often it was, so far */
    bool served_by_wait; /**< started, or to be started, for having waited: preempted for nobody */
    double
        exclusive_share; /**< it has got its hosts by reserving them exclusively: the share that such runs have; or 0 */
    bool leaving;        /**< a plan under way takes it from where it is */
    double priority;     /**< as of this pass; less is better */
    uint32_t *hosts;     /**< of its gang */
    uint32_t avoided[SCHEDULER_AVOIDED], avoided_count; /**< hosts that failed it, the last ones; how many there were */
};

/** A run or a host, with the number that it is sorted by. */
struct scheduler_key {
    double key;
    uint32_t number; /**< whose it is; the lower one goes first among equals */
};

/** A host that may be reserved. */
struct reservation_candidate {
    double ready; /**< when it may be empty */
    uint32_t free, host;
};

/** A project among others, as of this pass. */
struct standing {
    uint64_t taken;  /**< slots */
    double heaviest; /**< the largest weight of its queued runs; 0: none is queued */
};

struct scheduler {
    struct scheduler_policy policy;
    struct pool pool;
    uint64_t fixed_taken,
        personal_taken; /**< slots of runs without checkpoints that are not personal; of personal ones */
    struct history *history;
    double learned_at;

    struct standing *standings; /**< by project */
    uint32_t standing_count;
    size_t standing_room;
    uint32_t rivals; /**< projects that have runs */

    struct scheduled_run *runs;
    uint32_t run_count;
    size_t run_room, unused_room, order_room, reserved_room;
    uint32_t *unused; /**< names of runs that have ended */
    uint32_t unused_count;

    uint32_t *order; /**< the queue in the order of priorities, as of this pass */
    uint32_t queued;
    struct scheduler_key *keys; /**< to sort runs by; room for all of them */
    size_t key_room;
    uint32_t *reserved; /**< hosts that are reserved */
    uint32_t reserved_count;
    struct reservation_candidate *candidates; /**< room for two for each host */
    size_t candidate_room;
    uint32_t exclusive_run; /**< the queued run whose reserved hosts are exclusive, or POOL_NOBODY */
    double exclusive_ready; /**< when they can be empty at the latest */
    double exclusive_share; /**< what such runs have at most of all slots' time (policy.h) */
    double exclusive_next;  /**< there is no other exclusive_run before; INFINITY: not while the last one runs */

    struct scheduler_decision *decisions;
    size_t decision_count, decision_room;
};

/** Seconds since a run's present start, or of its present wait; none where the clock has been set back beyond that. */
static inline double run_age(const struct scheduled_run *run, double now)
{
    return fmax(0, now - run->since);
}

/** Seconds that a run has computed. */
static inline double run_attained(const struct scheduled_run *run, double now)
{
    if (run->place != RUN_RUNNING)
        return run->attained;
    double here = now - run->since - run->lost;
    return run->attained + (here > 0 ? here : 0);
}

/** Seconds that a queued run has waited, in all. */
static inline double run_waited(const struct scheduled_run *run, double now)
{
    return run->waited + (run->place == RUN_QUEUED ? run_age(run, now) : 0);
}

/** Whether a run takes several hosts: what the queue serves by waiting too, as few Pods ever have so many free. */
static inline bool run_is_wide(const struct scheduled_run *run)
{
    return run->request.gang.nodes > 1;
}

/** Whether a running run may be moved by now. */
static inline bool run_may_move(const struct scheduler *scheduler, const struct scheduled_run *run, double now)
{
    return run->place == RUN_RUNNING && !run->request.fixed && !run->leaving &&
           run_age(run, now) >= scheduler->policy.least_age;
}

/** The runs that are taken to be like it. */
static inline struct history_kind run_kind(const struct scheduled_run *run)
{
    return (struct history_kind){run->request.project, run->request.member, run->request.slots};
}

/** Nodes that a run has, or is to have: so many are in `hosts`. */
static inline uint32_t run_nodes(const struct scheduled_run *run)
{
    return run->request.gang.nodes - run->nodes_lost;
}

/** Slots of all nodes of a run. */
static inline uint64_t run_slots(const struct scheduled_run *run)
{
    return (uint64_t)run_nodes(run) * run->request.gang.slots;
}

/** Slots of `slots` that are kept for personal runs. */
static inline uint64_t kept_of(const struct scheduler *scheduler, uint64_t slots)
{
    return (uint64_t)llround(scheduler->policy.kept_share * (double)slots);
}

/** Whether a run can never give way: such runs may not have what is kept for personal ones. */
static inline bool run_stays(const struct scheduled_run *run)
{
    return run->request.fixed && !run->request.personal;
}

/** Whether a run, and `before` slots of others like it, would take what is kept for personal runs. */
static inline bool run_is_beyond_share(const struct scheduler *scheduler, const struct scheduled_run *run,
                                       uint64_t before)
{
    uint64_t kept = kept_of(scheduler, scheduler->pool.slots);
    return kept && run_stays(run) && scheduler->fixed_taken + before + run_slots(run) + kept > scheduler->pool.slots;
}

/** Whether a run may have of what is kept for personal runs, with `before` slots of others. */
static inline bool run_is_within_share(const struct scheduler *scheduler, const struct scheduled_run *run,
                                       uint64_t before)
{
    return run->request.personal &&
           scheduler->personal_taken + before + run_slots(run) <= kept_of(scheduler, scheduler->pool.slots);
}

/**
 * Whether a running run may be preempted by now. After `preempt_often` times each further time makes it
 * safe for twice as long: two runs that each find the other worse off do not take turns for ever.
 */
static inline bool run_may_be_preempted(const struct scheduler *scheduler, const struct scheduled_run *run, double now)
{
    const struct scheduler_policy *policy = &scheduler->policy;
    double safe = policy->least_age * exp2(fmax(0, (double)run->preempted - policy->preempt_often));
    return run_may_move(scheduler, run, now) && !run->served_by_wait && !run->request.personal &&
           run_age(run, now) >= safe;
}

/** Whether a run makes room for the run with the exclusive reservation of its host, once it is `least_age` old: only smaller ones do, so
 * that this has an end. */
static inline bool run_gives_way(const struct scheduled_run *run, const struct scheduled_run *exclusive_run)
{
    return !run->request.fixed && !run->request.personal && run->request.slots < exclusive_run->request.slots;
}

#endif
