/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Runs, their attempts and the nodes of these. The rules of registry.h hold.
 *
 * A run's state changes only as platform/registry/run/state.h allows, and every change is an event that is kept: when, by which cause,
 * by whom, with a message. Attempts are fenced by the epoch: each report and order names the attempt that is
 * meant, and what comes for another than the present one changes nothing, but is recorded (once for each cause).
 *
 * Reports may come more than once and late: a second report of the same thing is REGISTRY_DONE without effect.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_RUNS_H
#define WEFT_PLATFORM_REGISTRY_RUN_RUNS_H

#include "platform/registry/internal/keys.h"
#include "platform/registry/registry.h"
#include "platform/registry/run/progress.h"
#include "platform/registry/run/state.h"
#include "platform/registry/run_specification.h"

#define REGISTRY_SLOTS_BYTES   256  /**< the text of the slots of a node: "0-3,6" */
#define REGISTRY_ATTEMPTS_MOST 1000 /**< of a run; one more failure of any kind is its last */
#define REGISTRY_PRESENT       (-1) /**< as an epoch: whichever attempt is the present one (for people's orders) */

struct registry_run {
    int64_t run, epoch; /**< epoch of the present or last attempt; 0 before the first */
    char project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES], class_name[PLATFORM_NAME_BYTES];
    char name[RUN_NAME_BYTES];
    enum run_state state;
    enum run_cause cause; /**< of the last change */
    enum run_cause asked; /**< what the present attempt was asked to stop for; RUN_CAUSE_SUBMITTED: nothing */
    int64_t nodes, slots; /**< slots of each node */
    /** As in struct run_specification; the time limit is the one that applies, which may be less than was asked for. */
    int64_t processors, memory, time_limit, time_slice, priority, retries;
    enum slot_kind slot_kind;
    bool preemptible, may_span_pods, interactive;
    int64_t program_failures, platform_failures; /**< so far */
    int64_t submitted, waiting_since;            /**< milliseconds since 1970, as those below; 0: not yet */
    int64_t first_started, started;              /**< all nodes of the first, the last attempt */
    int64_t ended, changed;
    int64_t served;     /**< milliseconds that ended attempts have run */
    int64_t discarded;  /**< when it was decided that what it has left on disk is to go */
    int64_t idle_since; /**< when the present attempt was seen to use nothing of what it holds; 0: it was not */
    struct run_progress progress; /**< of the present or last attempt */
    char detail[REGISTRY_DETAIL_BYTES];
};

struct registry_attempt {
    int64_t epoch, placed, started, ended;
    char pod[PLATFORM_NAME_BYTES];
    bool over; /**< then `cause` and `detail` are those of its end */
    enum run_cause cause;
    char detail[REGISTRY_DETAIL_BYTES];
};

struct registry_node {
    int64_t node; /**< from 0 */
    char host[PLATFORM_NAME_BYTES], slots[REGISTRY_SLOTS_BYTES];
    int64_t started, ended;
    enum run_exit how; /**< if it has ended; so are the next three */
    int64_t code, signal;
    char detail[REGISTRY_DETAIL_BYTES];
    int64_t sequence; /**< of the last record of its journal that was dealt with */
};

enum registry_verdict {
    REGISTRY_DONE,    /**< changed, or it was so already */
    REGISTRY_STALE,   /**< of another attempt than the present one: nothing changed */
    REGISTRY_REFUSED, /**< not allowed in this state: nothing changed */
};

struct registry_event {
    int64_t event, epoch, time;
    enum run_cause cause;
    bool first; /**< the submission: there is no state before */
    enum run_state from, to;
    enum registry_verdict verdict;
    char actor[PLATFORM_NAME_BYTES]; /**< a user, or "" for the platform */
    char detail[REGISTRY_DETAIL_BYTES];
};

/** What became of a report or an order. */
struct registry_outcome {
    enum registry_verdict verdict;
    enum run_state from, to; /**< the same if nothing changed */
    enum run_cause cause;    /**< of the change */
    bool attempt_ended;      /**< by this change; then: */
    int64_t used;            /**< slot-milliseconds since it ran on all of its nodes, for ledger_settle() */
};

/**
 * Queue a run. The owner must be a member of the project, which must be open. `key` (NULL: none) makes it safe to
 * submit again after an answer was lost: the same owner's same key gives the run that was made then and `*again` true.
 * Errors: STATE for a key that was used for something else, a closed project, or a missing role.
 */
weft_status registry_run_submit(struct database *database, const struct run_specification *specification,
                                const struct registry_key *key, int64_t now, int64_t *run, bool *again,
                                struct error *error);

/** Errors: ARGUMENT if there is no such run. */
weft_status registry_run_get(struct database *database, int64_t run, struct registry_run *found, struct error *error);

/** All that was asked for; to be freed. */
weft_status registry_run_specification(struct database *database, int64_t run, struct run_specification *specification,
                                       struct error *error);

/**
 * An unfinished run that computes the same as `run`: same specification, parent and checkpoint. Owner, preemption and
 * spanning of Pods may differ. 0: no such run.
 */
weft_status registry_run_duplicate(struct database *database, int64_t run, int64_t *duplicate, struct error *error);

/**
 * Begin an attempt on `count` nodes; nodes[i] gives host and slots of node i. Errors: DATA if that is
 * not the number of nodes that the run asks for.
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

/** The clock was set by `by` milliseconds (below 0: back): shift the start times of all that waits or runs. */
weft_status registry_runs_shift(struct database *database, int64_t by, struct error *error);

/** Keep a remark among the events of a run, whatever its state: "has not used its GPUs for an hour". */
weft_status registry_run_note(struct database *database, int64_t run, const char *actor, const char *detail,
                              int64_t now, struct error *error);

/** The seconds that a run may run are these from now on; `detail`, why, is kept among its events. */
weft_status registry_run_limit(struct database *database, int64_t run, int64_t time_limit, const char *detail,
                               int64_t now, struct error *error);

/** Keep what an attempt has reported last of its progress. Of another attempt than the present one nothing changes. */
weft_status registry_run_progress(struct database *database, int64_t run, int64_t epoch,
                                  const struct run_progress *progress, struct error *error);

/** The present attempt of a run was seen to use nothing of what it holds, or (`idle` false) something again; `detail`
 * is kept among its events. And how many runs are seen so. */
weft_status registry_run_idle(struct database *database, int64_t run, bool idle, const char *detail, int64_t now,
                              struct error *error);
weft_status registry_idle_runs(struct database *database, int64_t *count, struct error *error);

/**
 * Node `node` started at `now`; the report may come late. The run started when the last of its nodes did; in the list
 * of events the change comes after those that were reported before. With the last node the run is running. If it was
 * asked to stop before that report, it stays stopping, and has run since `now`.
 */
weft_status registry_node_start(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t now,
                                struct registry_outcome *outcome, struct error *error);

/**
 * Node `node` has ended: host, slots, sequence of `ended` are not looked at. With the last of them the attempt ends, by
 * the worst of their exits (not started, lost, failed, again, completed), with the detail of the first that ended so,
 * at the time of the last; what it was asked for, this exit, the run's retries and `platform_most` failures of the
 * platform decide how the run goes on. One that gives way is then RUN_PREEMPTED; RUN_CAUSE_REQUEUED follows. `now` as
 * above. `*left` nodes have not ended.
 */
weft_status registry_node_end(struct database *database, int64_t run, int64_t epoch, const struct registry_node *ended,
                              int64_t platform_most, int64_t now, int64_t *left, struct registry_outcome *outcome,
                              struct error *error);

/** The journal of that node has been processed up to `sequence`. By itself this can wait for a sync of the disk
 * (DATABASE_AS_NEEDED): after a crash the records after an older number are read once more. */
weft_status registry_node_dealt(struct database *database, int64_t run, int64_t epoch, int64_t node, int64_t sequence,
                                struct error *error);

/** The attempts of a run, oldest first; the nodes of one; *list is to be freed. */
weft_status registry_attempts(struct database *database, int64_t run, struct registry_attempt **list, size_t *count,
                              struct error *error);
weft_status registry_nodes(struct database *database, int64_t run, int64_t epoch, struct registry_node **list,
                           size_t *count, struct error *error);

/** How far the journal of a node has been dealt with. */
struct registry_dealt {
    int64_t run, epoch, node, sequence;
};

/** Pass on how far every journal has been dealt with, those of runs that have ended too, but not of those whose
 * journals are gone, as they were discarded; an error ends it. */
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
 * events. What the registry knows of the run stays; the files are removed later (retention.h of the service).
 * Idempotent. Errors: STATE if the run has not ended, or if an unfinished run begins from one of its checkpoints;
 * ARGUMENT if there is no such run.
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
