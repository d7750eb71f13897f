/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/retention.h"

#include "base/file/file.h"
#include "base/text.h"
#include "base/thread.h"
#include "platform/registry/run/runs.h"
#include "platform/runs/directory.h"
#include "platform/service/internal/complaint.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PERIOD_SECONDS 3600
#define RETRY_SECONDS  10                 /* after a failure */
#define KEYS_KEPT      INT64_C(604800000) /* a week, in milliseconds: of idempotency keys */
#define DECIDED_MOST   64 /* runs that the rules discard at once, so that requests are answered meanwhile */

struct retention {
    struct writer *writer;
    char directory[FILE_PATH_BYTES];
    int64_t keep; /* milliseconds */
    struct complaint trouble;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping, wanted; /* by `mutex` */
    bool joined;
};

/* Something for the writer's thread, which this one waits for. */
struct request {
    struct retention *retention;
    int64_t *runs;
    size_t count;
    weft_status status;
    struct error *error;
    bool done; /* by the mutex */
};

/* ---- on the writer's thread ---- */

/* Without a writer nothing was done, and nothing is to follow from it. */
static void retention_finish(struct request *request, const struct writer *writer)
{
    struct retention *retention = request->retention;
    pthread_mutex_lock(&retention->mutex);
    request->done = true;
    retention->stopping = retention->stopping || !writer;
    pthread_cond_broadcast(&retention->changed);
    pthread_mutex_unlock(&retention->mutex);
}

/* By the rules: runs[] are to go. */
static void retention_decide(struct writer *writer, void *context)
{
    struct request *request = context;
    struct database *registry = writer ? writer_registry(writer) : NULL;
    char shown[32], detail[128];
    snprintf(detail, sizeof detail,
             "%s after its end, what it left was thrown away: its directory, checkpoints and output",
             text_duration(request->retention->keep / 1000, shown, sizeof shown));
    for (size_t i = 0; registry && i < request->count && request->status == WEFT_OK; i++) {
        request->status = database_begin(registry, DATABASE_DURABLE, request->error);
        if (request->status == WEFT_OK)
            request->status = database_end(
                registry, registry_run_discard(registry, request->runs[i], "", detail, writer_now(), request->error),
                request->error);
    }
    retention_finish(request, writer);
}

/* Nobody asks again for what was answered so long ago. */
static void forget_keys(struct writer *writer, void *context)
{
    struct request *request = context;
    struct database *registry = writer ? writer_registry(writer) : NULL;
    if (registry)
        request->status = database_begin(registry, DATABASE_LAZY, request->error);
    if (registry && request->status == WEFT_OK)
        request->status = database_end(
            registry, registry_keys_forget(registry, writer_now() - KEYS_KEPT, request->error), request->error);
    retention_finish(request, writer);
}

/* What was decided before is on disk: that was another group. */
static void retention_settle(struct writer *writer, void *context)
{
    retention_finish(context, writer);
}

/* The engine keeps nothing any more of the attempts of runs[0]. */
static void retention_forget(struct writer *writer, void *context)
{
    struct request *request = context;
    struct engine *engine = writer ? writer_engine(writer) : NULL;
    struct registry_attempt *attempts = NULL;
    size_t count = 0;
    if (engine)
        request->status =
            registry_attempts(writer_registry(writer), request->runs[0], &attempts, &count, request->error);
    for (size_t i = 0; i < count && request->status == WEFT_OK; i++) {
        struct attempt attempt = {.epoch = (uint64_t)attempts[i].epoch};
        snprintf(attempt.run, sizeof attempt.run, "%" PRId64, request->runs[0]);
        request->status = engine->forget(engine, &attempt, request->error);
    }
    free(attempts);
    retention_finish(request, writer);
}

/* ---- the thread ---- */

static bool retention_is_stopping(struct retention *retention)
{
    pthread_mutex_lock(&retention->mutex);
    const bool stopping = retention->stopping;
    pthread_mutex_unlock(&retention->mutex);
    return stopping;
}

/* Have the writer do it, and wait. One that is stopping does nothing, which is no error: retention_is_stopping() tells. */
static weft_status retention_ask(struct retention *retention, writer_task *task, int64_t *runs, size_t count,
                                 struct error *error)
{
    struct request request = {retention, runs, count, WEFT_OK, error, false};
    if (!writer_post(retention->writer, task, &request)) {
        retention_finish(&request, NULL);
        return WEFT_OK;
    }
    pthread_mutex_lock(&retention->mutex);
    while (!request.done)
        pthread_cond_wait(&retention->changed, &retention->mutex);
    pthread_mutex_unlock(&retention->mutex);
    return request.status;
}

static weft_status decide_by_rules(struct retention *retention, struct database *registry, struct error *error)
{
    size_t count = DECIDED_MOST;
    weft_status status = WEFT_OK;
    while (retention->keep && count == DECIDED_MOST && status == WEFT_OK && !retention_is_stopping(retention)) {
        int64_t *runs = NULL;
        count = 0;
        status = registry_runs_to_discard(registry, writer_now() - retention->keep, DECIDED_MOST, &runs, &count, error);
        if (status == WEFT_OK && count)
            status = retention_ask(retention, retention_decide, runs, count, error);
        free(runs);
    }
    return status == WEFT_OK ? retention_ask(retention, retention_settle, NULL, 0, error) : status;
}

/* What the program has written. Then there is room on a full disk for what forgetting the journals takes. */
static weft_status retention_remove_files(struct retention *retention, int64_t run, struct error *error)
{
    static const char *const names[] = {"work", "checkpoints"};
    char path[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == WEFT_OK; i++) {
        status = run_directory_path(writer_directories(retention->writer)->runs, run, names[i], path, error);
        if (status == WEFT_OK)
            status = file_remove_tree(path, error);
    }
    return status;
}

/* The journals before the run's directory: as long as that is there, the run is looked at again. */
static weft_status remove_run(struct retention *retention, int64_t run, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = retention_remove_files(retention, run, error);
    if (status == WEFT_OK)
        status = retention_ask(retention, retention_forget, &run, 1, error);
    if (status != WEFT_OK || retention_is_stopping(retention))
        return status;
    status = run_directory_path(writer_directories(retention->writer)->runs, run, "", path, error);
    return status == WEFT_OK ? file_remove_tree(path, error) : status;
}

/* What was decided, and has a directory yet. What cannot be removed keeps no other from it. */
static weft_status remove_discarded(struct retention *retention, struct database *registry, struct error *error)
{
    DIR *listing = opendir(writer_directories(retention->writer)->runs);
    weft_status result = WEFT_OK;
    for (struct dirent *entry; listing && !retention_is_stopping(retention) && (entry = readdir(listing));) {
        struct registry_run run;
        struct error failure = {0};
        char *end;
        const int64_t number = strtoll(entry->d_name, &end, 10);
        if (number < 1 || *end || registry_run_get(registry, number, &run, NULL) != WEFT_OK || !run.discarded)
            continue;
        weft_status status = remove_run(retention, number, &failure);
        if (status != WEFT_OK) {
            result = status;
            *error = failure;
        }
    }
    if (listing)
        closedir(listing);
    return result;
}

/* False: something is left to be done. */
static bool disk_retention_look(struct retention *retention)
{
    struct database *registry = NULL;
    struct error error = {0};
    weft_status status = registry_open(retention->directory, DATABASE_READER, &registry, &error);
    if (status == WEFT_OK)
        status = decide_by_rules(retention, registry, &error);
    if (status == WEFT_OK)
        status = remove_discarded(retention, registry, &error);
    if (status == WEFT_OK)
        status = retention_ask(retention, forget_keys, NULL, 0, &error);
    database_close(registry);
    if (status != WEFT_OK)
        complain(&retention->trouble, "what discarded runs have left cannot be removed at the moment", &error);
    else
        complain_no_more(&retention->trouble, "what discarded runs have left is removed again");
    return status == WEFT_OK;
}

static void *retention_watch(void *context)
{
    struct retention *retention = context;
    while (!retention_is_stopping(retention)) {
        const uint64_t until = clock_after(disk_retention_look(retention) ? PERIOD_SECONDS : RETRY_SECONDS);
        pthread_mutex_lock(&retention->mutex);
        while (!retention->stopping && !retention->wanted &&
               thread_wait_until(&retention->changed, &retention->mutex, until))
            continue;
        retention->wanted = false;
        pthread_mutex_unlock(&retention->mutex);
    }
    return NULL;
}

weft_status retention_start(struct writer *writer, const char *directory, int64_t keep, struct retention **retention,
                            struct error *error)
{
    struct retention *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "what is thrown away");
    made->writer = writer;
    made->keep = keep * 1000;
    snprintf(made->directory, sizeof made->directory, "%s", directory);
    thread_condition_init(&made->mutex, &made->changed);
    const int failure = thread_start(&made->thread, retention_watch, made);
    if (failure) {
        pthread_cond_destroy(&made->changed);
        pthread_mutex_destroy(&made->mutex);
        free(made);
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that throws away what runs have left");
    }
    *retention = made;
    return WEFT_OK;
}

void retention_stop(struct retention *retention)
{
    if (!retention || retention->joined)
        return;
    pthread_mutex_lock(&retention->mutex);
    retention->stopping = true;
    pthread_cond_broadcast(&retention->changed);
    pthread_mutex_unlock(&retention->mutex);
    pthread_join(retention->thread, NULL);
    retention->joined = true;
}

void retention_close(struct retention *retention)
{
    if (!retention)
        return;
    retention_stop(retention);
    pthread_cond_destroy(&retention->changed);
    pthread_mutex_destroy(&retention->mutex);
    free(retention);
}

void retention_look(struct retention *retention)
{
    pthread_mutex_lock(&retention->mutex);
    retention->wanted = true;
    pthread_cond_broadcast(&retention->changed);
    pthread_mutex_unlock(&retention->mutex);
}
