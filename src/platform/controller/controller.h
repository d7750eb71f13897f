/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The controller: brings what is asked for (platform/registry/run/runs.h), what is decided (scheduler/) and what runs (engine.h)
 * together. It is the one place where these meet:
 *
 *     registry ──waiting runs──► scheduler ──decisions──► registry, engine
 *     engine ──records──► registry ──ends──► scheduler
 *
 * Decisions are written before they are carried out: a placement is in the registry before the engine gets it. So a
 * controller that is opened on the same registry and engine after a crash, at any time, continues where the previous
 * one stopped: no run is started twice, none is lost. Records of starts and ends are processed exactly once: the number
 * of the record is stored with its effects, and both are synced before anything follows from them. For records without
 * such effects (heartbeats, output, metrics) the number is written once a minute without a sync, so a new controller
 * reads the last of them again.
 *
 * A run that the scheduler puts where others still are waits until they have really left. The nodes of a gang end
 * together: when one has ended, the others are stopped.
 *
 * Budgets (ledger.h): a run is placed only when its project can pay for it, and holds size x time limit then, in the
 * same transaction; what it used is charged in the one in which it ends, nothing if the platform failed it. A run that
 * has checkpoints may begin with less, at least `budget_least`, and is stopped at a checkpoint when that is used up. A
 * run that cannot pay waits beside the queue and is in nobody's way. What runs that may begin need is set aside for
 * them, in the order of priority and submission within a project.
 *
 * A run that has failed and is to be run again waits for that: a second, and twice as long after each further failure.
 * A first failure of the platform costs no backoff, because the run is tried on another host if there is one. Nor does
 * a preemption.
 *
 * Personal runs, those of a user in the project of that name that the registry calls personal, need no budget. A share
 * of the slots is kept for them (scheduler.h).
 *
 * Times are milliseconds since 1970, by the caller; a clock that steps back delays nothing, and the caller reports
 * every step of the clock that it notices with controller_shift_clock(). A controller belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_CONTROLLER_CONTROLLER_H
#define WEFT_PLATFORM_CONTROLLER_CONTROLLER_H

#include "platform/controller/internal/plan.h"
#include "platform/engine/engine.h"
#include "platform/registry/registry.h"
#include "platform/registry/run_specification.h"
#include "platform/scheduler/policy.h"

struct controller;

/** Receives the records that do not concern the controller: output, metrics, use. After a failure the record is
 * delivered again, and a new controller delivers those of the last minute again. Store the numbers of records that must
 * count once. May be NULL. */
typedef weft_status controller_sink(void *context, int64_t run, int64_t epoch, uint32_t node,
                                    const struct journal_record *record, struct error *error);

/** Bytes of the message that says that the disk is full. */
#define CONTROLLER_DISK_BYTES 256

/** The limits of the runs of a class. */
struct controller_class {
    const char *name;   /**< "": every class that is not in the table, which are refused otherwise */
    int64_t time_limit; /**< seconds: the longest there is; runs that ask for more are ended then. 0: no limit */
    int64_t time_slice; /**< seconds: so long a preemptible run may run at a time while others wait; 0: for ever */
    uint32_t runs_most; /**< that a user may have at once; 0: any number */
    int64_t idle_limit; /**< seconds for which a run may use nothing of what it holds; 0: an hour */
    bool idle_stops;    /**< then it is stopped; otherwise it is only reported to its owner */
};

/** Where runs' files are: platform/runs/directory.h. */
struct controller_directories {
    const char *runs;      /**< absolute: RUN/work is where its command runs, RUN/checkpoints its WEFT_CHECKPOINT_DIR */
    const char *snapshots; /**< absolute: PROJECT in it is the store that its code is checked out from (snapshot.h) */
};

struct controller_config {
    struct database *registry;
    struct engine *engine; /**< its hosts are put into the registry; those of which it names no Pod are in this one: */
    const char *pod;
    struct controller_directories directories;
    const char *own_user; /**< where this process is root: whose runs may be root's; those of all others belong to the
                               accounts that the registry has for them (platform/registry/owner.h). NULL: all are this process's */
    const char *secrets;  /**< the directory of secret_store.h; NULL: runs get none */
    const char *paused;   /**< nothing starts until controller_resume(), and this message says why; NULL: as usual */
    struct scheduler_policy policy;
    int64_t platform_most; /**< attempts of a run that may fail by the platform's fault; one more is the last */
    int64_t pause_first;   /**< milliseconds before a run is tried again that has failed; twice as long each time, */
    int64_t pause_most;    /**< up to this; 0: none */
    int64_t cordon_most;   /**< such failures of a host within `cordon_window` that cordon it */
    int64_t cordon_window; /**< milliseconds */
    int64_t grace;         /**< milliseconds that a run has to write a checkpoint and end */
    int64_t budget_least;  /**< milliseconds that a run's budget must last for, for it to begin; 0: its time limit */
    double personal_share; /**< share of all slots that is kept for personal runs, rounded; 0: none */
    int64_t personal_slots_most;            /**< of a personal run; 0: any number */
    uint32_t personal_runs_most;            /**< that a user may have at once; 0: any number */
    const struct controller_class *classes; /**< NULL: there are no classes with limits */
    uint32_t class_count;
    int64_t disk_run; /**< bytes that a run may take on disk if it asks for nothing else; 0: half of what is free */
    controller_sink *sink;
    void *context;
};

/** Limits that suit most: three failures of the platform a run, three a host in an hour, pauses of a second to a minute
 * after failures, half a minute of grace, budget for ten minutes; nothing is kept for personal runs. */
#define CONTROLLER_LIMITS                                                                                              \
    .platform_most = 3, CONTROLLER_PAUSES, .cordon_most = 3, .cordon_window = 3600000, .grace = 30000,                 \
    .budget_least = 600000
#define CONTROLLER_PAUSES .pause_first = 1000, .pause_most = 60000

/**
 * Take up what the registry has and what the engine runs. What the config points to outlives the controller.
 * Errors: those of both; ARGUMENT if the engine has no hosts, or one with more slots than can be.
 */
weft_status controller_open(const struct controller_config *config, int64_t now, struct controller **controller,
                            struct error *error);
void controller_close(struct controller *controller);

/** Whether a run could ever be placed here, and its class allows it; to be asked before it is submitted. Errors:
 * ARGUMENT and why not. A run that is submitted nevertheless is cancelled by that message; one that was there when the
 * controller was opened waits for better times, and says why. */
weft_status controller_check(const struct controller *controller, const struct run_specification *specification,
                             struct error *error);

/** Readable when the directories of a run have been made, by threads: then a step is due at once. */
int controller_descriptor(const struct controller *controller);

/** A run was submitted, and is in the registry for good. The next step looks at it. */
weft_status controller_submitted(struct controller *controller, int64_t run, int64_t now, struct error *error);

/** That a class allows a run less time than it asked for, as a message, into `text`; returns it. The registry has the
 * time that applies as the run's limit. */
char *controller_limit_say(int64_t seconds, const char *class_name, char *text, size_t size);

/** End a run for a person: `actor` cancels it. Errors: STATE if it has ended. */
weft_status controller_cancel(struct controller *controller, int64_t run, const char *actor, int64_t now,
                              struct error *error);

/** Hosts were drained or resumed in the registry; budgets were changed, granted to or handed on, or roles. */
weft_status controller_hosts_changed(struct controller *controller, struct error *error);
void controller_budgets_changed(struct controller *controller);

/**
 * A run was seen to use nothing of what it holds (observe/telemetry/usage_watch.h): `message` says so, is kept among its events,
 * and the run is marked until it is at work again or its attempt ends. And after it has been idle for as long as its
 * class allows: it is stopped for good if the class says so, `*stopped`. All change nothing if nothing of it runs. The
 * limits: in seconds.
 */
weft_status controller_flag_idle(struct controller *controller, int64_t run, const char *message, int64_t now,
                                 struct error *error);
weft_status controller_clear_idle(struct controller *controller, int64_t run, int64_t now, struct error *error);
weft_status controller_stop_idle(struct controller *controller, int64_t run, const char *message, int64_t now,
                                 bool *stopped, struct error *error);
void controller_idle_limits(const struct controller *controller, int64_t run, int64_t *idle_limit, bool *idle_stops);

/** Resume scheduling that the configuration has paused. */
void controller_resume(struct controller *controller);

/**
 * Stop a run for good because of its disk use; `message` becomes its reason. `kill`: without a grace period, even if
 * it is ending already. Does nothing if the run has no nodes.
 */
weft_status controller_stop_disk(struct controller *controller, int64_t run, const char *message, bool kill,
                                 int64_t now, struct error *error);

/** Start no runs from now on, because the disk is full: `message` says so. "": start runs again. */
void controller_disk_trouble(struct controller *controller, const char *message);

/** A run's disk quota in bytes: what it `asked` for; else `policy`; if both are 0, half of the sum of what is free at
 * `directory` and what the run `has` already, but at least 64 MiB, or an eighth of a small file system. 0: not known.
 */
int64_t controller_disk_quota(int64_t asked, int64_t policy, const char *directory, int64_t has);

/**
 * Before a step: the clock was set by `by` milliseconds to `now` (below 0: back). Start times, pauses, time slices and
 * the time up to which budgets have accrued move with it. So a run is charged for the time that passed, whichever way
 * the clock was set and whether or not it is corrected later.
 */
weft_status controller_shift_clock(struct controller *controller, int64_t by, int64_t now, struct error *error);

/**
 * One step: hear what the engine tells, decide, act. `*next` is when the next one is due at the latest; one is due at
 * once when the engine's descriptor or controller_descriptor() becomes readable, or after a submission. After an error
 * the controller knows less than the registry: close it and open another one.
 *
 * Nobody is answered meanwhile, so a step is short, however many runs there are: where there is more to start, to end
 * or to ask the engine about than some 20 ms of it, the rest comes with steps that are due at once, or soon.
 */
weft_status controller_step(struct controller *controller, int64_t now, int64_t *next, struct error *error);

#endif
