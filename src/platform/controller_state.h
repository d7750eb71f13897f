/* SPDX-License-Identifier: Apache-2.0 */
/** What the controller's parts share: the runs that have not ended, and who has which slots. For controller*.c alone.
 */
#ifndef WEFT_PLATFORM_CONTROLLER_STATE_H
#define WEFT_PLATFORM_CONTROLLER_STATE_H

#include "platform/controller.h"
#include "platform/registry_runs.h"
#include "scheduler/scheduler.h"

/** One node of the present attempt. */
struct controlled_node {
    uint32_t host;
    uint64_t slots; /**< a set (slot_set.h) */
    bool ended;
    uint64_t dealt; /**< the last record of its journal that was dealt with */
};

/** Where the scheduler has a run. */
enum controlled_place { CONTROLLED_NOWHERE, CONTROLLED_IN_QUEUE, CONTROLLED_ON_HOSTS };

struct controlled_run {
    int64_t run, epoch;
    uint32_t nodes, slots; /**< that it asks for: slots of each node */
    uint32_t name;         /**< the scheduler's */
    enum controlled_place place;
    uint32_t *promised;           /**< hosts that the scheduler gives it once they are free; NULL: none */
    struct controlled_node *node; /**< of its attempt under way; NULL: there is none */
    bool to_start, started;       /**< the engine is to be told; was told */
    bool first_leads;             /**< the nodes behind the first one only wait, until that has ended */
    bool heard;                   /**< the engine has something to tell of it */
    bool to_stop;                 /**< the engine is to be told to end it, so: */
    enum engine_end how;
    int64_t slice_end; /**< when its time slice is over; INT64_MAX: never */
};

struct controller {
    struct controller_config config;
    struct scheduler *scheduler;
    uint32_t host_count, host_slots;
    char (*host_names)[PLATFORM_NAME_BYTES];
    uint64_t *used;                        /**< slots of each host that an attempt has */
    char (*projects)[PLATFORM_NAME_BYTES]; /**< the scheduler's numbers of projects */
    uint32_t project_count;
    struct controlled_run **runs;
    uint32_t run_count;
    struct controlled_run **by_name; /**< by the scheduler's name */
    uint32_t name_count;
    bool changed;      /**< something has happened that a pass should look at */
    int64_t passed_at; /**< of the last pass */
    int64_t heard_at;  /**< when the engine was asked about all of them */
};

/** The attempt of a run that is under way, as engines know it. */
struct attempt controlled_attempt(const struct controlled_run *run);

/* ---- controller_attempt.c: attempts begin and end ------------------------------------------------------------------
 */

/** If the hosts that a run was promised are free: take them, begin an attempt in the registry. In a transaction. */
weft_status attempt_place(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** Have the engine start a placed attempt, and tell the registry. No transaction may be open. */
weft_status attempt_start(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** Ask a run's attempt to end, for `cause`. In a transaction; the engine hears of it by attempt_stop(). */
weft_status attempt_ask(struct controller *controller, struct controlled_run *run, enum run_cause cause,
                        const char *actor, const char *detail, int64_t now, struct error *error);
weft_status attempt_stop(struct controller *controller, struct controlled_run *run, struct error *error);

/** Take in what the engine tells of an attempt. In a transaction. */
weft_status attempt_hear(struct controller *controller, struct controlled_run *run, int64_t now, struct error *error);

/** Take up the attempt of a run that was under way before. */
weft_status attempt_take_up(struct controller *controller, struct controlled_run *run, struct error *error);

/** Its slots are free again. */
void attempt_forget(struct controller *controller, struct controlled_run *run);

#endif
