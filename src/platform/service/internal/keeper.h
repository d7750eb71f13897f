/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The keeper: the one thread that changes anything. It owns the registry (to write), the controller, the engine and
 * the metrics, hears the engine, lets the controller take its steps, and does what requests ask for.
 *
 *     HTTP thread ──keeper_do()──► queue ──► works, as one group commit ──► answers ──► HTTP thread
 *                                            controller_step()          ──► events   ──► subscribers
 *
 * An answer goes out when what it tells of is on disk. Works that wait together share one sync of the disk. Steps sync
 * what they decide, and what has begun and ended; those that only hear heartbeats and output do not
 * (platform/controller/controller.h).
 *
 * What takes long is done elsewhere, or in pieces: logs of databases are written back by threads of their own
 * (platform/store/database.h), folders of runs are made by others (platform/runs/directory.h) and removed by another (retention.h),
 * and a step of the controller does no more than some 20 ms of what there is to do.
 *
 * When the registry cannot be written (a full disk), what is under way goes on: the keeper gives up its controller,
 * answers requests that need it with the sentence, and opens another one a second later.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_KEEPER_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_KEEPER_H

#include "platform/controller/controller.h"
#include "platform/http/events_stream.h"
#include "platform/http/route/route.h"
#include "platform/metrics/store/store.h"
#include "platform/registry/run_specification.h"
#include "platform/service/internal/exits.h"
#include "platform/service/internal/policy.h"
#include "platform/service/internal/watch.h"

#define SERVICE_SECRETS "secrets" /**< the folder of secret_store.h, in that of the state */

struct keeper;
struct collector;

struct keeper_config {
    const char *folder;                  /**< absolute, of all that is kept; it exists */
    struct database *registry;           /**< to write; becomes the keeper's, as the engine does */
    struct engine *engine;               /**< becomes the keeper's */
    const char *pod;                     /**< of its hosts */
    bool pretended;                      /**< its hosts are a pretence: slots are whatever a run asks for */
    const char *own_user;                /**< controller.h; outlives the keeper */
    struct events_stream *events;        /**< changes of runs are published to it; outlives the keeper */
    struct exits *exits;                 /**< says whether scheduling is paused; outlives the keeper */
    const struct service_policy *policy; /**< the policy; outlives the keeper */
    struct disk_space *space;            /**< outlives the keeper */
};

/** Open the metrics in the folder, settle what is left of other platforms (leftovers.h), and take up what runs. Errors:
 * those of all of them. */
weft_status keeper_open(const struct keeper_config *config, struct keeper **keeper, struct error *error);

/** Start its thread. Answers go out through `server`. */
weft_status keeper_start(struct keeper *keeper, struct http_server *server, struct error *error);

/** End the thread; requests that wait are answered with an error. What runs goes on. Before http_stop(). */
void keeper_stop(struct keeper *keeper);

/** NULL is allowed. */
void keeper_close(struct keeper *keeper);

/**
 * What a request asks for. On the keeper's thread: changes what it changes in transactions of its own, and writes its
 * answer, one JSON value, unless the route has none. An error is the answer then.
 */
typedef weft_status keeper_work(struct keeper *keeper, struct route_call *call, struct json_writer *answer,
                                struct error *error);

/** Have the keeper do `work` for a call and answer it. On the HTTP server's thread. */
void keeper_do(struct keeper *keeper, struct route_call *call, keeper_work *work);

/** The same, and then have `done` answer the call on the HTTP server's thread; the work writes no answer. */
typedef void keeper_done(struct route_call *call, weft_status status, const struct error *error);
void keeper_do_then(struct keeper *keeper, struct route_call *call, keeper_work *work, keeper_done *done);

/** What is done on the keeper's thread for somebody who answers by himself, such as a stream. `keeper` is NULL where
 * the server is stopping: only what is held may be let go of then. */
typedef void keeper_task(struct keeper *keeper, void *context);

/** Have the keeper do `task` soon. From any thread. False: it never will, as memory ran out or it is stopping. */
bool keeper_post(struct keeper *keeper, keeper_task *task, void *context);

/* ---- for works -------------------------------------------------------------------------------------------------- */

struct database *keeper_registry(struct keeper *keeper);
struct controller *keeper_controller(struct keeper *keeper);
struct engine *keeper_engine(struct keeper *keeper);
struct collector *keeper_collector(struct keeper *keeper);
struct metric_store *keeper_metrics(struct keeper *keeper); /**< the collector's */

/** The disk's state. disk_watch_check() and the calls of its members are for any thread. */
const struct disk_watch *keeper_disk(const struct keeper *keeper);

/** The largest disk quota that a run may ask for, in bytes; 0: no limit. */
int64_t keeper_disk_limit(const struct keeper *keeper);

/** Members, budget or state of a project are changed by this work: who looks at it hears of it when that is committed.
 */
void keeper_project_changed(struct keeper *keeper, const char *project);

/** A work has changed the registry, and could not tell the controller of it: once the change is on disk, that one is
 * given up for another one, which begins from the registry. */
void keeper_doubt(struct keeper *keeper, const struct error *error);

/** Resume scheduling that was paused after unclean exits. Errors: those of writing that down. */
weft_status keeper_resume(struct keeper *keeper, struct error *error);

/** What it has done since it began. */
struct keeper_counts {
    uint64_t works, steps;
    double step_seconds, longest_step; /**< all steps of the controller, passes of the scheduler among them */
    bool troubled;                     /**< nothing can be started or changed at the moment */
};
struct keeper_counts keeper_counts(const struct keeper *keeper);

/** Milliseconds since 1970. */
int64_t keeper_now(void);

/** Whether slots are GPUs, how many there are in all, on how many hosts, and whether those are a pretence; from any
 * thread. */
struct keeper_slots {
    enum slot_kind kind;
    int64_t slots, hosts;
    bool pretended;
};
struct keeper_slots keeper_slots(const struct keeper *keeper);

/** Where files are: FOLDER/runs/RUN, FOLDER/snapshots. From any thread. */
const struct controller_folders *keeper_folders(const struct keeper *keeper);

#endif
