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

enum run_state {
    RUN_QUEUED,    /**< waits for its first attempt */
    RUN_PLACED,    /**< an attempt has slots; the engine has not taken it yet */
    RUN_STARTING,  /**< the engine has taken it; not all of its nodes have started */
    RUN_RUNNING,   /**< all nodes have started */
    RUN_STOPPING,  /**< asked to end; may be writing its checkpoint */
    RUN_PREEMPTED, /**< has given way, and will be queued again */
    RUN_REQUEUED,  /**< waits for another attempt */
    RUN_SUCCEEDED,
    RUN_FAILED,
    RUN_CANCELLED,
    RUN_STATES, /**< how many there are */
};

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

/** No state follows this one. */
bool run_state_is_final(enum run_state state);

/** An attempt holds slots in this state: placed, starting, running, stopping. */
bool run_state_is_active(enum run_state state);

/** The scheduler may place a run in this state: queued, re-queued. */
bool run_state_is_waiting(enum run_state state);

/** Whether `cause` asks a run to stop, and whether it is to run again afterwards. */
bool run_cause_is_stop(enum run_cause cause);
bool run_cause_gives_way(enum run_cause cause);

/** Whether `cause` ends an attempt. */
bool run_cause_is_end(enum run_cause cause);

/**
 * The cause of the change that ends an attempt. `asked` is the last cause that asked it to stop, RUN_CAUSE_SUBMITTED if
 * none did; `again` whether the run may be tried again after a failure of the kind of `exit` (the caller counts them).
 * It is allowed in each active state in which such an end can be told: any, but a program does not end in placed.
 */
enum run_cause run_cause_of_end(enum run_cause asked, enum run_exit exit, bool again);

/** "queued" ... "re-queued" ... ; "submitted", "time-limit" and so on; static strings. */
const char *run_state_name(enum run_state state);
const char *run_cause_name(enum run_cause cause);

/** A message's end: "was preempted for a run that goes first"; a static string. */
const char *run_cause_text(enum run_cause cause);
enum run_blame run_cause_blame(enum run_cause cause);

/** The state or cause of that name; false if there is none. */
bool run_state_find(const char *name, enum run_state *state);
bool run_cause_find(const char *name, enum run_cause *cause);

#endif
