/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The scheduler: told what there is, what is asked for and what time it is, it decides what starts where, what gives
 * way and what moves.
 *
 * A run asks for a gang: all of its nodes start together, in one Pod, or none does. A pass goes through the queue in
 * the order of priorities (internal/priority.h) and, for each run:
 *
 *  1. starts it where it fits tightest (pool.h);
 *  2. else moves runs that have checkpoints out of its way, where slots enough are free but scattered (room.h);
 *  3. else preempts runs that are worse off to wait by far (room.h);
 *  4. else lets it wait. For the first of those that need whole hosts, hosts are reserved and emptied, and in the end kept
 *     from all others (internal/reservation.h).
 *
 * Backfilling: a run later in the queue may start first if that takes nothing from those before it.
 *
 * A share of the slots (`kept_share` of the policy) is kept for personal runs: runs without checkpoints never have more
 * than the rest, so that what is kept is free, or can be made free at once by preempting runs that have checkpoints,
 * however young and well off. Personal runs go first as long as they have less than that share, and are preempted for
 * nobody.
 *
 * What a pass decides holds at once as far as the scheduler is concerned. A caller that needs time to stop a run starts
 * its successors when the slots are really free.
 *
 * Pure: no clock, no file, no thread, the same decisions for the same calls. Not thread-safe.
 */
#ifndef WEFT_PLATFORM_SCHEDULER_SCHEDULER_H
#define WEFT_PLATFORM_SCHEDULER_SCHEDULER_H

#include "platform/scheduler/internal/pool.h"
#include "platform/scheduler/policy.h"

struct scheduler;

/** What a run asks for. */
struct scheduler_request {
    uint32_t project; /**< a small number: estimates go by it */
    uint32_t member;  /**< and by whose it is there (history.h); 0: not told */
    struct gang gang; /**< nodes x slots per node */
    uint32_t slots;   /**< slots that it uses: nodes x slots, or less where whole hosts are taken for it */
    double weight;    /**< among the queued runs of its project: twice as much halves its priority; above 0 */
    double limit;     /**< seconds that a start of it may last, 0: any; only what is expected of the queue goes by it */
    bool fixed;       /**< has no checkpoints: is neither preempted nor moved */
    bool personal;    /**< one of those that a share is kept for */
};

enum scheduler_decision_kind {
    SCHEDULER_START,
    SCHEDULER_DISPLACE, /**< stop it at a checkpoint; it waits in the queue from now on */
    SCHEDULER_MOVE,     /**< stop it at a checkpoint and start it on other hosts */
};

struct scheduler_decision {
    enum scheduler_decision_kind kind;
    uint32_t run;
    uint32_t for_run;      /**< whom it is preempted or moved for; `run` itself at a start */
    const uint32_t *hosts; /**< of its gang from now on, until it ends or is preempted; NULL when preempted */
};

struct scheduler *scheduler_new(const struct scheduler_policy *policy, struct error *error);
void scheduler_free(struct scheduler *scheduler);

/** The Pods and hosts, to be added before the first run and looked at by anybody; host i has `slots[i]` slots. */
weft_status scheduler_add_pod(struct scheduler *scheduler, uint32_t hosts, uint32_t slots, struct error *error);
weft_status scheduler_add_mixed_pod(struct scheduler *scheduler, uint32_t hosts, const uint32_t *slots,
                                    struct error *error);
const struct pool *scheduler_pool(const struct scheduler *scheduler);

/** Give no new runs to a host, or give it some again. */
void scheduler_drain_host(struct scheduler *scheduler, uint32_t host, bool drain);

/**
 * Queue a run at time `now` (seconds of any clock that does not go back); `*run` names it until it has ended.
 * Errors: ARGUMENT if no Pod could ever hold it; MEMORY.
 */
weft_status scheduler_submit(struct scheduler *scheduler, const struct scheduler_request *request, double now,
                             uint32_t *run, struct error *error);

/** Whether a run could ever be placed where all hosts are open and empty. Errors: ARGUMENT, and why not. */
weft_status scheduler_check(const struct scheduler *scheduler, const struct scheduler_request *request,
                            struct error *error);

/** What became of a run before this scheduler knew it: after a restart. */
struct scheduler_past {
    double attained;       /**< seconds that its attempts before the present one have computed */
    double waited;         /**< seconds in the queue before the present wait */
    double since;          /**< of the present wait, or of the present start */
    const uint32_t *hosts; /**< of its gang, that it has and that must be free for it; NULL: it waits */
    uint32_t lost;         /**< nodes of its gang that it has lost: `hosts` has so many fewer (scheduler_lose()) */
};

/** scheduler_submit() of a run with a past. Errors: STATE besides, if its hosts lack the slots or one is named twice. */
weft_status scheduler_take_up(struct scheduler *scheduler, const struct scheduler_request *request,
                              const struct scheduler_past *past, uint32_t *run, struct error *error);

/** A run came to its end by itself: what it took is learned from. Its name is free for another. */
weft_status scheduler_finish(struct scheduler *scheduler, uint32_t run, double now, struct error *error);

/** A run like `request` took so many seconds, before this scheduler knew of it: that is learned from too. */
weft_status scheduler_learn(struct scheduler *scheduler, const struct scheduler_request *request, double seconds,
                            struct error *error);

/** A run is withdrawn, queued or running: nothing is learned. */
void scheduler_withdraw(struct scheduler *scheduler, uint32_t run);

/** A running run was asked to end, and is expected to have ended by `moment`. */
void scheduler_expect_end(struct scheduler *scheduler, uint32_t run, double moment);

/** A running run's program reports that it will have ended by itself by then; a time in the past: no report. The
 * outlook relies on that until then, but no decision does: a program's report gets it no slots. */
void scheduler_report_end(struct scheduler *scheduler, uint32_t run, double moment);

/** A running run was stopped by something else (a host failed, say) and waits again. */
void scheduler_requeue(struct scheduler *scheduler, uint32_t run, double now);

/** A running run goes on without its node on a host of its: the slots there are free. Its next start is whole again. */
void scheduler_lose(struct scheduler *scheduler, uint32_t run, uint32_t host);

/** A run has failed on a host by no fault of its own: its next starts are elsewhere where there is room. The last
 * SCHEDULER_AVOIDED hosts are remembered. */
#define SCHEDULER_AVOIDED 4
void scheduler_avoid(struct scheduler *scheduler, uint32_t run, uint32_t host);

/**
 * A queued run waits for something else than slots from now on: passes leave it out, and the time does not count as
 * waiting; it is in the queue again, as it was, with the second. Nothing happens if it is so already.
 */
void scheduler_park(struct scheduler *scheduler, uint32_t run, double now);
void scheduler_unpark(struct scheduler *scheduler, uint32_t run, double now);

/** The clock that times are measured by was set, by so many seconds. Waiting and running times are unchanged.
 */
void scheduler_set_clock(struct scheduler *scheduler, double by);

/** Decide. The decisions are valid until the next call, in an order in which no slot is ever taken twice. */
weft_status scheduler_pass(struct scheduler *scheduler, double now, const struct scheduler_decision **decisions,
                           size_t *count, struct error *error);

/** How many runs wait in the queue. */
uint32_t scheduler_queued(const struct scheduler *scheduler);

#endif
