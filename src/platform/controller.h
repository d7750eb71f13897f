/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The controller: brings what is asked for (registry_runs.h), what is decided (scheduler/) and what runs (engine.h)
 * together. It is the one place where these meet:
 *
 *     registry ──waiting runs──► scheduler ──decisions──► registry, engine
 *     engine ──records──► registry ──ends──► scheduler
 *
 * What it does is written down before it is done: a placement is in the registry before the engine hears of it, so that
 * whoever opens a controller on the same registry and engine after a crash, at whatever moment, goes on where the other
 * one stopped: no run is started twice, none is forgotten. What the engine tells is taken exactly once: the number of
 * the last record is kept with what was made of it.
 *
 * A run that the scheduler puts where others still are waits until they have really left. The nodes of a gang end
 * together: when one has ended, the others are stopped.
 *
 * Times are milliseconds since 1970, by the caller. A controller belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_CONTROLLER_H
#define WEFT_PLATFORM_CONTROLLER_H

#include "platform/engine.h"
#include "platform/registry.h"
#include "scheduler/policy.h"

struct controller;

/** What is made of a record that is no business of the controller's: output, metrics, use. Called inside the
 * transaction that keeps its number; what fails is told again later. May be NULL. */
typedef weft_status controller_sink(void *context, int64_t run, int64_t epoch, uint32_t node,
                                    const struct journal_record *record, struct error *error);

/** Where a run's files are: its folder, which exists when this returns, and how it is made. */
struct controller_folders {
    const char *runs;      /**< absolute: RUN/work is where its command runs, RUN/checkpoints its WEFT_CHECKPOINT_DIR */
    const char *snapshots; /**< the store that its code is checked out from (snapshot.h) */
};

struct controller_config {
    struct database *registry;
    struct engine *engine; /**< its hosts are put into the registry, all in one Pod of this name: */
    const char *pod;
    struct controller_folders folders;
    struct scheduler_policy policy;
    int64_t platform_most; /**< attempts of a run that may fail by the platform's fault; one more is the last */
    int64_t cordon_most;   /**< such failures of a host within `cordon_window` that drain it */
    int64_t cordon_window; /**< milliseconds */
    int64_t grace;         /**< milliseconds that a run has to write a checkpoint and end */
    controller_sink *sink;
    void *context;
};

/** Limits that suit most: three failures of the platform a run, three a host in an hour, half a minute of grace. */
#define CONTROLLER_LIMITS .platform_most = 3, .cordon_most = 3, .cordon_window = 3600000, .grace = 30000

/**
 * Take up what the registry has and what the engine runs. What the config points to outlives the controller.
 * Errors: those of both; ARGUMENT if the engine has no hosts, or ones that differ too much to be one Pod.
 */
weft_status controller_open(const struct controller_config *config, int64_t now, struct controller **controller,
                            struct error *error);
void controller_close(struct controller *controller);

/** A run was submitted, and is in the registry for good. The next step looks at it. */
weft_status controller_submitted(struct controller *controller, int64_t run, int64_t now, struct error *error);

/** End a run for a person: `actor` cancels it. Errors: STATE if it has ended. */
weft_status controller_cancel(struct controller *controller, int64_t run, const char *actor, int64_t now,
                              struct error *error);

/** Hosts were drained or resumed in the registry. */
weft_status controller_hosts_changed(struct controller *controller, struct error *error);

/**
 * One step: hear what the engine tells, decide, act. `*next` is when the next one is due at the latest; one is due at
 * once when the engine's descriptor becomes readable, or after a submission. After an error the controller knows less
 * than the registry: close it and open another one.
 */
weft_status controller_step(struct controller *controller, int64_t now, int64_t *next, struct error *error);

/** Why a run waits, and when it is expected to start, as a sentence; "" if it does not wait. */
weft_status controller_why(struct controller *controller, int64_t run, int64_t now, char *text, size_t size,
                           struct error *error);

#endif
