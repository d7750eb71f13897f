/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/keeper.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/announcements.h"
#include "platform/service/internal/clock_watch.h"
#include "platform/service/internal/collector.h"
#include "platform/service/internal/complaint.h"
#include "platform/service/internal/idle_runs.h"
#include "platform/service/internal/leftovers.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GROUP_MOST    256  /* works in one group */
#define RETRY_PERIOD  1000 /* milliseconds from one controller that failed to the next */
#define LONGEST_PAUSE 60000
#define HOUR          3600000
#define REST_MOST     50 /* milliseconds */
#define REST_LEAST    10 /* what thousands of runs tell comes in small pieces, each of which would be a step */

/* Something that a request asks for. */
struct work {
    struct work *next;
    keeper_task *task; /* NULL: it is a call */
    void *context;
    struct route_call *call;
    keeper_work *function;
    keeper_done *done; /* NULL: the usual answer */
    struct http_posted posted;
    struct json_writer answer;
    weft_status status;
    struct error error;
};

struct keeper {
    struct keeper_config config;
    char folder[FILE_PATH_BYTES], runs[FILE_PATH_BYTES], snapshots[FILE_PATH_BYTES], secrets[FILE_PATH_BYTES];
    struct controller_folders folders;
    struct keeper_slots slots;
    struct database *registry;
    struct collector *collector;
    struct controller *controller; /* NULL: in trouble */
    struct complaint trouble;
    struct disk_watch disk;
    struct clock_watch clock;
    int64_t clock_step; /* milliseconds that the controller has not heard of yet */
    struct error doubt; /* its status is WEFT_OK: there is none */
    struct keeper_counts counts;
    struct announcements announcements;
    struct http_server *server;
    pthread_t thread;
    bool started;
    int bell; /* an eventfd: something is in the queue, or it is to stop */
    pthread_mutex_t mutex;
    struct work *first, **last; /* the queue; by `mutex`, as is the next */
    bool stopping;
};

struct database *keeper_registry(struct keeper *keeper)
{
    return keeper->registry;
}

struct controller *keeper_controller(struct keeper *keeper)
{
    return keeper->controller;
}

struct engine *keeper_engine(struct keeper *keeper)
{
    return keeper->config.engine;
}

struct collector *keeper_collector(struct keeper *keeper)
{
    return keeper->collector;
}

const struct disk_watch *keeper_disk(const struct keeper *keeper)
{
    return &keeper->disk;
}

int64_t keeper_disk_limit(const struct keeper *keeper)
{
    return keeper->config.policy->disk_run;
}

void keeper_project_changed(struct keeper *keeper, const char *project)
{
    announcements_project(&keeper->announcements, project);
}

struct metric_store *keeper_metrics(struct keeper *keeper)
{
    return collector_store(keeper->collector);
}

void keeper_doubt(struct keeper *keeper, const struct error *error)
{
    keeper->doubt = *error;
}

weft_status keeper_resume(struct keeper *keeper, struct error *error)
{
    weft_status status = exits_resume(keeper->config.exits, error);
    if (status == WEFT_OK && keeper->controller)
        controller_resume(keeper->controller);
    if (status == WEFT_OK)
        announcements_queue(&keeper->announcements);
    return status;
}

struct keeper_counts keeper_counts(const struct keeper *keeper)
{
    struct keeper_counts counts = keeper->counts;
    counts.troubled = !keeper->controller;
    return counts;
}

struct keeper_slots keeper_slots(const struct keeper *keeper)
{
    return keeper->slots;
}

const struct controller_folders *keeper_folders(const struct keeper *keeper)
{
    return &keeper->folders;
}

int64_t keeper_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static bool count_host(void *context, const struct engine_host *host)
{
    struct keeper *keeper = context;
    keeper->slots.kind = host->gpus ? SLOT_GPU : SLOT_CPU;
    keeper->slots.slots += host->slots;
    keeper->slots.hosts++;
    return true;
}

static weft_status open_controller(struct keeper *keeper, struct error *error)
{
    const struct service_policy *policy = keeper->config.policy;
    struct controller_config config = {.registry = keeper->registry,
                                       .engine = keeper->config.engine,
                                       .pod = keeper->config.pod,
                                       .folders = keeper->folders,
                                       .own_user = keeper->config.own_user,
                                       .secrets = keeper->secrets,
                                       .paused = exits_why(keeper->config.exits),
                                       .policy = SCHEDULER_POLICY_DEFAULT,
                                       .platform_most = policy->attempts,
                                       CONTROLLER_PAUSES,
                                       .cordon_most = policy->host_failures,
                                       .cordon_window = HOUR,
                                       .grace = policy->grace * 1000,
                                       .budget_least = policy->budget_least * 1000,
                                       .disk_run = policy->disk_run,
                                       .personal_share = policy->personal_share,
                                       .personal_slots_most = policy->personal_slots,
                                       .personal_runs_most = (uint32_t)policy->personal_runs,
                                       .classes = policy->class_count ? policy->classes : NULL,
                                       .class_count = policy->class_count};
    config.sink = collector_sink(keeper->collector, &config.context);
    return controller_open(&config, keeper_now(), &keeper->controller, error);
}

static void limit_idle(void *context, int64_t run, struct usage_policy *policy)
{
    const struct keeper *keeper = context;
    if (keeper->controller)
        idle_runs_limits(keeper->controller, run, policy);
}

/* On the thread that measures what runs take: the keeper is to look at what it tells. */
static void heed_disk(struct keeper *keeper, void *context)
{
    (void)keeper;
    (void)context;
}

static void wake_for_disk(void *context)
{
    (void)keeper_post(context, heed_disk, NULL);
}

static weft_status open_disk(struct keeper *keeper, struct error *error)
{
    const struct service_policy *policy = keeper->config.policy;
    const struct disk_use_config config = {.folder = keeper->folder,
                                           .runs = keeper->runs,
                                           .run_quota = policy->disk_run,
                                           .project_quota = policy->disk_project,
                                           .wake = wake_for_disk,
                                           .context = keeper};
    keeper->disk.space = keeper->config.space;
    return disk_use_open(&config, &keeper->disk.use, error);
}

static weft_status open_collector(struct keeper *keeper, struct error *error)
{
    const struct collector_config config = {keeper->folder,        keeper->registry, keeper->config.engine,
                                            keeper->config.events, limit_idle,       keeper};
    weft_status status;
    do
        status = collector_open(&config, &keeper->collector, error);
    while (disk_space_try_again(keeper->config.space, status, error));
    return status;
}

weft_status keeper_open(const struct keeper_config *config, struct keeper **keeper, struct error *error)
{
    struct keeper *made = calloc(1, sizeof *made);
    if (!made) {
        config->engine->close(config->engine);
        database_close(config->registry);
        return error_memory(error, sizeof *made, "the keeper");
    }
    made->config = *config;
    made->registry = config->registry;
    made->last = &made->first;
    pthread_mutex_init(&made->mutex, NULL);
    snprintf(made->folder, sizeof made->folder, "%s", config->folder);
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_status status = made->bell < 0 ? error_system(error, "cannot make an event descriptor") : WEFT_OK;
    if (status == WEFT_OK)
        status = file_join(made->runs, made->folder, "runs", error);
    if (status == WEFT_OK)
        status = file_join(made->secrets, made->folder, SERVICE_SECRETS, error);
    if (status == WEFT_OK)
        status = file_join(made->snapshots, made->folder, "snapshots", error);
    made->folders = (struct controller_folders){made->runs, made->snapshots};
    if (status == WEFT_OK)
        status = config->engine->hosts(config->engine, count_host, made, error);
    made->slots.pretended = config->pretended;
    if (status == WEFT_OK)
        status = database_checkpoint_apart(made->registry, error);
    if (status == WEFT_OK)
        status = open_collector(made, error);
    if (status == WEFT_OK)
        status =
            leftovers_settle(made->folder, made->registry, collector_store(made->collector), config->engine, error);
    if (status == WEFT_OK)
        status = open_disk(made, error);
    if (status == WEFT_OK)
        status = open_controller(made, error);
    if (status == WEFT_OK)
        status = announcements_begin(&made->announcements, made->registry, config->events, error);
    if (status != WEFT_OK) {
        keeper_close(made);
        return status;
    }
    *keeper = made;
    return WEFT_OK;
}

void keeper_close(struct keeper *keeper)
{
    if (!keeper)
        return;
    keeper_stop(keeper);
    disk_use_close(keeper->disk.use);
    disk_space_keep_log(keeper->config.space, keeper->registry);
    if (keeper->collector)
        disk_space_keep_log(keeper->config.space, metric_store_database(collector_store(keeper->collector)));
    controller_close(keeper->controller);
    collector_close(keeper->collector);
    keeper->config.engine->close(keeper->config.engine);
    database_close(keeper->registry);
    if (keeper->bell >= 0)
        close(keeper->bell);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

/* ---- works ------------------------------------------------------------------------------------------------------ */

static void ring(struct keeper *keeper)
{
    uint64_t one = 1;
    if (write(keeper->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        perror("weft: the keeper cannot be woken");
}

static void free_work(struct work *work)
{
    json_end(&work->answer);
    free(work);
}

/* On the HTTP server's thread. */
static void answer(void *context)
{
    struct work *work = context;
    unsigned status = work->call->route->status ? work->call->route->status : 200;
    if (work->done)
        work->done(work->call, work->status, &work->error);
    else if (work->status != WEFT_OK)
        http_fail_error(work->call->request, &work->error);
    else if (work->answer.length == 0)
        http_reply(work->call->request, status == 200 ? 204 : status, NULL, NULL, 0);
    else
        http_reply_json(work->call->request, status, &work->answer);
    free_work(work);
}

/* Have the call answered; where the HTTP server is stopping, nobody waits for that any more. */
static void finish(struct keeper *keeper, struct work *work)
{
    if (!http_post(keeper->server, &work->posted, answer, work))
        free_work(work);
}

/* False: it is stopping, and has not taken the work. */
static bool give(struct keeper *keeper, struct work *work)
{
    pthread_mutex_lock(&keeper->mutex);
    bool taken = !keeper->stopping;
    if (taken) {
        *keeper->last = work;
        keeper->last = &work->next;
    }
    pthread_mutex_unlock(&keeper->mutex);
    if (taken)
        ring(keeper);
    return taken;
}

bool keeper_post(struct keeper *keeper, keeper_task *task, void *context)
{
    struct work *work = calloc(1, sizeof *work);
    if (work) {
        work->task = task;
        work->context = context;
        if (give(keeper, work))
            return true;
    }
    free(work);
    return false;
}

void keeper_do(struct keeper *keeper, struct route_call *call, keeper_work *function)
{
    keeper_do_then(keeper, call, function, NULL);
}

void keeper_do_then(struct keeper *keeper, struct route_call *call, keeper_work *function, keeper_done *done)
{
    struct work *work = calloc(1, sizeof *work);
    if (work) {
        work->call = call;
        work->function = function;
        work->done = done;
        json_begin(&work->answer, JSON_LINE);
        if (give(keeper, work))
            return;
    }
    http_fail(call->request, 503, "the server is %s", work ? "stopping" : "out of memory at the moment");
    free(work);
}

/* The first works of the queue, GROUP_MOST at most; `*more` if others wait. */
static struct work *take_works(struct keeper *keeper, bool *more)
{
    pthread_mutex_lock(&keeper->mutex);
    struct work *works = keeper->first, **end = &keeper->first;
    for (int i = 0; i < GROUP_MOST && *end; i++)
        end = &(*end)->next;
    struct work *rest = *end;
    *end = NULL;
    keeper->first = rest;
    if (!rest)
        keeper->last = &keeper->first;
    *more = rest != NULL;
    pthread_mutex_unlock(&keeper->mutex);
    return works;
}

/* The registry may have lost what the controller knows: another one begins from it. */
static void give_up_controller(struct keeper *keeper, const struct error *error)
{
    complain(&keeper->trouble, "nothing can be started or changed at the moment", error);
    controller_close(keeper->controller);
    keeper->controller = NULL;
}

static void do_works(struct keeper *keeper, struct work *works)
{
    struct error error = {0};
    database_group_begin(keeper->registry, DATABASE_DURABLE);
    for (struct work *work = works; work; work = work->next) {
        keeper->counts.works++;
        if (work->task)
            work->task(keeper, work->context);
        else if (keeper->controller)
            work->status = work->function(keeper, work->call, &work->answer, &work->error);
        else
            work->status =
                error_set(&work->error, WEFT_ERROR_SYSTEM, "the server is in trouble: %s", keeper->trouble.told.text);
    }
    weft_status status = database_group_end(keeper->registry, &error);
    if (status != WEFT_OK)
        give_up_controller(keeper, &error);
    else if (keeper->doubt.status != WEFT_OK)
        give_up_controller(keeper, &keeper->doubt);
    error_clear(&keeper->doubt);
    while (works) {
        struct work *next = works->next;
        if (status != WEFT_OK && works->status == WEFT_OK)
            works->status = error_set(&works->error, status, "%s", error.text);
        if (works->task)
            free(works);
        else
            finish(keeper, works);
        works = next;
    }
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static int64_t clock_milliseconds(void)
{
    return (int64_t)(clock_now() / 1000000);
}

/* If the clock was set, all that waits and runs goes on as if it had not been. To be called before anything is done by
 * the new time. */
static void heed_clock(struct keeper *keeper)
{
    struct error error = {0};
    char span[32];
    const int64_t before = clock_milliseconds(), now = keeper_now();
    const int64_t by = clock_watch_look(&keeper->clock, before, now, clock_milliseconds());
    if (by)
        fprintf(stderr, "weft: the clock was set %s by %s: runs are charged for the time that really passes\n",
                by > 0 ? "forward" : "back", text_seconds((double)(by > 0 ? by : -by) / 1000, span, sizeof span));
    keeper->clock_step += by;
    if (!keeper->clock_step || !keeper->controller)
        return;
    if (controller_shift_clock(keeper->controller, keeper->clock_step, now, &error) == WEFT_OK)
        keeper->clock_step = 0;
    else
        give_up_controller(keeper, &error);
}

/* One step of the controller, or an attempt to open one. Returns in how many milliseconds from its beginning the next
 * is due: whatever becomes of the clock meanwhile. */
static int64_t step(struct keeper *keeper)
{
    struct error error = {0};
    int64_t now = keeper_now(), next = now + RETRY_PERIOD;
    const uint64_t began = clock_now();
    weft_status status = keeper->controller ? WEFT_OK : open_controller(keeper, &error);
    if (status == WEFT_OK)
        status = idle_runs_heed(collector_use(keeper->collector), keeper->controller, now, &error);
    if (status == WEFT_OK)
        status = disk_watch_heed(&keeper->disk, keeper->controller, now, &error);
    if (status == WEFT_OK)
        status = controller_step(keeper->controller, now, &next, &error);
    if (status != WEFT_OK)
        give_up_controller(keeper, &error);
    else
        complain_no_more(&keeper->trouble, "things can be started and changed again");
    const double seconds = (double)(clock_now() - began) * 1e-9;
    keeper->counts.steps++;
    keeper->counts.step_seconds += seconds;
    keeper->counts.longest_step = seconds > keeper->counts.longest_step ? seconds : keeper->counts.longest_step;
    return status == WEFT_OK ? next - now : RETRY_PERIOD;
}

/* Whether the engine or the controller's threads have something to tell; who knows that already does not listen. */
static bool wait_for_something(struct keeper *keeper, int64_t milliseconds, bool listen)
{
    uint64_t rung;
    bool threads = listen && keeper->controller;
    struct pollfd polled[3] = {{.fd = keeper->bell, .events = POLLIN},
                               {.fd = listen ? keeper->config.engine->descriptor : -1, .events = POLLIN},
                               {.fd = threads ? controller_descriptor(keeper->controller) : -1, .events = POLLIN}};
    if (milliseconds > LONGEST_PAUSE)
        milliseconds = LONGEST_PAUSE;
    poll(polled, 3, milliseconds > 0 ? (int)milliseconds : 0);
    if (read(keeper->bell, &rung, sizeof rung) < 0 && errno != EAGAIN)
        perror("weft: the keeper's descriptor");
    return polled[1].revents || polled[2].revents;
}

static bool is_stopping(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    bool stopping = keeper->stopping;
    pthread_mutex_unlock(&keeper->mutex);
    return stopping;
}

/* When a step is due again that began and ended at these moments, where something has happened since: it rests as long
 * as it took, up to REST_MOST, so that what is asked for meanwhile waits for one step at most, as steps are long where
 * thousands of runs have something to tell. What was `asked` for is seen to sooner than what agents tell. */
static int64_t rested_at(int64_t began, int64_t ended, bool asked)
{
    int64_t rest = ended - began < REST_MOST ? ended - began : REST_MOST;
    if (!asked && rest < REST_LEAST)
        rest = REST_LEAST;
    return ended + rest;
}

static void *keep(void *context)
{
    struct keeper *keeper = context;
    int64_t due = 0, began = 0, ended = 0; /* milliseconds of clock_now() */
    bool told = false, asked = true;       /* something may have changed since the last step */
    while (!is_stopping(keeper)) {
        bool more;
        heed_clock(keeper);
        const int64_t disk_due = disk_watch_look(&keeper->disk, !keeper->controller, clock_milliseconds());
        struct work *works = take_works(keeper, &more);
        if (works)
            do_works(keeper, works);
        asked = asked || works;
        int64_t now = clock_milliseconds(), rested = rested_at(began, ended, asked);
        if (now >= due || ((told || asked) && now >= rested)) {
            began = now;
            due = began + step(keeper);
            ended = clock_milliseconds();
            told = asked = false;
        }
        int64_t wait = ((told || asked) && rested < due ? rested : due) - clock_milliseconds();
        if (disk_due - clock_milliseconds() < wait)
            wait = disk_due - clock_milliseconds();
        int64_t metrics_due = collector_tick(keeper->collector, keeper_now());
        int64_t announced = announcements_make(&keeper->announcements, keeper_now());
        wait = wait < metrics_due ? wait : metrics_due;
        int64_t alive = exits_alive(keeper->config.exits, keeper_now());
        wait = wait < announced ? wait : announced;
        wait = wait < alive ? wait : alive;
        told = wait_for_something(keeper, more ? 0 : wait, !told && !asked) || told;
    }
    return NULL;
}

weft_status keeper_start(struct keeper *keeper, struct http_server *server, struct error *error)
{
    keeper->server = server;
    weft_status status = disk_use_start(keeper->disk.use, error);
    if (status != WEFT_OK)
        return status;
    int failure = pthread_create(&keeper->thread, NULL, keep, keeper);
    if (failure) {
        errno = failure;
        return error_system(error, "cannot start the keeper's thread");
    }
    keeper->started = true;
    return WEFT_OK;
}

void keeper_stop(struct keeper *keeper)
{
    bool more;
    if (!keeper->started)
        return;
    disk_use_stop(keeper->disk.use);
    pthread_mutex_lock(&keeper->mutex);
    keeper->stopping = true;
    pthread_mutex_unlock(&keeper->mutex);
    ring(keeper);
    pthread_join(keeper->thread, NULL);
    keeper->started = false;
    do {
        for (struct work *works = take_works(keeper, &more), *next; works; works = next) {
            next = works->next;
            if (works->task) {
                works->task(NULL, works->context);
                free(works);
                continue;
            }
            works->status = error_set(&works->error, WEFT_ERROR_SYSTEM, "the server is stopping: ask again later");
            finish(keeper, works);
        }
    } while (more);
}
