/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The writer: the one thread that changes anything. It owns the registry (to write), the controller, the engine and the
 * metrics, reads the engine's records, runs the controller's steps, and executes requests.
 *
 *     HTTP thread ──writer_do()──► queue ──► works, as one group commit ──► answers ──► HTTP thread
 *                                            controller_step()          ──► events   ──► subscribers
 *
 * An answer is sent when its changes are on disk. Requests that wait together share one sync of the disk. Steps sync
 * their decisions, and starts and ends; those that only read heartbeats and output do not
 * (platform/controller/controller.h).
 *
 * Slow work is done on other threads, or in pieces: logs of databases are written back by threads of their own
 * (platform/store/database.h), directories of runs are made by others (platform/runs/directory.h) and removed by
 * another (retention.h), and a step of the controller does no more than some 20 ms of what there is to do.
 *
 * When the registry cannot be written (a full disk), what is under way goes on: the writer gives up its controller,
 * answers requests that need it with the message, and opens another one a second later.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_WRITER_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_WRITER_H

#include "platform/controller/controller.h"
#include "platform/http/events_stream.h"
#include "platform/http/route/route.h"
#include "platform/metrics/store/store.h"
#include "platform/registry/run_specification.h"
#include "platform/service/internal/disk.h"
#include "platform/service/internal/exits.h"
#include "platform/service/internal/policy.h"

#define SERVICE_SECRETS "secrets" /**< the directory of secret_store.h, in that of the state */

struct writer;
struct collector;

struct writer_config {
    const char *directory;               /**< absolute, of all that is kept; it exists */
    const char *shared;                  /**< absolute: runs/ in it has the directories of runs; it exists */
    struct database *registry;           /**< to write; becomes the writer's, as the engine does */
    struct engine *engine;               /**< becomes the writer's */
    const char *pod;                     /**< of its hosts */
    bool pretended;                      /**< its hosts are a pretence: slots are whatever a run asks for */
    const char *own_user;                /**< controller.h; outlives the writer */
    struct events_stream *events;        /**< changes of runs are published to it; outlives the writer */
    struct exits *exits;                 /**< says whether scheduling is paused; outlives the writer */
    const struct service_policy *policy; /**< the policy; outlives the writer */
    struct disk_space *space;            /**< outlives the writer */
};

/** Open the metrics in the directory, settle what is left of other platforms (leftovers_settle()), and take up what runs. Errors:
 * those of all of them. */
weft_status writer_open(const struct writer_config *config, struct writer **writer, struct error *error);

/** Start its thread. Answers go out through `server`. */
weft_status writer_start(struct writer *writer, struct http_server *server, struct error *error);

/** End the thread; requests that wait are answered with an error. What runs goes on. Before http_stop(). */
void writer_stop(struct writer *writer);

/** NULL is allowed. */
void writer_close(struct writer *writer);

/**
 * Have the writer do `work` for a call, on its own thread and in transactions of the work's own, and answer it with
 * what the work writes. With `done`, the work writes nothing and `done` answers. On the HTTP server's thread.
 */
void writer_do(struct writer *writer, struct route_call *call, route_work *work, route_done *done);

/** What is done on the writer's thread for somebody who answers by himself, such as a stream. `writer` is NULL where
 * the server is stopping: only what is held may be let go of then. */
typedef void writer_task(struct writer *writer, void *context);

/** Have the writer do `task` soon. From any thread. False: it never will, as memory ran out or it is stopping. */
bool writer_post(struct writer *writer, writer_task *task, void *context);

/* ---- for works ---- */

struct database *writer_registry(struct writer *writer);
struct controller *writer_controller(struct writer *writer);
struct engine *writer_engine(struct writer *writer);
struct collector *writer_collector(struct writer *writer);
struct metric_store *writer_metrics(struct writer *writer); /**< the collector's */

/** The disk's state. disk_watch_check() and the calls of its members are for any thread. */
const struct disk_watch *writer_disk(const struct writer *writer);

/** The largest disk quota that a run may ask for, in bytes; 0: no limit. */
int64_t writer_disk_limit(const struct writer *writer);

/** Members, budget or state of a project are changed by this work: who looks at it hears of it when that is committed.
 */
void writer_project_changed(struct writer *writer, const char *project);

/** A work has changed the registry, and could not tell the controller of it: once the change is on disk, that one is
 * given up for another one, which begins from the registry. */
void writer_doubt(struct writer *writer, const struct error *error);

/** Resume scheduling that was paused after unclean exits. Errors: those of writing that down. */
weft_status writer_resume(struct writer *writer, struct error *error);

/** What it has done since it began. */
struct writer_counts {
    uint64_t works, steps;
    double step_seconds, longest_step; /**< all steps of the controller, passes of the scheduler among them */
    bool troubled;                     /**< nothing can be started or changed at the moment */
};
struct writer_counts writer_counts(const struct writer *writer);

/** Milliseconds since 1970. */
int64_t writer_now(void);

/** Whether slots are GPUs, how many there are in all, on how many hosts, and whether those are a pretence; from any
 * thread. */
struct writer_slots {
    enum slot_kind kind;
    int64_t slots, hosts;
    bool pretended;
};
struct writer_slots writer_slots(const struct writer *writer);

/** Where files are: DIRECTORY/runs/RUN, DIRECTORY/snapshots. From any thread. */
const struct controller_directories *writer_directories(const struct writer *writer);

#endif
