/* SPDX-License-Identifier: Apache-2.0 */
/** What the controller's parts share: the runs that have not ended, who has which slots, and what of the budgets is
 * promised to whom. For controller*.c alone. */
#ifndef WEFT_PLATFORM_CONTROLLER_INTERNAL_STATE_H
#define WEFT_PLATFORM_CONTROLLER_INTERNAL_STATE_H

#include "platform/controller/controller.h"
#include "platform/controller/internal/plan.h"
#include "platform/registry/hosts.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/projects.h"
#include "platform/registry/run/runs.h"
#include "platform/registry/slot_set.h"
#include "platform/runs/directory.h"
#include "platform/scheduler/scheduler.h"

#define CONTROLLED_NONE UINT32_MAX /**< no class */
#define BUDGET_PERIOD   60000      /**< milliseconds between two postings of what accrues */

/** A host, by the scheduler's number of it. */
struct controlled_host {
    char name[PLATFORM_NAME_BYTES], pod[PLATFORM_NAME_BYTES];
    uint32_t slots;
    int64_t processors, memory; /**< memory in bytes; 0: not known */
    uint64_t used;              /**< a set (slot_set.h): those that an attempt has */
    enum registry_host_state state;
    bool known; /**< the engine has it, whether or not it can start something now */
};

/** One node of the present attempt. */
struct controlled_node {
    uint32_t host;
    uint64_t slots; /**< a set */
    bool ended;
    bool dropped;     /**< before its attempt, which went on without it */
    uint64_t dealt;   /**< the last record of its journal that was dealt with */
    uint64_t noted;   /**< the same, by the registry, */
    int64_t noted_at; /**< since when */
    int64_t missed;   /**< since when nothing can be heard of it; 0: it can */
    int64_t heard_at; /**< when something was heard of it last; 0: not by this controller */
};

/** Where the scheduler has a run. Nowhere: it does not have it, because the run cannot be placed on these hosts, or
 * holds slots that no longer exist. */
enum controlled_place { CONTROLLED_NOWHERE, CONTROLLED_IN_QUEUE, CONTROLLED_ON_HOSTS };

struct controlled_run {
    int64_t run, epoch;
    uint32_t nodes, slots;          /**< that it asks for: slots of each node */
    uint32_t project, owner, funds; /**< numbers, as below */
    uint32_t limits;                /**< its class among those of the configuration, or CONTROLLED_NONE */
    int64_t priority;
    bool personal, preemptible, spans; /**< spans: may be in several Pods */
    int64_t time_limit, time_slice;    /**< milliseconds, as its class allows; slice 0: no slices */

    uint32_t name; /**< the scheduler's */
    enum controlled_place place;
    enum controller_wait waits;   /**< while it is in the queue: for what */
    char *refusal;                /**< why it cannot be placed as the server was started; NULL: it can */
    char *failure;                /**< why it pauses, the end of a message; NULL: it does not */
    int64_t pause, pause_end;     /**< how long it waits because it failed, and until when; 0: it does not */
    int64_t since;                /**< in the queue; of its attempt: running, or placed before that */
    uint32_t *promised;           /**< hosts that the scheduler gives it once they are free; NULL: none */
    int64_t member_due, pool_due; /**< what is set aside for it to begin with, of its owner's account or the pool */

    struct controlled_node *node;    /**< of its attempt under way; NULL: there is none */
    bool to_start, started;          /**< the engine must start it; has started it */
    int64_t start_due, start_failed; /**< where the machine could not start it: not before that, since then; else 0 */
    char *blamed;                    /**< which rank the attempt failed by, as its launcher told; NULL: it did not */
    bool first_leads;                /**< the nodes after the first one only wait, until that has ended */
    uint32_t min_nodes;              /**< so many nodes suffice for it to go on; 0: it needs all */
    bool heard;                      /**< the engine has new records of it */
    bool to_stop;                    /**< the engine must end it, in this way: */
    enum engine_end how;
    int64_t stop_due;   /**< if the request failed: not again before that; else 0 */
    int64_t stop_told;  /**< when the engine was first asked to; 0: not by this controller */
    int64_t troubled;   /**< the attempt that has a remark because its node could not be reached; 0: none */
    bool leaving;       /**< its attempt was asked to end */
    int64_t slice_end;  /**< when its time slice is over; INT64_MAX: never */
    int64_t had_turn;   /**< when it gave way because of that, before its present attempt; 0: it did not */
    bool short_hold;    /**< what it holds of its budget does not last for its time limit */
    int64_t held;       /**< slot-milliseconds */
    int64_t idle_epoch; /**< the attempt that was reported as idle; 0: none */
    uint64_t planned;   /**< the number of the last plan that it waits in */
    struct run_progress_watch progress; /**< of its attempt under way */
    bool progress_unkept;               /**< the registry has not the last of it, */
    int64_t progress_kept_at;           /**< but what there was then */
};

/** The project of some runs, by the scheduler's number of it. */
struct controlled_project {
    char name[PLATFORM_NAME_BYTES];
    bool personal;
    int64_t pool_due; /**< of its pool: set aside for runs that may begin */
    int64_t accrued;  /**< when what accrues was posted because of a run */
    int64_t waiting;  /**< runs that wait for budget */
};

/** The owner of some runs, and what they have at once. */
struct controlled_owner {
    char name[PLATFORM_NAME_BYTES];
    uint32_t personal_runs;
    uint32_t *class_runs; /**< by class */
};

/** What an owner's runs in a project can be paid from, as of the last look. */
struct controlled_funds {
    uint32_t project, owner;
    bool fresh;
    struct ledger_funds ledger;
    int64_t member_due; /**< of the owner's account: set aside */
};

struct controller {
    struct controller_config config;
    struct scheduler *scheduler;
    struct run_directories *directories;
    struct controlled_host *hosts;
    uint32_t host_count;
    size_t host_room;
    uint32_t open_in_pod[SLOT_SET_MOST + 1]; /**< hosts with so many slots that take runs: most in one Pod, */
    uint32_t open_in_all[SLOT_SET_MOST + 1]; /**< and all */
    struct controlled_project *projects;
    uint32_t project_count;
    size_t project_room;
    struct controlled_owner *owners;
    uint32_t owner_count;
    size_t owner_room;
    struct controlled_funds *funds;
    uint32_t funds_count;
    size_t funds_room;
    struct controlled_run **runs; /**< by number */
    uint32_t run_count;
    size_t run_room;
    struct controlled_run **by_name; /**< by the scheduler's name */
    size_t name_room;
    bool changed;             /**< something has happened that a pass should look at */
    int64_t hosts_at;         /**< when hosts are looked at again; 0: now */
    int64_t stepped_at;       /**< the time of the last step */
    int64_t clock_step;       /**< milliseconds by which the clock was set last; 0: never */
    int64_t clock_stepped_at; /**< when that was noticed, by the clock as it is since then */
    int64_t passed_at;        /**< of the last pass */
    bool round;               /**< the engine is being asked about all of them, some in each step: */
    int64_t round_at;         /**< since when, or when that was so last */
    int64_t next_turn;        /**< the run that comes next, by number, */
    int64_t next_act;         /**< and the one whose attempt is started or ended first */
    uint32_t parked;          /**< runs that wait for something else than slots */
    int64_t pause_ends;       /**< when the first one may be tried again that pauses; 0: none does */
    int64_t accrued_at;       /**< when budgets that runs wait for were posted last */
    int64_t accrued_all_at;   /**< and all others */
    int64_t accrues_at;       /**< when the first one who waits for budget has it; INT64_MAX: nobody can say */
    int64_t exhausts_at;      /**< when to look for holds that are used up */
    char disk_trouble[CONTROLLER_DISK_BYTES]; /**< why nothing may be started; "": the disk has room */
    bool plan_stale;
    uint64_t plan_number;
    struct controller_plan plan;
    int64_t planned_at, plan_until; /**< when it was made; when an end passes that it expects by a report */
    bool progress_heard;            /**< since then */
    struct metric_line progress_line;
};

/** Something has happened that a pass should look at. */
static inline void controlled_change(struct controller *controller)
{
    controller->changed = controller->plan_stale = true;
}

/** The scheduler counts seconds. */
static inline double controlled_seconds(int64_t milliseconds)
{
    return (double)milliseconds / 1000;
}

/** Slots of all nodes. */
static inline int64_t controlled_size(const struct controlled_run *run)
{
    return (int64_t)run->nodes * run->slots;
}

/** Those that its attempt has. */
static inline int64_t controlled_held(const struct controlled_run *run)
{
    int64_t nodes = run->nodes;
    for (uint32_t i = 0; run->node && i < run->nodes; i++)
        nodes -= run->node[i].dropped;
    return nodes * run->slots;
}

/** It waits to be placed; its last attempt may be about to end. */
static inline bool controlled_waits(const struct controlled_run *run)
{
    return run->place == CONTROLLED_IN_QUEUE;
}

/** It is `now`: if the clock was set back, nothing is to come later for it. (platform/controller/clock.c) */
void controlled_clock(struct controller *controller, int64_t now);

/** A time that a node has written down, by the clock as it is now: shifted if it is from before the clock was last set
 * forward. (platform/controller/clock.c) */
int64_t controlled_told(const struct controller *controller, int64_t told);

/** The attempt of a run that is under way, as engines know it. */
struct attempt controlled_attempt(const struct controlled_run *run);

/* ---- platform/controller/hosts.c: what there is ---- */

/** Take the engine's hosts into the registry and the scheduler, and those that the registry knows besides: something
 * may run there, and nothing more is started. */
weft_status hosts_open(struct controller *controller, int64_t now, struct error *error);

/** Hosts that can start nothing now are lost, until they can again; looks now and then. In a transaction. */
weft_status hosts_look(struct controller *controller, int64_t now, struct error *error);

/** The number of the host with that name. False: there is none. */
bool hosts_find(const struct controller *controller, const char *name, uint32_t *host);

/** Whether enough hosts take runs for this one to be placed at all, and that as a message if not. */
bool hosts_suffice(const struct controller *controller, const struct controlled_run *run);
char *hosts_say(const struct controller *controller, const struct controlled_run *run, char *text, size_t size);

/**
 * Whether every host where it may be placed comes with the processors and the memory that it asks for: those of a host
 * go with its slots, in proportion. Errors: ARGUMENT, and how many slots to ask for instead.
 */
weft_status hosts_check_share(const struct controller *controller, const struct run_specification *asked,
                              struct error *error);

/** Whether there are such hosts besides those that are lost. Errors: ARGUMENT, and why not. */
weft_status hosts_check(const struct controller *controller, uint32_t nodes, uint32_t slots, bool spans,
                        struct error *error);

/* ---- platform/controller/runs.c: the runs that have not ended ---- */

/** Where the run of that number is among all of them, or would be. */
uint32_t runs_place(const struct controller *controller, int64_t number);

/** The run of that number, or NULL. */
struct controlled_run *runs_find(const struct controller *controller, int64_t number);

/** How long the runs took that ended before this controller was there: the scheduler's estimates are made of it. */
weft_status runs_learn(struct controller *controller, struct error *error);

/** A run that has not ended becomes one of the controller's. One that cannot be placed waits, and says why, if it was
 * `acknowledged` by an earlier one; otherwise it is cancelled by that message. */
weft_status runs_take_up(struct controller *controller, const struct registry_run *found, bool acknowledged,
                         int64_t now, struct error *error);

/** The scheduler hears of a run again that waits, and that it did not know: what it had is not in its book. */
weft_status runs_enter_again(struct controller *controller, struct controlled_run *run, struct error *error);

/** It has ended: the controller knows it no more. */
void runs_remove(struct controller *controller, struct controlled_run *run);
void runs_free(struct controller *controller);

/** Hosts that were promised are no longer available: the run is parked, and waits for something else. The next pass
 * decides again. */
void runs_break_promise(struct controller *controller, struct controlled_run *run, enum controller_wait waits,
                        int64_t now);

/* ---- platform/controller/attempt.c: attempts begin and end ---- */

/** If the hosts that a run was promised are free, and its budget allows it: take them, begin an attempt in the
 * registry. In a transaction. */
weft_status attempt_place(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** Have the engine start a placed attempt, and tell the registry; not yet while the run's directories are being made. No
 * transaction may be open. */
weft_status attempt_start(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** attempt_ask() by the server itself, in a durable transaction of its own. */
weft_status attempt_ask_durably(struct controller *controller, struct controlled_run *run, enum run_cause cause,
                                const char *detail, int64_t now, struct error *error);

/** Ask a run's attempt to end, for `cause`. In a transaction; the engine hears of it by attempt_stop(). */
weft_status attempt_ask(struct controller *controller, struct controlled_run *run, enum run_cause cause,
                        const char *actor, const char *detail, int64_t now, struct error *error);
weft_status attempt_stop(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** Process the engine's records of an attempt. Records that cannot be read affect this run alone. In a transaction. */
weft_status attempt_hear(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** A node of an attempt has ended so, at `moment`; `blames_host`: if it is lost, its host has failed. In a transaction. */
weft_status attempt_end_node(struct controller *controller, struct controlled_run *run,
                             const struct registry_node *ended, bool blames_host, int64_t moment, int64_t now,
                             struct error *error);

/** Take up the attempt of a run that was under way before: `to_start` unless something of it was heard. */
weft_status attempt_take_up(struct controller *controller, struct controlled_run *run, struct error *error);

/** Its slots are free again. */
void attempt_forget(struct controller *controller, struct controlled_run *run);

/* ---- platform/controller/loss.c: nodes that an attempt can do without ---- */

/** A node of a running attempt has ended so, at `moment`: `*dropped` if enough others are left for the attempt to go on.
 * Its slots are free then. In a transaction. */
weft_status loss_drop(struct controller *controller, struct controlled_run *run, const struct registry_node *ended,
                      int64_t moment, bool *dropped, struct error *error);

/* ---- platform/controller/silence.c: nodes of which nothing is heard ---- */

/** Record the reason for which an attempt cannot be reached among the run's events, once, because other runs may wait
 * for its end. */
weft_status silence_note(struct controller *controller, struct controlled_run *run, const char *what, const char *why,
                         int64_t now, struct error *error);

/** Its journal was read: whether the node should have told something long ago, or have ended. Both in a transaction. */
weft_status silence_heed(struct controller *controller, struct controlled_run *run, uint32_t node, int64_t now,
                         struct error *error);

/** Its journal cannot be read, for the reason that `refusal` has. */
weft_status silence_miss(struct controller *controller, struct controlled_run *run, uint32_t node,
                         const struct error *refusal, int64_t now, struct error *error);

/* ---- platform/controller/unfit.c: GPUs that are ill ---- */

/** A node's agent has found a GPU of it ill: cordon its host, and say so among the run's events. What runs there goes on.
 * In a transaction. */
weft_status unfit_hear(struct controller *controller, const struct controlled_run *run, uint32_t node,
                       const struct journal_record *record, int64_t now, struct error *error);

/* ---- platform/controller/blame.c: by which rank an attempt failed ---- */

/** Listen to what a node prints: its launcher may tell. */
void blame_hear(struct controlled_run *run, uint32_t node, const struct journal_record *record);

/** What a program has done that failed by itself, into the detail of `ended`: "rank 3 on host b ended with exit code
 * 9", "its program on node-1 ended with exit code 3". */
void blame_say(const struct controlled_run *run, uint32_t node, struct registry_node *ended);

/* ---- platform/controller/progress.c: how far programs say that they are ---- */

/** Take a node's report of progress from a record. */
void progress_hear(struct controller *controller, struct controlled_run *run, uint32_t node,
                   const struct journal_record *record, int64_t now);

/** Store it in the registry, at most twice a second or `at_once`. In a transaction. */
weft_status progress_keep(struct controller *controller, struct controlled_run *run, bool at_once, int64_t now,
                          struct error *error);

/** Continue from the last report of an attempt that was under way before, once the scheduler knows the run; forget it.
 */
void progress_take_up(struct controller *controller, struct controlled_run *run, const struct run_progress *kept,
                      int64_t now);
void progress_forget(struct controlled_run *run);

/** Whether the plan should be made again because of reports; note that it was made. */
bool progress_makes_plan_old(const struct controller *controller, int64_t now);
void progress_planned(struct controller *controller, int64_t now);

/** Append to an expected start what the run that it depends on reports. */
void progress_say_awaited(const struct controller *controller, const struct controller_plan_run *waits, int64_t now,
                          char *text, size_t size);

/* ---- platform/controller/gate.c: who may be placed at all ---- */

/** Before a pass: let those runs into the scheduler's queue that limits and budgets allow to begin; park the others. */
weft_status gate_all(struct controller *controller, int64_t now, struct error *error);

/* ---- platform/controller/pause.c: who is not tried again yet ---- */

/** A run waits, as `found`: how long it does because of how its last attempt ended. */
weft_status pause_note(const struct controller *controller, struct controlled_run *run,
                       const struct registry_run *found, int64_t now, struct error *error);

/** Whether it pauses; then `pause_ends` is its end at the latest. The clock was set back: it pauses no longer for it.
 */
bool pause_judge(struct controller *controller, const struct controlled_run *run, int64_t now);
void pause_set_back(struct controlled_run *run, int64_t now);

/** The remaining pause, and its reason if `whole`. */
char *pause_say(const struct controlled_run *run, bool whole, int64_t now, char *text, size_t size);

/* ---- platform/controller/limits.c: classes and personal runs ---- */

/** The class of a run and what it allows, into the run. */
void run_limits_apply(const struct controller *controller, const struct registry_run *found,
                      struct controlled_run *run);

/** What its class allows of the time that it asked for, into the registry, where that is less. */
weft_status run_limits_write(const struct controller *controller, const struct registry_run *found,
                             const struct controlled_run *run, int64_t now, struct error *error);

/** Whether there can be such a run. Errors: ARGUMENT, and why not. */
weft_status run_limits_check(const struct controller *controller, const char *class_name, bool personal, int64_t size,
                             struct error *error);

/** Forget what is counted; count a run as one that its owner has at once; what keeps one from being another. */
void run_limits_begin(struct controller *controller);
void run_limits_count(struct controller *controller, const struct controlled_run *run);
enum controller_wait run_limits_judge(const struct controller *controller, const struct controlled_run *run);
char *run_limits_say(const struct controller *controller, const struct controlled_run *run, char *text, size_t size);

/* ---- platform/controller/disk.c: a full disk, and runs that take too much of it ---- */

/** The limits of an attempt that is about to start, into its order: how large a file may become, how much output is
 * kept. */
void disk_limit_order(const struct controller *controller, int64_t asked, struct engine_order *order);

/** Why no run starts at present, as the end of "Run 3 ...". */
char *disk_say(const struct controller *controller, char *text, size_t size);

/* ---- platform/controller/slices.c: whose time slice is over ---- */

/** Whether one has ended since the last pass. */
bool slices_due(const struct controller *controller, int64_t now);

/** Right after a pass: ask those to give way whose slice is over and whose slots somebody who waits can use. `*made`
 * if there are any: then another pass is due at once, which those who wait get the slots by. In a transaction. */
weft_status slices_end(struct controller *controller, int64_t now, bool *made, struct error *error);

/* ---- platform/controller/budget.c ---- */

/** Forget what is set aside; set aside what a run needs to begin with, again; see whether that can be done, and do it.
 */
void budget_begin(struct controller *controller);
void budget_set_aside(struct controller *controller, const struct controlled_run *run);
weft_status budget_judge(struct controller *controller, struct controlled_run *run, int64_t now,
                         enum controller_wait *waits, struct error *error);

/** How much an attempt that is placed now is to hold; `*enough` false if it cannot begin after all. In a transaction.
 */
weft_status budget_look(struct controller *controller, struct controlled_run *run, int64_t now, int64_t *wanted,
                        bool *enough, struct error *error);

/** Hold it for the attempt that was begun in this transaction. */
weft_status budget_hold(struct controller *controller, struct controlled_run *run, int64_t wanted, int64_t now,
                        struct error *error);

/** The attempt ended with `outcome`, in this transaction: charge what it used. */
weft_status budget_settle(struct controller *controller, const struct controlled_run *run,
                          const struct registry_outcome *outcome, int64_t now, struct error *error);

/** All nodes of an attempt have started; one that was under way before is taken up. */
void budget_started(struct controller *controller, const struct controlled_run *run);
weft_status budget_take_up(struct controller *controller, struct controlled_run *run, struct error *error);

/** Post what has accrued where runs wait for it, once a minute and when it suffices for one of them; stop those whose
 * hold is used up. In a transaction. */
weft_status budget_accrue(struct controller *controller, int64_t now, struct error *error);
weft_status budget_end_exhausted(struct controller *controller, int64_t now, struct error *error);

/** Why a run waits for budget; when it is expected to have it (0: nobody can say). */
char *budget_say(const struct controller *controller, const struct controlled_run *run, int64_t now, char *text,
                 size_t size);
int64_t budget_expect(const struct controller *controller, const struct controlled_run *run);

#endif
