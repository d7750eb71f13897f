/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Runs, their attempts and nodes. The rules of registry.h hold.
 *
 * A run's state changes only as platform/registry/run/state.h allows. Every change is stored as an event with its time,
 * cause, actor and a message. Reports and orders name an attempt by its epoch. One for another attempt than the current
 * one changes nothing, but is recorded, once per cause.
 *
 * Reports may be late and repeated: repeating one is REGISTRY_DONE without effect.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_RUNS_H
#define WEFT_PLATFORM_REGISTRY_RUN_RUNS_H

#include "platform/registry/internal/keys.h"
#include "platform/registry/registry.h"
#include "platform/registry/run/progress.h"
#include "platform/registry/run/state.h"
#include "platform/registry/run_specification.h"

#define REGISTRY_SLOTS_BYTES   256  /**< text of a node's slots: "0-3,6" */
#define REGISTRY_ATTEMPTS_MOST 1000 /**< of a run; a failure of the last one is final */
#define REGISTRY_PRESENT       (-1) /**< as an epoch: the current attempt, for orders by people */

struct registry_run {
    int64_t run, epoch; /**< epoch of the current or last attempt; 0 before the first */
    char project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES], class_name[PLATFORM_NAME_BYTES];
    char name[RUN_NAME_BYTES];
    enum run_state state;
    enum run_cause cause; /**< of the last change */
    enum run_cause asked; /**< why the current attempt was asked to stop; RUN_CAUSE_SUBMITTED: it was not */
    int64_t nodes, slots; /**< slots of each node */
    /** As in struct run_specification, except that time_limit is the effective one. */
    int64_t processors, memory, time_limit, time_slice, priority, retries;
    enum slot_kind slot_kind;
    bool preemptible, may_span_pods, interactive;
    int64_t program_failures, platform_failures; /**< so far */
    int64_t submitted, waiting_since;            /**< milliseconds since 1970, as those below; 0: not yet */
    int64_t first_started, started;              /**< all nodes of the first, the last attempt */
    int64_t ended, changed;
    int64_t served;               /**< milliseconds that ended attempts have run */
    int64_t discarded;            /**< when its files were discarded */
    int64_t idle_since;           /**< since when the current attempt uses none of its slots; 0: it does */
    struct run_progress progress; /**< of the current or last attempt */
    char detail[REGISTRY_DETAIL_BYTES];
};

struct registry_attempt {
    int64_t epoch, placed, started, ended;
    char pod[PLATFORM_NAME_BYTES];
    bool over; /**< then `cause` and `detail` describe its end */
    enum run_cause cause;
    char detail[REGISTRY_DETAIL_BYTES];
};

struct registry_node {
    int64_t node; /**< from 0 */
    char host[PLATFORM_NAME_BYTES], slots[REGISTRY_SLOTS_BYTES];
    int64_t started, ended;
    enum run_exit how; /**< valid if it has ended, as the next three */
    int64_t code, signal;
    char detail[REGISTRY_DETAIL_BYTES];
    int64_t sequence; /**< of the last processed record of its journal */
    bool dropped;     /**< it ended before its attempt, which went on without it */
};

enum registry_verdict {
    REGISTRY_DONE,    /**< changed, or already so */
    REGISTRY_STALE,   /**< of another attempt than the current one: no change */
    REGISTRY_REFUSED, /**< not allowed in this state: no change */
};

struct registry_event {
    int64_t event, epoch, time;
    enum run_cause cause;
    bool first; /**< the submission; `from` is meaningless */
    enum run_state from, to;
    enum registry_verdict verdict;
    char actor[PLATFORM_NAME_BYTES]; /**< a user, or "" for the platform */
    char detail[REGISTRY_DETAIL_BYTES];
};

/** The result of a report or an order. */
struct registry_outcome {
    enum registry_verdict verdict;
    enum run_state from, to; /**< equal if nothing changed */
    enum run_cause cause;    /**< of the change */
    bool attempt_ended;      /**< this change ended the attempt; then: */
    int64_t used;            /**< slot-milliseconds since it ran on all of its nodes, for ledger_settle() */
};

/**
 * Queue a run. The owner must be a member of the project, which must be open. `key` (NULL: none) makes repeating a
 * submission safe: the same key of the same owner returns the existing run and sets `*again`. Errors: STATE if the key
 * was used for another specification, the project is closed, or the role is missing.
 */
weft_status registry_run_submit(struct database *database, const struct run_specification *specification,
                                const struct registry_key *key, int64_t now, int64_t *run, bool *again,
                                struct error *error);

/** Errors: ARGUMENT if there is no such run. */
weft_status registry_run_get(struct database *database, int64_t run, struct registry_run *found, struct error *error);

/** The specification of a run; the caller frees it. */
weft_status registry_run_specification(struct database *database, int64_t run, struct run_specification *specification,
                                       struct error *error);

/**
 * An unfinished run that computes the same as `run`: same specification, parent and checkpoint. Owner, preemption and
 * spanning of Pods may differ. 0: no such run.
 */
weft_status registry_run_duplicate(struct database *database, int64_t run, int64_t *duplicate, struct error *error);

/**
 * Begin an attempt on `count` nodes; nodes[i] has host and slots of node i. Errors: DATA if the run asks for another
 * number of nodes.
 */
weft_status registry_run_place(struct database *database, int64_t run, const char *pod,
                               const struct registry_node *nodes, size_t count, const char *detail, int64_t now,
                               int64_t *epoch, struct registry_outcome *outcome, struct error *error);

/**
 * Change the state of a run by any cause but RUN_CAUSE_PLACED and those that end an attempt (below). `actor`: a user,
 * "" for the platform. `detail`: a message, "" for the cause's own; unprintable characters are replaced.
 */
weft_status registry_run_change(struct database *database, int64_t run, int64_t epoch, enum run_cause cause,
                                const char *actor, const char *detail, int64_t now, struct registry_outcome *outcome,
                                struct error *error);

/** The clock was set by `by` milliseconds (negative: back): shift the times of runs that have not ended. */
weft_status registry_runs_shift(struct database *database, int64_t by, struct error *error);

/** Add a remark to the events of a run in any state: "has not used its GPUs for an hour". */
weft_status registry_run_note(struct database *database, int64_t run, const char *actor, const char *detail,
                              int64_t now, struct error *error);

/** Set the time limit of a run in seconds; `detail`, the reason, becomes an event. */
weft_status registry_run_limit(struct database *database, int64_t run, int64_t time_limit, const char *detail,
                               int64_t now, struct error *error);

/** Store the last progress report of the current attempt; ignored for others. */
weft_status registry_run_progress(struct database *database, int64_t run, int64_t epoch,
                                  const struct run_progress *progress, struct error *error);

/** Record that the current attempt of a run uses none of its slots, or (`idle` false) uses them again; `detail` becomes
 * an event. Count idle runs. */
weft_status registry_run_idle(struct database *database, int64_t run, bool idle, const char *detail, int64_t now,
                              struct error *error);
weft_status registry_idle_runs(struct database *database, int64_t *count, struct error *error);

/**
 * Node `node` started at `now`; the report may be late. With its last node the run is running since the latest start of
 * a node. Events are in the order of reports. A run that was asked to stop before stays stopping, and has run since
 * `now`.
 */
weft_status registry_node_start(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t now,
                                struct registry_outcome *outcome, struct error *error);

/**
 * A node has ended; host, slots and sequence of `ended` are ignored. `*left` nodes have not ended. With the last node the
 * attempt ends, at the time of the last one, by the worst exit (not started, lost, failed, again, completed) and with
 * the detail of the first node that ended so. The next state follows from the stop that was ordered, this exit, the
 * run's retries and `platform_most`, the limit of platform failures. A run that gives way becomes RUN_PREEMPTED, and
 * RUN_CAUSE_REQUEUED must follow. `now` as above.
 */
weft_status registry_node_end(struct database *database, int64_t run, int64_t epoch, const struct registry_node *ended,
                              int64_t platform_most, int64_t now, int64_t *left, struct registry_outcome *outcome,
                              struct error *error);

/**
 * A node has ended at `now`, and a running attempt goes on without it: its end does not count for the attempt's, and the
 * run is not charged for its slots from then on. With `*dropped` false, nothing has changed: the run is not running (it
 * still starts, or is to stop), or this was its last node. A program that fails within a minute of a dropped node's loss
 * could not go on: the attempt ends as lost.
 */
weft_status registry_node_drop(struct database *database, int64_t run, int64_t epoch, const struct registry_node *ended,
                               int64_t now, bool *dropped, struct error *error);

/** The journal of that node has been processed up to `sequence`. This alone needs no sync (DATABASE_AS_NEEDED): after a
 * crash, records are read again from an older number. */
weft_status registry_node_dealt(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t sequence,
                                struct error *error);

/** The attempts of a run, oldest first; the nodes of one. The caller frees *list. */
weft_status registry_attempts(struct database *database, int64_t run, struct registry_attempt **list, size_t *count,
                              struct error *error);
weft_status registry_nodes(struct database *database, int64_t run, int64_t epoch, struct registry_node **list,
                           size_t *count, struct error *error);

/** How far the journal of a node has been processed. */
struct registry_dealt {
    int64_t run, epoch, node, sequence;
};

/** Visit the journals of all runs that are not discarded, ended ones included; an error of `take` ends the walk. */
typedef weft_status registry_dealt_take(void *state, const struct registry_dealt *dealt, struct error *error);
weft_status registry_dealt_each(struct database *database, registry_dealt_take *take, void *state, struct error *error);

/** Up to `most` events of a run after event number `after` (0: from the first), oldest first; *list is to be freed. */
weft_status registry_run_events(struct database *database, int64_t run, int64_t after, size_t most,
                                struct registry_event **list, size_t *count, struct error *error);

/** The number of the newest event of any run; 0: there is none. */
weft_status registry_last_event(struct database *database, int64_t *event, struct error *error);

/**
 * The runs of the `most` events after number `after`, each once; `*last` is the number of the last of these
 * events (`after` if there are none). *list is to be freed.
 */
weft_status registry_runs_changed(struct database *database, int64_t after, size_t most, int64_t **list, size_t *count,
                                  int64_t *last, struct error *error);

/**
 * Record that the files of a finished run (directories, checkpoints, output) shall be removed, with a note among its
 * events. The run's rows in the registry stay; the files are removed later (retention.h of the service). Idempotent.
 * Errors: STATE if the run has not ended, or if an unfinished run begins from one of its checkpoints; ARGUMENT if there
 * is no such run.
 */
weft_status registry_run_discard(struct database *database, int64_t run, const char *actor, const char *detail,
                                 int64_t now, struct error *error);

/** The first `most` runs that ended before `before`, may be discarded, and were not; *runs is to be freed. */
weft_status registry_runs_to_discard(struct database *database, int64_t before, size_t most, int64_t **runs,
                                     size_t *count, struct error *error);

/** The snapshots that runs of a project name, each once, sorted; *ids is to be freed. */
weft_status registry_run_snapshots(struct database *database, const char *project, char (**ids)[RUN_SNAPSHOT_BYTES],
                                   size_t *count, struct error *error);

/** "done", "stale", "refused"; a static string. */
const char *registry_verdict_name(enum registry_verdict verdict);

#endif
