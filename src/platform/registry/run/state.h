/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The states of a run and the one table of how they follow each other.
 *
 *     queued ──► placed ──► starting ──► running ──► succeeded
 *                  │           │           │   └───► failed
 *                  └───────────┴───────────┴► stopping ──► preempted ──► re-queued ──► placed ...
 *                                                 └──────► cancelled
 *
 * A state changes by a cause, and only as run_state_next() allows: the cause and the state together decide the new one.
 * Every change is kept with its cause as an event (registry.h). An attempt begins with RUN_PLACED and ends when the run
 * leaves placed, starting, running and stopping.
 *
 * A run is first asked to stop (a cause that leads to stopping: a person, the scheduler, a limit), then ends; how it
 * ended, together with what it was asked for, gives the cause of the last change: run_cause_of_end().
 *
 * Pure functions; thread-safe.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_STATE_H
#define WEFT_PLATFORM_REGISTRY_RUN_STATE_H

#include <stdbool.h>

/**
 * The states, in the order in which a run goes through them: STATE(symbol, name, kind, meaning). BETWEEN comes between
 * two of them. Enumeration, names, schema, choices of `weft ps --state` and SQL are made from this table;
 * run_state_test compares docs/platform.md and web/modules/states.js with it.
 */
/* clang-format off */
#define RUN_STATE_TABLE(STATE, BETWEEN) \
    STATE(QUEUED, "queued", WAITING, "waits for its first attempt") BETWEEN \
    STATE(PLACED, "placed", ACTIVE, "has slots; the engine has not accepted the attempt yet") BETWEEN \
    STATE(STARTING, "starting", ACTIVE, "accepted by the engine; some nodes have not started yet") BETWEEN \
    STATE(RUNNING, "running", ACTIVE, "all nodes have started") BETWEEN \
    STATE(STOPPING, "stopping", ACTIVE, "asked to end; may be writing its checkpoint") BETWEEN \
    STATE(PREEMPTED, "preempted", BETWEEN_ATTEMPTS, "has given way; goes back to the queue") BETWEEN \
    STATE(REQUEUED, "re-queued", WAITING, "waits for another attempt") BETWEEN \
    STATE(SUCCEEDED, "succeeded", FINAL, "the program ended well") BETWEEN \
    STATE(FAILED, "failed", FINAL, "the program failed, or a limit or the platform ended it") BETWEEN \
    STATE(CANCELLED, "cancelled", FINAL, "stopped by a person")
#define RUN_STATE_SYMBOL(symbol, name, kind, meaning) RUN_##symbol,

enum run_state {
    RUN_STATE_TABLE(RUN_STATE_SYMBOL, )
    RUN_STATES, /**< how many there are */
};
/* clang-format on */

enum run_state_kind {
    RUN_STATE_WAITING,          /**< the scheduler may place it */
    RUN_STATE_ACTIVE,           /**< an attempt holds slots */
    RUN_STATE_BETWEEN_ATTEMPTS, /**< neither; its next state is a waiting one */
    RUN_STATE_FINAL,            /**< no other state follows */
};

/** The names as members of a JSON array. */
#define RUN_STATE_QUOTED(symbol, name, kind, meaning) "\"" name "\""
#define RUN_STATE_NAMES_JSON                          RUN_STATE_TABLE(RUN_STATE_QUOTED, ", ")

/** The names by kind as SQL lists; run_state_test compares them with the table. */
#define RUN_STATES_WAITING_SQL "('queued', 're-queued')"
#define RUN_STATES_ACTIVE_SQL  "('placed', 'starting', 'running', 'stopping')"
#define RUN_STATES_FINAL_SQL   "('succeeded', 'failed', 'cancelled')"

/** What lists of runs can be restricted to: the names of the states, "live" (any that is not final) and "over" (any
 * that is), NULL. */
extern const char *const run_state_choices[];

enum run_cause {
    RUN_CAUSE_SUBMITTED, /**< the run was made; also: nobody asked for anything */
    RUN_CAUSE_PLACED,    /**< the scheduler has given it slots */
    RUN_CAUSE_ACCEPTED,  /**< the engine has taken the attempt */
    RUN_CAUSE_STARTED,   /**< all nodes have told that they started */

    /* Asked to stop. */
    RUN_CAUSE_CANCEL,     /**< by a person: for good */
    RUN_CAUSE_PREEMPT,    /**< for a run that goes first */
    RUN_CAUSE_MOVE,       /**< to run elsewhere, so that a larger run fits */
    RUN_CAUSE_SLICE_END,  /**< its time slice is over; others have their turn */
    RUN_CAUSE_BUDGET_END, /**< what was held of its budget is used up */
    RUN_CAUSE_DRAIN,      /**< a host of it is to be empty */
    RUN_CAUSE_TIME_LIMIT, /**< it has run for as long as it may: for good */
    RUN_CAUSE_IDLE,       /**< it does not use what it holds: for good */
    RUN_CAUSE_DISK,       /**< it takes more disk space than it may: for good */

    /* Ended. */
    RUN_CAUSE_COMPLETED,      /**< the program ended well */
    RUN_CAUSE_PROGRAM_FAILED, /**< the program failed, and is not run again */
    RUN_CAUSE_RETRIED,        /**< the program failed, and is run again */
    RUN_CAUSE_ASKED_AGAIN,    /**< the program stopped by itself and asked to be run again (exit code 75) */
    RUN_CAUSE_NODE_LOST,      /**< a host, or the agent on it, is lost */
    RUN_CAUSE_NOT_STARTED,    /**< the engine or a host could not start it */
    RUN_CAUSE_GIVEN_UP,       /**< the platform has failed it too often */
    RUN_CAUSE_CANCELLED,      /**< ended after RUN_CAUSE_CANCEL */
    RUN_CAUSE_VACATED,        /**< ended after it was asked to give way */
    RUN_CAUSE_OVERDUE,        /**< ended after RUN_CAUSE_TIME_LIMIT, RUN_CAUSE_IDLE or RUN_CAUSE_DISK */

    RUN_CAUSE_REQUEUED, /**< in the queue again after it gave way */
    RUN_CAUSE_NOTED,    /**< a remark among the events; changes no state */
    RUN_CAUSES,         /**< how many there are */
};

/** Whose doing a cause is: what the platform did wrong is not charged, what a program did wrong is not retried for
 * ever. */
enum run_blame {
    RUN_BLAME_NOBODY,   /**< the ordinary course */
    RUN_BLAME_USER,     /**< a person decided it */
    RUN_BLAME_PROGRAM,  /**< the run's own program */
    RUN_BLAME_POLICY,   /**< the scheduler or a limit decided it */
    RUN_BLAME_PLATFORM, /**< a host, a network or this program failed */
};

/** How the processes of an attempt ended, all nodes taken together. */
enum run_exit {
    RUN_EXIT_COMPLETED,   /**< all with code 0 */
    RUN_EXIT_AGAIN,       /**< with EX_TEMPFAIL (75): "run me again" */
    RUN_EXIT_FAILED,      /**< by another code or a signal */
    RUN_EXIT_LOST,        /**< nobody knows: a host or its agent is lost */
    RUN_EXIT_NOT_STARTED, /**< they never ran */
    RUN_EXITS,            /**< how many there are */
};

/** Whether `cause` may change `from`; then `*to` is the new state (of RUN_CAUSE_CANCEL in stopping: stopping). */
bool run_state_next(enum run_state from, enum run_cause cause, enum run_state *to);

enum run_state_kind run_state_kind(enum run_state state);
bool run_state_is_final(enum run_state state);
bool run_state_is_active(enum run_state state);
bool run_state_is_waiting(enum run_state state);

/** Whether `cause` asks a run to stop, and whether it is to run again afterwards. */
bool run_cause_is_stop(enum run_cause cause);
bool run_cause_gives_way(enum run_cause cause);

/** Whether `cause` ends an attempt. */
bool run_cause_is_end(enum run_cause cause);

/**
 * The cause of the change that ends an attempt. `asked` is the last cause that asked it to stop, RUN_CAUSE_SUBMITTED if
 * none did; `again` whether the run may be tried again after a failure of the kind of `exit` (the caller counts them).
 * It is allowed in each active state in which such an end can occur: in all, except that a program does not end in
 * placed.
 */
enum run_cause run_cause_of_end(enum run_cause asked, enum run_exit exit, bool again);

/** As in the tables; static strings. */
const char *run_state_name(enum run_state state);
const char *run_state_meaning(enum run_state state);
const char *run_cause_name(enum run_cause cause);

/** A message's end: "was preempted for a run that goes first"; a static string. */
const char *run_cause_text(enum run_cause cause);
enum run_blame run_cause_blame(enum run_cause cause);

/** The state or cause of that name; false if there is none. */
bool run_state_find(const char *name, enum run_state *state);
bool run_cause_find(const char *name, enum run_cause *cause);

#endif
