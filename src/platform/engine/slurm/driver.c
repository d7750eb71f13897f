/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/internal/driver.h"

#include "base/clock.h"
#include "base/text.h"
#include "platform/engine/slurm/internal/host_use.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_SECONDS    2.0   /* between two looks at the queue while something is to happen there, */
#define REST_SECONDS    10.0  /* and while nothing is */
#define NODES_SECONDS   10.0  /* between two looks at the nodes */
#define FORGOT_SECONDS  10.0  /* an acknowledged job that is not in the queue after this was forgotten by slurmctld */
#define PENDING_SECONDS 300.0 /* a job that waits longer for its nodes is given up: others were faster */
#define LINGER_SECONDS  20.0  /* for a job whose nodes have all ended */
#define SUBMITS_MOST    3     /* of an attempt, while slurmctld forgets them */
#define COMMENT         "weft:%s:%s:%" PRIu64 ":%s" /* platform, run, epoch, mark */

/* An attempt that has a job, or is to have one. */
struct driven {
    struct attempt attempt;
    char comment[DRIVER_COMMENT_BYTES];
    struct slurm_submission submission;
    char *texts;  /* what its pointers point into */
    uint64_t job; /* 0: not known */
    bool submit, cancel;
    bool seen;   /* at this look */
    bool looked; /* the queue was looked at since it is known */
    uint32_t submits;
    uint64_t submitted_at, ended_at; /* 0: not */
    struct driven *next;
};

struct driver {
    struct driver_config config;
    char platform[64];
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t woken;
    bool stopping, pressed; /* there is something to do now */
    bool look_soon;         /* in the queue */
    struct driven *attempts;
    struct driver_host *hosts; /* as they were seen last */
    uint32_t host_count;
    char trouble[ERROR_TEXT_BYTES];
    /* The thread's own. */
    struct host_use use;
    uint64_t look_at, nodes_at;
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
    free(driven->texts);
    free(driven);
}

static uint64_t seconds_from(uint64_t moment, double seconds)
{
    return moment + (uint64_t)(seconds * 1e9);
}

/* ---- the queue ---- */

/* The attempt that a comment names, if it is one of this platform's. */
static bool read_comment(const struct driver *driver, const char *comment, struct attempt *attempt)
{
    char copy[DRIVER_COMMENT_BYTES], *rest = copy;
    int64_t epoch;
    if (snprintf(copy, sizeof copy, "%s", comment) >= (int)sizeof copy)
        return false;
    const char *weft = strsep(&rest, ":"), *platform = strsep(&rest, ":"), *run = strsep(&rest, ":"),
               *number = strsep(&rest, ":");
    if (!number || strcmp(weft, "weft") != 0 || strcmp(platform, driver->platform) != 0 ||
        text_parse_integer(number, "epoch", 1, INT64_MAX, &epoch, NULL) != WEFT_OK)
        return false;
    *attempt = (struct attempt){.epoch = (uint64_t)epoch};
    snprintf(attempt->run, sizeof attempt->run, "%s", run);
    return attempt_is_valid(attempt);
}

/* A job of this platform. */
struct own_job {
    struct attempt attempt;
    uint64_t id;
    enum slurm_job_state state;
    bool held;
    char comment[DRIVER_COMMENT_BYTES], state_word[48], reason[256];
};

struct queue_look {
    struct driver *driver;
    struct own_job *jobs;
    size_t job_count, job_room;
    bool lacking;     /* memory ran out */
    uint64_t *doomed; /* jobs to be canceled */
    size_t count, room;
    struct give_up {
        struct attempt attempt;
        bool blames_host;
        char reason[512];
    } * given_up;
    size_t given_count, given_room;
};

static void doom(struct queue_look *look, uint64_t job)
{
    if (ARRAY_RESERVE(look->doomed, look->room, look->count + 1, "jobs", NULL) == WEFT_OK)
        look->doomed[look->count++] = job;
}

static void plan_give_up(struct queue_look *look, const struct attempt *attempt, bool blames_host, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));

static void plan_give_up(struct queue_look *look, const struct attempt *attempt, bool blames_host, const char *format,
                         ...)
{
    va_list arguments;
    if (ARRAY_RESERVE(look->given_up, look->given_room, look->given_count + 1, "attempts", NULL) != WEFT_OK)
        return;
    struct give_up *added = &look->given_up[look->given_count++];
    *added = (struct give_up){.attempt = *attempt, .blames_host = blames_host};
    va_start(arguments, format);
    vsnprintf(added->reason, sizeof added->reason, format, arguments);
    va_end(arguments);
}

/* A job of this platform that nobody here has asked for: the server was restarted, or the job is a leftover. */
static struct driven *adopt(struct driver *driver, const struct attempt *attempt, const char *comment)
{
    bool all, any, ended;
    driver->config.calls.state(driver->config.calls.context, attempt, &all, &any, &ended);
    struct driven *made = ended ? NULL : calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct driven){.attempt = *attempt, .next = driver->attempts};
    snprintf(made->comment, sizeof made->comment, "%s", comment);
    driver->attempts = made;
    return made;
}

/* Without the lock: squeue takes its time. */
static bool see_job(void *context, const struct slurm_job *job)
{
    struct queue_look *look = context;
    struct attempt attempt;
    if (!read_comment(look->driver, job->comment, &attempt))
        return true;
    if (job->state != SLURM_JOB_PENDING && job->state != SLURM_JOB_ENDED)
        host_use_count(&look->driver->use, job);
    if (ARRAY_RESERVE(look->jobs, look->job_room, look->job_count + 1, "jobs", NULL) != WEFT_OK) {
        look->lacking = true;
        return false;
    }
    struct own_job *own = &look->jobs[look->job_count++];
    *own = (struct own_job){.attempt = attempt, .id = job->id, .state = job->state, .held = job->held};
    snprintf(own->comment, sizeof own->comment, "%s", job->comment);
    snprintf(own->state_word, sizeof own->state_word, "%s", job->state_word);
    snprintf(own->reason, sizeof own->reason, "%s", job->reason);
    return true;
}

static void deal_with(struct queue_look *look, const struct own_job *job)
{
    struct driver *driver = look->driver;
    struct driven *driven = driver_find(driver, &job->attempt);
    if (!driven && job->state != SLURM_JOB_ENDED)
        driven = adopt(driver, &job->attempt, job->comment);
    const bool live = job->state != SLURM_JOB_COMPLETING && job->state != SLURM_JOB_ENDED;
    const bool other = driven && driven->job && driven->job != job->id;
    if (!driven || other || strcmp(driven->comment, job->comment) != 0) {
        if (live)
            doom(look, job->id); /* of an attempt that is over, or one that slurmctld seemed to have forgotten */
        return;
    }
    driven->job = job->id;
    driven->submit = false;
    driven->seen = true;
    if (job->state == SLURM_JOB_ENDED) {
        plan_give_up(look, &job->attempt, true, "Slurm's job %" PRIu64 " ended before its nodes had begun: %s%s%s",
                     job->id, job->state_word, *job->reason ? ", " : "", job->reason);
        driven->cancel = false;
    } else if (job->state == SLURM_JOB_PENDING && driven->submitted_at &&
               clock_now() > seconds_from(driven->submitted_at, PENDING_SECONDS)) {
        plan_give_up(look, &job->attempt, false, "Slurm's job %" PRIu64 " has waited for its nodes for too long: %s",
                     job->id, job->reason);
        driven->cancel = true;
    } else if (job->held) {
        plan_give_up(look, &job->attempt, false, "Slurm holds job %" PRIu64 ": %s", job->id, job->reason);
        driven->cancel = true;
    }
}

/* Attempts after a look at the queue: who has no job any more, who needs none, who has to be submitted again. */
static void settle(struct driver *driver, struct queue_look *look)
{
    const uint64_t now = clock_now();
    for (struct driven *driven = driver->attempts, *next; driven; driven = next) {
        bool all = false, any = false, ended = false;
        next = driven->next;
        driver->config.calls.state(driver->config.calls.context, &driven->attempt, &all, &any, &ended);
        driven->looked = true;
        if (ended && !driven->ended_at)
            driven->ended_at = now;
        if (driven->seen && (driven->cancel || (ended && now > seconds_from(driven->ended_at, LINGER_SECONDS))))
            doom(look, driven->job);
        if (driven->seen)
            continue;
        if (ended) {
            driven_free(driver, driven);
        } else if (driven->job && !driven->submit && now > seconds_from(driven->submitted_at, FORGOT_SECONDS)) {
            /* Processes of a forgotten job may run on; those that have begun are known, and end by themselves. */
            if (any || driven->submits >= SUBMITS_MOST || !driven->texts)
                plan_give_up(look, &driven->attempt, any && !all, "Slurm does not know job %" PRIu64 " any more",
                             driven->job);
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
    weft_status status = slurm_jobs(driver->config.commands, see_job, look, error);
    if (status == WEFT_OK && look->lacking)
        status = error_memory(error, look->job_count * sizeof *look->jobs, "jobs");
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&driver->lock);
    for (struct driven *each = driver->attempts; each; each = each->next)
        each->seen = each->submitted_at > began; /* since then it was submitted: not to be missed */
    for (size_t i = 0; i < look->job_count; i++)
        deal_with(look, &look->jobs[i]);
    settle(driver, look);
    pthread_mutex_unlock(&driver->lock);
    return WEFT_OK;
}

/* ---- what is to be done ---- */

/* Submit those that wait for it and are not in the queue. The lock is not held while sbatch runs; only this thread
 * removes attempts. */
static weft_status submit_waiting(struct driver *driver, struct queue_look *look, struct error *error)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&driver->lock);
    for (struct driven *driven = driver->attempts; driven && status == WEFT_OK; driven = driven->next) {
        uint64_t job = 0;
        struct error refusal = {0};
        if (!driven->submit || !driven->looked || driven->cancel)
            continue;
        pthread_mutex_unlock(&driver->lock);
        status = slurm_submit(driver->config.commands, &driven->submission, &job, &refusal);
        pthread_mutex_lock(&driver->lock);
        if (status == WEFT_OK) {
            driven->job = job;
            driven->submit = false;
            driven->submits++;
            driven->submitted_at = clock_now();
        } else if (status == WEFT_ERROR_ARGUMENT || status == WEFT_ERROR_DATA) {
            driven->submit = false;
            plan_give_up(look, &driven->attempt, true, "%s", refusal.text);
            status = WEFT_OK;
        } else {
            driven->looked = false; /* sbatch may have done it nevertheless */
            status = error_set(error, status, "%s", refusal.text);
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
    *at_once = false;
    pthread_mutex_lock(&driver->lock);
    for (const struct driven *each = driver->attempts; each; each = each->next) {
        something = something || each->submit || each->cancel || !each->seen || each->ended_at;
        *at_once = *at_once || (each->submit && !each->looked);
    }
    pthread_mutex_unlock(&driver->lock);
    return something;
}

/* One turn; without the lock, but where attempts are looked at. */
static void driver_turn(struct driver *driver)
{
    struct queue_look look = {.driver = driver};
    struct error error = {0};
    weft_status status = WEFT_OK;
    const uint64_t now = clock_now();
    bool at_once;
    something_to_do(driver, &at_once);
    if (now >= driver->look_at || at_once || driver->nodes_at <= now) {
        status = look_at_queue(driver, &look, &error);
        driver->look_at = seconds_from(clock_now(), something_to_do(driver, &at_once) ? LOOK_SECONDS : REST_SECONDS);
    }
    if (status == WEFT_OK && now >= driver->nodes_at) {
        status = look_at_nodes(driver, &error);
        driver->nodes_at = seconds_from(clock_now(), NODES_SECONDS);
    }
    if (status == WEFT_OK)
        status = submit_waiting(driver, &look, &error);
    if (look.count)
        (void)slurm_cancel(driver->config.commands, look.doomed, look.count, NULL); /* else at the next look */
    for (size_t i = 0; i < look.given_count; i++)
        driver->config.calls.give_up(driver->config.calls.context, &look.given_up[i].attempt,
                                     look.given_up[i].blames_host, look.given_up[i].reason);
    free(look.jobs);
    free(look.doomed);
    free(look.given_up);
    pthread_mutex_lock(&driver->lock);
    if (status != WEFT_OK && !*driver->trouble)
        fprintf(stderr, "weft: attempts go on, and those that are to start wait: %s\n", error.text);
    else if (status == WEFT_OK && *driver->trouble)
        fprintf(stderr, "weft: Slurm answers again\n");
    snprintf(driver->trouble, sizeof driver->trouble, "%s", status == WEFT_OK ? "" : error.text);
    pthread_mutex_unlock(&driver->lock);
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
        if (driver->look_soon)
            driver->look_at = 0;
        driver->look_soon = false;
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

/* Copy a submission's texts into one block. Errors: MEMORY. */
static weft_status copy_submission(struct driven *driven, const struct slurm_submission *from, struct error *error)
{
    struct slurm_submission *to = &driven->submission;
    *to = *from;
    to->comment = driven->comment;
    const char **texts[] = {&to->name,      &to->node_list, &to->user,  &to->reservation,
                            &to->directory, &to->output,    &to->script};
    size_t size = 1;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    driven->texts = malloc(size);
    if (!driven->texts)
        return error_memory(error, size, "a job");
    char *at = driven->texts;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (!*texts[i])
            continue;
        const size_t length = strlen(*texts[i]) + 1;
        memcpy(at, *texts[i], length);
        *texts[i] = at;
        at += length;
    }
    return WEFT_OK;
}

weft_status driver_submit(struct driver *driver, const struct attempt *attempt, const char *mark,
                          const struct slurm_submission *submission, struct error *error)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&driver->lock);
    struct driven *driven = driver_find(driver, attempt);
    const bool is_new = !driven;
    if (is_new && (driven = calloc(1, sizeof *driven))) {
        *driven = (struct driven){.attempt = *attempt, .submit = true, .looked = true, .next = driver->attempts};
        driver->attempts = driven;
    }
    if (!driven) {
        status = error_memory(error, sizeof *driven, "a job");
    } else if (!driven->texts) { /* new, or adopted by its comment alone */
        snprintf(driven->comment, sizeof driven->comment, COMMENT, driver->platform, attempt->run, attempt->epoch,
                 mark);
        status = copy_submission(driven, submission, error);
        if (status != WEFT_OK && is_new)
            driven_free(driver, driven);
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

void driver_trouble(struct driver *driver, char text[ERROR_TEXT_BYTES])
{
    pthread_mutex_lock(&driver->lock);
    memcpy(text, driver->trouble, ERROR_TEXT_BYTES);
    pthread_mutex_unlock(&driver->lock);
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
    sigset_t all, before;
    struct driver *made = calloc(1, sizeof *made);
    if (!made) {
        slurm_commands_close(config->commands);
        return error_memory(error, sizeof *made, "Slurm's driver");
    }
    made->config = *config;
    snprintf(made->platform, sizeof made->platform, "%s", config->platform);
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    weft_status status = host_use_open(config->commands, &made->use, error);
    const size_t size = made->use.count * sizeof *made->hosts;
    if (status == WEFT_OK && !(made->hosts = malloc(size)))
        status = error_memory(error, size, "the nodes of a cluster");
    if (status == WEFT_OK) {
        memcpy(made->hosts, made->use.hosts, size);
        made->host_count = made->use.count;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        const int failed = pthread_create(&made->thread, NULL, driver_run, made);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        made->started = failed == 0;
        errno = failed;
        if (failed)
            status = error_system(error, "cannot start the thread that runs Slurm's commands");
    }
    if (status != WEFT_OK) {
        driver_close(made);
        return status;
    }
    *driver = made;
    return WEFT_OK;
}
