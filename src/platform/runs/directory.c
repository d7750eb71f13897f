/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/directory.h"

#include "base/thread.h"
#include "platform/registry/owner.h"
#include "platform/registry/run_specification.h"
#include "platform/runs/checkpoints.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS 3 /* a large snapshot does not delay small ones */

enum job_state { JOB_WAITS, JOB_IS_MADE, JOB_IS_DONE };

struct runs_directory_job {
    struct runs_directory_job *next;
    int64_t run, parent;
    char project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES], snapshot[RUN_SNAPSHOT_BYTES],
        checkpoint[RUN_CHECKPOINT_BYTES];
    char account[REGISTRY_ACCOUNT_BYTES];
    enum job_state state;
    struct error failure; /* finished if status is WEFT_OK */
};

struct run_directories {
    char runs[FILE_PATH_BYTES], snapshots[FILE_PATH_BYTES];
    int descriptor;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t come;
    struct runs_directory_job *jobs; /* in the order of requests */
    bool closing;
    unsigned threads, idle;
    pthread_t thread[THREADS];
};

weft_status run_directory_path(const char *runs, int64_t run, const char *name, char path[FILE_PATH_BYTES],
                               struct error *error)
{
    char inner[RUN_CHECKPOINT_NAME_BYTES + 32];
    snprintf(inner, sizeof inner, "%" PRId64 "/%s", run, name);
    return file_join(path, runs, inner, error);
}

/* ---- making ---- */

/* The name of an incomplete directory; removes one left by a crash. */
static weft_status begin_partial(const char *path, char partial[FILE_PATH_BYTES], struct error *error)
{
    if (snprintf(partial, FILE_PATH_BYTES, "%s.partial", path) >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
    return file_remove_tree(partial, error);
}

static weft_status give_name(const char *partial, const char *path, weft_status status, struct error *error)
{
    if (status == WEFT_OK && rename(partial, path) != 0)
        status = error_system(error, "cannot rename '%s' to '%s'", partial, path);
    if (status != WEFT_OK)
        file_remove_tree(partial, NULL);
    return status;
}

static weft_status make_work(const struct run_directories *directories, const struct run_directory_order *order,
                             const char *work, struct error *error)
{
    char partial[FILE_PATH_BYTES], store[FILE_PATH_BYTES], from[FILE_PATH_BYTES];
    if (file_is_directory(work))
        return WEFT_OK;
    if (!*order->snapshot)
        return file_make_directory(work, error);
    weft_status status = begin_partial(work, partial, error);
    if (status == WEFT_OK)
        status = file_join(store, directories->snapshots, order->project, error);
    if (status != WEFT_OK)
        return status;
    if (!snapshot_store_find(from, store, order->owner, order->snapshot))
        memcpy(from, store, sizeof from); /* snapshot_check_out() reports what is missing */
    return give_name(partial, work, snapshot_check_out(from, order->snapshot, partial, error), error);
}

static weft_status make_checkpoints(const struct run_directories *directories, const struct run_directory_order *order,
                                    const char *checkpoints, struct error *error)
{
    char partial[FILE_PATH_BYTES], parent[FILE_PATH_BYTES];
    struct run_owner owner = {.user = geteuid()};
    if (file_is_directory(checkpoints))
        return WEFT_OK;
    if (!*order->checkpoint)
        return file_make_directory(checkpoints, error);
    if (order->parent <= 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "run %" PRId64 " is to begin from checkpoint '%.100s', but is no fork of a run that has it",
                         order->run, order->checkpoint);
    weft_status status = run_directory_path(directories->runs, order->parent, "checkpoints", parent, error);
    if (status == WEFT_OK && *order->account)
        status = run_owner_find(order->account, &owner, error);
    if (status == WEFT_OK)
        status = begin_partial(checkpoints, partial, error);
    if (status == WEFT_OK)
        status = file_make_directory(partial, error);
    if (status != WEFT_OK)
        return status;
    return give_name(partial, checkpoints, run_checkpoint_copy(parent, order->checkpoint, partial, owner.user, error),
                     error);
}

/* Make the directory of the run. `*given`: it belongs to an account and must not be modified. */
static weft_status make_own(const struct run_directory_order *order, const char *own, bool *given, struct error *error)
{
    weft_status status = WEFT_OK;
    *given = false;
    if (!file_is_directory(own))
        status = file_make_directory(own, error);
    else if (*order->account)
        status = run_owner_look(own, order->account, given, error);
    return status == WEFT_OK && !*given ? run_owner_close(own, error) : status;
}

static weft_status runs_directory_make(const struct run_directories *directories,
                                       const struct run_directory_order *order, struct error *error)
{
    char own[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    bool given;
    weft_status status = run_directory_path(directories->runs, order->run, "", own, error);
    if (status == WEFT_OK) {
        own[strlen(own) - 1] = '\0'; /* a final slash would follow a link */
        status = make_own(order, own, &given, error);
    }
    if (status != WEFT_OK || given)
        return status;
    status = run_directory_path(directories->runs, order->run, "checkpoints", path, error);
    if (status == WEFT_OK)
        status = make_checkpoints(directories, order, path, error);
    if (status == WEFT_OK)
        status = run_directory_path(directories->runs, order->run, "work", path, error);
    if (status == WEFT_OK)
        status = make_work(directories, order, path, error);
    return status == WEFT_OK && *order->account ? run_owner_give(own, order->account, error) : status;
}

/* ---- threads ---- */

static struct runs_directory_job *next_job(struct run_directories *directories)
{
    struct runs_directory_job *job = directories->jobs;
    while (job && job->state != JOB_WAITS)
        job = job->next;
    return job;
}

static void *runs_directory_work(void *argument)
{
    struct run_directories *directories = argument;
    struct runs_directory_job *job = NULL;
    pthread_mutex_lock(&directories->lock);
    for (;;) {
        while (!directories->closing && !(job = next_job(directories))) {
            directories->idle++;
            pthread_cond_wait(&directories->come, &directories->lock);
            directories->idle--;
        }
        if (directories->closing)
            break;
        job->state = JOB_IS_MADE;
        struct run_directory_order order = {job->run,        job->parent,  job->project, job->snapshot,
                                            job->checkpoint, job->account, job->owner};
        pthread_mutex_unlock(&directories->lock);
        runs_directory_make(directories, &order, &job->failure);
        pthread_mutex_lock(&directories->lock);
        job->state = JOB_IS_DONE;
        uint64_t one = 1;
        (void)!write(directories->descriptor, &one, sizeof one);
    }
    pthread_mutex_unlock(&directories->lock);
    return NULL;
}

/* Start another thread if none is idle and the limit allows it. */
static weft_status runs_directory_start_thread(struct run_directories *directories, struct error *error)
{
    unsigned waiting = 0;
    for (const struct runs_directory_job *job = directories->jobs; job; job = job->next)
        waiting += job->state == JOB_WAITS;
    if (directories->idle > waiting || directories->threads == THREADS)
        return WEFT_OK;
    int code = thread_start(&directories->thread[directories->threads], runs_directory_work, directories);
    if (code == 0)
        directories->threads++;
    else if (directories->threads == 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot start a thread that makes directories: %s", strerror(code));
    return WEFT_OK;
}

static weft_status add_job(struct run_directories *directories, const struct run_directory_order *order,
                           struct error *error)
{
    struct runs_directory_job *job = calloc(1, sizeof *job), **end = &directories->jobs;
    if (!job)
        return error_memory(error, sizeof *job, "the directories of a run");
    *job = (struct runs_directory_job){.run = order->run, .parent = order->parent};
    snprintf(job->project, sizeof job->project, "%s", order->project);
    snprintf(job->snapshot, sizeof job->snapshot, "%s", order->snapshot);
    snprintf(job->checkpoint, sizeof job->checkpoint, "%s", order->checkpoint);
    snprintf(job->account, sizeof job->account, "%s", order->account);
    snprintf(job->owner, sizeof job->owner, "%s", order->owner ? order->owner : "");
    weft_status status = runs_directory_start_thread(directories, error);
    if (status != WEFT_OK) {
        free(job);
        return status;
    }
    while (*end)
        end = &(*end)->next;
    *end = job;
    pthread_cond_signal(&directories->come);
    return WEFT_OK;
}

/* The result of a run's job. */
static weft_status runs_directory_ask(struct run_directories *directories, const struct run_directory_order *order,
                                      bool *made, struct error *error)
{
    struct runs_directory_job **at = &directories->jobs, *job;
    while (*at && (*at)->run != order->run)
        at = &(*at)->next;
    if (!(job = *at))
        return add_job(directories, order, error);
    if (job->state != JOB_IS_DONE)
        return WEFT_OK;
    weft_status status = job->failure.status;
    if (status != WEFT_OK)
        error_set(error, status, "%s", job->failure.text);
    *made = status == WEFT_OK;
    *at = job->next;
    free(job);
    return status;
}

weft_status run_directories_make(struct run_directories *directories, const struct run_directory_order *order,
                                 bool *made, char work_path[FILE_PATH_BYTES], char checkpoints[FILE_PATH_BYTES],
                                 struct error *error)
{
    *made = false;
    weft_status status = run_directory_path(directories->runs, order->run, "work", work_path, error);
    if (status == WEFT_OK)
        status = run_directory_path(directories->runs, order->run, "checkpoints", checkpoints, error);
    if (status != WEFT_OK)
        return status;
    bool little =
        (!*order->snapshot || file_is_directory(work_path)) && (!*order->checkpoint || file_is_directory(checkpoints));
    pthread_mutex_lock(&directories->lock);
    bool asked = false;
    for (struct runs_directory_job *job = directories->jobs; job; job = job->next)
        asked = asked || job->run == order->run;
    if (asked || !little)
        status = runs_directory_ask(directories, order, made, error);
    pthread_mutex_unlock(&directories->lock);
    if (asked || !little)
        return status;
    status = runs_directory_make(directories, order, error);
    *made = status == WEFT_OK;
    return status;
}

void run_directories_hear(struct run_directories *directories)
{
    uint64_t count;
    (void)!read(directories->descriptor, &count, sizeof count);
}

int run_directories_descriptor(const struct run_directories *directories)
{
    return directories->descriptor;
}

/* ---- opening and closing ---- */

weft_status run_directories_open(const char *runs, const char *snapshots, struct run_directories **directories,
                                 struct error *error)
{
    struct run_directories *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the directories of runs");
    if (snprintf(made->runs, sizeof made->runs, "%s", runs) >= (int)sizeof made->runs ||
        snprintf(made->snapshots, sizeof made->snapshots, "%s", snapshots ? snapshots : "") >=
            (int)sizeof made->snapshots) {
        free(made);
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", runs);
    }
    made->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->descriptor < 0) {
        free(made);
        return error_system(error, "cannot make an event for the directories of runs");
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->come, NULL);
    *directories = made;
    return WEFT_OK;
}

void run_directories_close(struct run_directories *directories)
{
    if (!directories)
        return;
    pthread_mutex_lock(&directories->lock);
    directories->closing = true;
    pthread_cond_broadcast(&directories->come);
    pthread_mutex_unlock(&directories->lock);
    for (unsigned i = 0; i < directories->threads; i++)
        pthread_join(directories->thread[i], NULL);
    for (struct runs_directory_job *job = directories->jobs, *next; job; job = next) {
        next = job->next;
        free(job);
    }
    close(directories->descriptor);
    pthread_cond_destroy(&directories->come);
    pthread_mutex_destroy(&directories->lock);
    free(directories);
}
