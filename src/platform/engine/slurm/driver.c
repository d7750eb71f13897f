/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/driver.h"

#include "base/clock.h"
#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/host_use.h"
#include "platform/engine/slurm/internal/own_jobs.h"
#include "platform/engine/slurm/internal/submission.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_SECONDS     2.0   /* between two looks at the queue while something is to happen there, */
#define REST_SECONDS     10.0  /* and while nothing is */
#define NODES_SECONDS    10.0  /* between two looks at the nodes */
#define FORGOT_SECONDS   10.0  /* an acknowledged job that is not in the queue after this was forgotten by slurmctld */
#define PENDING_SECONDS  300.0 /* a job that waits longer for its nodes is given up: others were faster */
#define INFINITE_SECONDS 1e9
#define GONE_SECONDS     20.0  /* likewise, where its nodes are not there */
#define BEGIN_SECONDS    660.0 /* for the processes of a job that runs, which try for ten minutes to reach the server */
#define LINGER_SECONDS   20.0  /* for a job whose nodes have all ended */
#define RETRY_SECONDS    10.0  /* until a submission that was refused for now is tried again */
#define SUBMITS_MOST     3     /* of an attempt, while slurmctld forgets them */

/* An attempt that has a job, or is to have one. */
struct driven {
    struct attempt attempt;
    char comment[DRIVER_COMMENT_BYTES];
    char user[OWN_JOB_USER_BYTES]; /* as squeue names it; "": not known */
    struct slurm_submission submission;
    char *nodes;  /* of its job, if that holds a Pod; NULL: not known */
    char *texts;  /* what its pointers point into; NULL: it is not known, and is not submitted again */
    uint64_t job; /* 0: not known */
    bool submit, cancel;
    bool seen;   /* at the last look, and not ended */
    bool runs;   /* likewise, as RUNNING */
    bool looked; /* since the last submission that had no answer, or the start of the server */
    uint32_t submits;
    uint64_t submitted_at, runs_since, ended_at, retry_at; /* 0: not */
    struct driver_state state;                             /* as it was found last */
    char why[512];                                         /* it is given up; "": it is not */
    enum remote_end how;
    struct driven *next;
};

struct driver {
    struct driver_config config;
    char platform[64], user[OWN_JOB_USER_BYTES];
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t woken;
    bool stopping, pressed; /* there is something to do now */
    bool look_soon;         /* in the queue */
    struct driven *attempts;
    struct driver_host *hosts; /* as they were seen last */
    uint32_t host_count;
    bool silent; /* Slurm does not answer */
    /* The thread's own. */
    struct host_use use;
    uint64_t look_at, nodes_at;
    char refusal[ERROR_TEXT_BYTES]; /* the last one that was printed, to cancel jobs */
};

static struct driven *driver_find(struct driver *driver, const struct attempt *attempt)
{
    struct driven *each = driver->attempts;
    while (each && !attempt_same(&each->attempt, attempt))
        each = each->next;
    return each;
}

static void driven_free(struct driver *driver, struct driven *driven)
{
    struct driven **at = &driver->attempts;
    while (*at != driven)
        at = &(*at)->next;
    *at = driven->next;
    free(driven->nodes);
    free(driven->texts);
    free(driven);
}

static uint64_t seconds_from(uint64_t moment, double seconds)
{
    return moment + (uint64_t)(seconds * 1e9);
}

/* ---- the queue ---- */

struct queue_look {
    struct driver *driver;
    struct own_jobs jobs;
    uint64_t *doomed; /* jobs to be canceled */
    size_t count, room;
};

static void doom(struct queue_look *look, uint64_t job)
{
    if (ARRAY_RESERVE(look->doomed, look->room, look->count + 1, "jobs", NULL) == WEFT_OK)
        look->doomed[look->count++] = job;
}

static void give_up_for(struct driven *driven, enum remote_end how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* It is not to be submitted any more, and its nodes that have not begun are over. The first reason stays. */
static void give_up_for(struct driven *driven, enum remote_end how, const char *format, ...)
{
    va_list arguments;
    driven->submit = false;
    if (*driven->why)
        return;
    driven->how = how;
    va_start(arguments, format);
    vsnprintf(driven->why, sizeof driven->why, format, arguments);
    va_end(arguments);
}

static void queue_look_free(struct queue_look *look)
{
    own_jobs_free(&look->jobs);
    free(look->doomed);
}

/* Whether it is a host's fault that a job has ended before its nodes had begun. */
static bool blames_host(const char *state)
{
    static const char *const states[] = {"NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "FAILED", NULL};
    for (const char *const *each = states; *each; each++)
        if (strcmp(state, *each) == 0)
            return true;
    return false;
}

/* How long a job may wait: less for nodes that have gone since it was placed than for those that others use. */
static double pending_limit(const struct own_job *job)
{
    const bool gone = strstr(job->reason, "NotAvail") || strstr(job->reason, "Down") || strstr(job->reason, "DOWN");
    return gone ? GONE_SECONDS : own_jobs_hold_pod(&job->attempt) ? INFINITE_SECONDS : PENDING_SECONDS;
}

static void deal_with(struct queue_look *look, struct own_job *job)
{
    struct driven *driven = driver_find(look->driver, &job->attempt);
    const bool live = job->state != SLURM_JOB_COMPLETING && job->state != SLURM_JOB_ENDED;
    const bool same = driven && strcmp(driven->comment, job->comment) == 0 &&
                      (!*driven->user || strcmp(driven->user, job->user) == 0);
    if (driven && !same)
        return; /* a stranger's, with a comment that looks like ours */
    const bool runs = driven && job->state == SLURM_JOB_RUNNING && !driven->runs;
    if (!driven || (driven->job && driven->job != job->id && !runs)) {
        if (live)
            doom(look, job->id); /* of an attempt that is over, or one that slurmctld seemed to have forgotten */
        return;
    }
    driven->job = job->id;
    driven->runs = driven->runs || runs;
    free(driven->nodes);
    driven->nodes = job->nodes;
    job->nodes = NULL;
    if (runs && !driven->runs_since)
        driven->runs_since = clock_now();
    driven->submit = false;
    driven->seen = job->state != SLURM_JOB_ENDED;
    driven->submitted_at = driven->submitted_at ? driven->submitted_at : clock_now(); /* of the time before a restart */
    if (job->state == SLURM_JOB_ENDED)
        give_up_for(driven, blames_host(job->state_word) ? REMOTE_END_BY_HOST : REMOTE_END_AGAIN,
                    "Slurm's job %" PRIu64 " ended before its nodes had begun: %s%s%s", job->id, job->state_word,
                    *job->reason ? ", " : "", job->reason);
    else if (job->state == SLURM_JOB_PENDING && driven->submitted_at &&
             clock_now() > seconds_from(driven->submitted_at, pending_limit(job)))
        give_up_for(driven, REMOTE_END_AGAIN, "Slurm's job %" PRIu64 " has waited for its nodes for too long: %s",
                    job->id, job->reason);
    else if (runs && driven->state.known && !driven->state.all_begun &&
             clock_now() > seconds_from(driven->runs_since, BEGIN_SECONDS))
        give_up_for(driven, REMOTE_END_BY_HOST, "Slurm's job %" PRIu64 " runs, and its nodes have not all begun",
                    job->id);
    else if (job->held)
        give_up_for(driven, REMOTE_END_AGAIN, "Slurm holds job %" PRIu64 ": %s", job->id, job->reason);
    driven->cancel = driven->cancel || (*driven->why && driven->seen && !driven->state.any_begun);
}

/* Ask what has become of the attempts. Only this thread removes them, so the lock need not be held. */
static void ask_states(struct driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    struct driven *driven = driver->attempts; /* new ones are put before it */
    pthread_mutex_unlock(&driver->lock);
    for (; driven; driven = driven->next) {
        const struct driver_state before = driven->state;
        if (before.ended) /* that is for good */
            continue;
        struct driver_state state = driver->config.calls.state(driver->config.calls.context, &driven->attempt);
        if (*driven->why && state.known && !state.ended)
            driver->config.calls.give_up(driver->config.calls.context, &driven->attempt, driven->how, driven->why);
        pthread_mutex_lock(&driver->lock);
        if (state.known)
            driven->state = state;
        if (driven->state.ended && !driven->ended_at)
            driven->ended_at = clock_now();
        pthread_mutex_unlock(&driver->lock);
    }
}

/* Attempts after a look at the queue: those without a job, those that need none, those to be submitted again. */
static void settle_attempts(struct driver *driver, struct queue_look *look)
{
    const uint64_t now = clock_now();
    for (struct driven *driven = driver->attempts, *next; driven; driven = next) {
        const struct driver_state *state = &driven->state;
        next = driven->next;
        driven->looked = true;
        if (driven->seen && (driven->cancel || (state->ended && now > seconds_from(driven->ended_at, LINGER_SECONDS))))
            doom(look, driven->job);
        if (driven->seen)
            continue;
        if (state->ended) {
            driven_free(driver, driven);
        } else if (driven->submit &&
                   state->any_begun) { /* of a job that was forgotten: a second one would not be whole */
            give_up_for(driven, REMOTE_END_AGAIN, "Slurm does not know its job any more");
        } else if (driven->job && !*driven->why && now > seconds_from(driven->submitted_at, FORGOT_SECONDS)) {
            /* Processes of a forgotten job may run on; those that have begun are known, and end by themselves. */
            if (state->all_begun || !state->known)
                continue;
            if (state->any_begun || driven->submits >= SUBMITS_MOST || !driven->texts)
                give_up_for(driven, REMOTE_END_AGAIN, "Slurm does not know job %" PRIu64 " any more", driven->job);
            else
                driven->submit = true;
            driven->job = 0;
        }
    }
}

/* Without the lock. */
static weft_status look_at_queue(struct driver *driver, struct queue_look *look, struct error *error)
{
    const uint64_t began = clock_now();
    host_use_clear(&driver->use);
    weft_status status = own_jobs_look(driver->config.commands, driver->platform, &driver->use, &look->jobs, error);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&driver->lock);
    for (struct driven *each = driver->attempts; each; each = each->next) {
        each->seen = each->submitted_at > began; /* since then it was submitted: not to be missed */
        each->runs = false;
    }
    for (int others = 0; others < 2; others++) /* of two jobs of an attempt, the one that runs is its own */
        for (size_t i = 0; i < look->jobs.count; i++)
            if ((look->jobs.list[i].state == SLURM_JOB_RUNNING) == !others)
                deal_with(look, &look->jobs.list[i]);
    settle_attempts(driver, look);
    pthread_mutex_unlock(&driver->lock);
    return WEFT_OK;
}

/* ---- what is to be done ---- */

/* Submit those that wait for it and are not in the queue. The lock is not held while sbatch runs; only this thread
 * removes attempts. An outage ends it; what is refused to one user may not be to others. */
static weft_status submit_waiting(struct driver *driver, struct error *error)
{
    weft_status status = WEFT_OK;
    int outages = 0;
    pthread_mutex_lock(&driver->lock);
    for (struct driven *driven = driver->attempts; driven && outages < 2 && !driver->stopping; driven = driven->next) {
        uint64_t job = 0;
        struct error refusal = {0};
        if (!driven->submit || !driven->looked || driven->cancel || clock_now() < driven->retry_at)
            continue;
        pthread_mutex_unlock(&driver->lock);
        const weft_status submitted = slurm_submit(driver->config.commands, &driven->submission, &job, &refusal);
        pthread_mutex_lock(&driver->lock);
        if (submitted == WEFT_OK) {
            driven->job = job;
            driven->submit = false;
            driven->seen = true;
            driven->submits++;
            driven->submitted_at = clock_now();
        } else if (submitted == WEFT_ERROR_ARGUMENT || submitted == WEFT_ERROR_DATA) {
            give_up_for(driven, REMOTE_END_FAILED, "%s", refusal.text);
        } else {
            outages++;
            driven->looked = false; /* sbatch may have done it nevertheless */
            driven->retry_at = seconds_from(clock_now(), RETRY_SECONDS);
            status = error_set(error, submitted, "%s", refusal.text);
        }
    }
    pthread_mutex_unlock(&driver->lock);
    return status;
}

static weft_status look_at_nodes(struct driver *driver, struct error *error)
{
    weft_status status = host_use_look(driver->config.commands, &driver->use, error);
    pthread_mutex_lock(&driver->lock);
    if (status == WEFT_OK)
        memcpy(driver->hosts, driver->use.hosts, driver->host_count * sizeof *driver->hosts);
    pthread_mutex_unlock(&driver->lock);
    return status;
}

/* Whether the queue is to be looked at soon, or at once: an attempt whose submission had no answer may be there. */
static bool something_to_do(struct driver *driver, bool *at_once)
{
    bool something = false;
    const uint64_t now = clock_now();
    *at_once = false;
    pthread_mutex_lock(&driver->lock);
    for (const struct driven *each = driver->attempts; each; each = each->next) {
        something = something || each->submit || each->cancel || !each->seen || each->ended_at || *each->why;
        *at_once = *at_once || (each->submit && !each->looked && now >= each->retry_at);
    }
    *at_once = *at_once || driver->look_soon;
    driver->look_soon = false;
    pthread_mutex_unlock(&driver->lock);
    return something;
}

static void tell_silence(struct driver *driver, weft_status status, const struct error *error)
{
    pthread_mutex_lock(&driver->lock);
    if (status != WEFT_OK && !driver->silent)
        fprintf(stderr, "weft: attempts go on, and those that are to start wait: %s\n", error->text);
    else if (status == WEFT_OK && driver->silent)
        fprintf(stderr, "weft: Slurm answers again\n");
    driver->silent = status != WEFT_OK;
    pthread_mutex_unlock(&driver->lock);
}

/* What Slurm refuses is tried again at the next look, and said once. */
static void cancel_doomed(struct driver *driver, const struct queue_look *look)
{
    struct error error = {0};
    const weft_status status = slurm_cancel(driver->config.commands, look->doomed, look->count, &error);
    if (status == WEFT_ERROR_ARGUMENT && strcmp(driver->refusal, error.text) != 0) {
        fprintf(stderr, "weft: %s\n", error.text);
        snprintf(driver->refusal, sizeof driver->refusal, "%s", error.text);
    }
}

/* One turn; without the lock, but where attempts are looked at. */
static void driver_turn(struct driver *driver)
{
    struct queue_look look = {.driver = driver};
    struct error error = {0};
    weft_status status = WEFT_OK;
    const uint64_t now = clock_now();
    bool at_once, again;
    something_to_do(driver, &at_once);
    if (now >= driver->look_at || at_once || driver->nodes_at <= now) {
        ask_states(driver);
        status = look_at_queue(driver, &look, &error);
        driver->look_at = seconds_from(clock_now(), something_to_do(driver, &again) ? LOOK_SECONDS : REST_SECONDS);
    }
    if (look.count) /* at once, as numbers are given again after a crash of slurmctld */
        cancel_doomed(driver, &look);
    if (status == WEFT_OK)
        status = submit_waiting(driver, &error);
    if (status == WEFT_OK && now >= driver->nodes_at) {
        status = look_at_nodes(driver, &error);
        driver->nodes_at = seconds_from(clock_now(), NODES_SECONDS);
    }
    queue_look_free(&look);
    tell_silence(driver, status, &error);
}

static void *driver_run(void *context)
{
    struct driver *driver = context;
    pthread_mutex_lock(&driver->lock);
    while (!driver->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        if (!driver->pressed)
            pthread_cond_timedwait(&driver->woken, &driver->lock, &until);
        driver->pressed = false;
        if (driver->stopping)
            break;
        pthread_mutex_unlock(&driver->lock);
        driver_turn(driver);
        pthread_mutex_lock(&driver->lock);
    }
    pthread_mutex_unlock(&driver->lock);
    return NULL;
}

/* ---- what is asked for ---- */

static void driver_press(struct driver *driver)
{
    driver->pressed = true;
    pthread_cond_signal(&driver->woken);
}

weft_status driver_submit(struct driver *driver, const struct attempt *attempt, const char *mark,
                          const struct slurm_submission *submission, enum driver_begin begin, struct error *error)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&driver->lock);
    struct driven *driven = driver_find(driver, attempt);
    if (!driven && (driven = calloc(1, sizeof *driven))) {
        *driven = (struct driven){
            .attempt = *attempt, .submit = submission && begin != DRIVER_HAS_BEGUN, .looked = begin == DRIVER_NEW};
        snprintf(driven->comment, sizeof driven->comment, OWN_JOB_COMMENT, driver->platform, attempt->run,
                 attempt->epoch, mark);
        if (submission) /* squeue prints names, and no numbers, of users */
            snprintf(driven->user, sizeof driven->user, "%s",
                     !submission->user                                          ? driver->user
                     : submission->user[strspn(submission->user, "0123456789")] ? submission->user
                                                                                : "");
        if (submission)
            status = submission_copy(submission, &driven->submission, &driven->texts, error);
        driven->submission.comment = driven->comment;
        if (status == WEFT_OK) {
            driven->next = driver->attempts;
            driver->attempts = driven;
        } else {
            free(driven);
        }
    } else if (!driven) {
        status = error_memory(error, sizeof *driven, "a job");
    }
    driver_press(driver);
    pthread_mutex_unlock(&driver->lock);
    return status;
}

void driver_cancel(struct driver *driver, const struct attempt *attempt)
{
    pthread_mutex_lock(&driver->lock);
    struct driven *driven = driver_find(driver, attempt);
    if (driven) {
        driven->cancel = true;
        driven->submit = false;
        driver->look_soon = true;
        driver_press(driver);
    }
    pthread_mutex_unlock(&driver->lock);
}

weft_status driver_nodes(struct driver *driver, const struct attempt *attempt, struct string_list *nodes,
                         struct error *error)
{
    struct error unread = {0};
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&driver->lock);
    const struct driven *driven = driver_find(driver, attempt);
    if (driven && driven->nodes)
        status = slurm_host_list(driven->nodes, nodes, &unread);
    pthread_mutex_unlock(&driver->lock);
    return status == WEFT_ERROR_MEMORY ? error_set(error, status, "%s", unread.text) : WEFT_OK;
}

struct driver_host *driver_hosts(struct driver *driver, uint32_t *count)
{
    pthread_mutex_lock(&driver->lock);
    const size_t size = driver->host_count * sizeof *driver->hosts;
    struct driver_host *copy = malloc(size);
    if (copy)
        memcpy(copy, driver->hosts, size);
    *count = driver->host_count;
    pthread_mutex_unlock(&driver->lock);
    return copy;
}

/* ---- opening and closing ---- */

void driver_close(struct driver *driver)
{
    if (!driver)
        return;
    if (driver->started) {
        pthread_mutex_lock(&driver->lock);
        driver->stopping = true;
        driver_press(driver);
        pthread_mutex_unlock(&driver->lock);
        pthread_join(driver->thread, NULL);
    }
    while (driver->attempts)
        driven_free(driver, driver->attempts);
    free(driver->hosts);
    host_use_close(&driver->use);
    slurm_commands_close(driver->config.commands);
    pthread_cond_destroy(&driver->woken);
    pthread_mutex_destroy(&driver->lock);
    free(driver);
}

weft_status driver_open(const struct driver_config *config, struct driver **driver, struct error *error)
{
    pthread_condattr_t monotonic;
    struct driver *made = calloc(1, sizeof *made);
    if (!made) {
        slurm_commands_close(config->commands);
        return error_memory(error, sizeof *made, "Slurm's driver");
    }
    made->config = *config;
    snprintf(made->platform, sizeof made->platform, "%s", config->platform);
    snprintf(made->user, sizeof made->user, "%s", config->user ? config->user : "");
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    weft_status status = host_use_open(config->commands, config->hosts, &made->use, error);
    const size_t size = made->use.count * sizeof *made->hosts;
    if (status == WEFT_OK && !(made->hosts = malloc(size)))
        status = error_memory(error, size, "the nodes of a cluster");
    if (status != WEFT_OK) {
        driver_close(made);
        return status;
    }
    memcpy(made->hosts, made->use.hosts, size);
    made->host_count = made->use.count;
    *driver = made;
    return WEFT_OK;
}

weft_status driver_start(struct driver *driver, struct error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failed = pthread_create(&driver->thread, NULL, driver_run, driver);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    driver->started = failed == 0;
    errno = failed;
    return failed ? error_system(error, "cannot start the thread that runs Slurm's commands") : WEFT_OK;
}
