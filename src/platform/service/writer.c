/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/writer.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/announcements.h"
#include "platform/service/internal/clock_watch.h"
#include "platform/service/internal/collector.h"
#include "platform/service/internal/complaint.h"
#include "platform/service/internal/retention.h"

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
struct writer_work {
    struct writer_work *next;
    writer_task *task; /* NULL: it is a call */
    void *context;
    struct route_call *call;
    route_work *function;
    route_done *done; /* NULL: the usual answer */
    struct http_posted posted;
    struct json_writer answer;
    weft_status status;
    struct error error;
};

struct writer {
    struct writer_config config;
    char directory[FILE_PATH_BYTES], runs[FILE_PATH_BYTES], snapshots[FILE_PATH_BYTES], secrets[FILE_PATH_BYTES];
    struct controller_directories directories;
    struct writer_slots slots;
    struct database *registry;
    struct collector *collector;
    struct controller *controller; /* NULL: in trouble */
    struct complaint trouble;
    struct disk_watch disk;
    struct clock_watch clock;
    int64_t clock_step; /* milliseconds that the controller has not heard of yet */
    struct error doubt; /* its status is WEFT_OK: there is none */
    struct writer_counts counts;
    struct announcements announcements;
    struct http_server *server;
    pthread_t thread;
    bool started;
    int bell; /* an eventfd: something is in the queue, or it is to stop */
    pthread_mutex_t mutex;
    struct writer_work *first, **last; /* the queue; by `mutex`, as is the next */
    bool stopping;
};

struct database *writer_registry(struct writer *writer)
{
    return writer->registry;
}

struct controller *writer_controller(struct writer *writer)
{
    return writer->controller;
}

struct engine *writer_engine(struct writer *writer)
{
    return writer->config.engine;
}

struct collector *writer_collector(struct writer *writer)
{
    return writer->collector;
}

const struct disk_watch *writer_disk(const struct writer *writer)
{
    return &writer->disk;
}

int64_t writer_disk_limit(const struct writer *writer)
{
    return writer->config.policy->disk_run;
}

void writer_project_changed(struct writer *writer, const char *project)
{
    announcements_project(&writer->announcements, project);
}

struct metric_store *writer_metrics(struct writer *writer)
{
    return collector_store(writer->collector);
}

void writer_doubt(struct writer *writer, const struct error *error)
{
    writer->doubt = *error;
}

weft_status writer_resume(struct writer *writer, struct error *error)
{
    weft_status status = exits_resume(writer->config.exits, error);
    if (status == WEFT_OK && writer->controller)
        controller_resume(writer->controller);
    if (status == WEFT_OK)
        announcements_queue(&writer->announcements);
    return status;
}

struct writer_counts writer_counts(const struct writer *writer)
{
    struct writer_counts counts = writer->counts;
    counts.troubled = !writer->controller;
    return counts;
}

struct writer_slots writer_slots(const struct writer *writer)
{
    return writer->slots;
}

const struct controller_directories *writer_directories(const struct writer *writer)
{
    return &writer->directories;
}

int64_t writer_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- opening ---- */

static bool count_host(void *context, const struct engine_host *host)
{
    struct writer *writer = context;
    writer->slots.kind = host->gpus ? SLOT_GPU : SLOT_CPU;
    writer->slots.slots += host->slots;
    writer->slots.hosts++;
    return true;
}

static weft_status open_controller(struct writer *writer, struct error *error)
{
    const struct service_policy *policy = writer->config.policy;
    struct controller_config config = {.registry = writer->registry,
                                       .engine = writer->config.engine,
                                       .pod = writer->config.pod,
                                       .directories = writer->directories,
                                       .own_user = writer->config.own_user,
                                       .secrets = writer->secrets,
                                       .paused = exits_why(writer->config.exits),
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
    config.sink = collector_sink(writer->collector, &config.context);
    return controller_open(&config, writer_now(), &writer->controller, error);
}

static void limit_idle(void *context, int64_t run, struct usage_policy *policy)
{
    const struct writer *writer = context;
    if (writer->controller)
        idle_runs_limits(writer->controller, run, policy);
}

/* On the thread that measures what runs take: the writer is to look at what it tells. */
static void heed_disk(struct writer *writer, void *context)
{
    (void)writer;
    (void)context;
}

static void wake_for_disk(void *context)
{
    (void)writer_post(context, heed_disk, NULL);
}

static weft_status open_disk(struct writer *writer, struct error *error)
{
    const struct service_policy *policy = writer->config.policy;
    const struct disk_use_config config = {.directory = writer->directory,
                                           .runs = writer->runs,
                                           .run_quota = policy->disk_run,
                                           .project_quota = policy->disk_project,
                                           .wake = wake_for_disk,
                                           .context = writer};
    writer->disk.space = writer->config.space;
    return disk_use_open(&config, &writer->disk.use, error);
}

static weft_status open_collector(struct writer *writer, struct error *error)
{
    const struct collector_config config = {writer->directory,     writer->registry, writer->config.engine,
                                            writer->config.events, limit_idle,       writer};
    weft_status status;
    do
        status = collector_open(&config, &writer->collector, error);
    while (disk_space_try_again(writer->config.space, status, error));
    return status;
}

weft_status writer_open(const struct writer_config *config, struct writer **writer, struct error *error)
{
    struct writer *made = calloc(1, sizeof *made);
    if (!made) {
        config->engine->close(config->engine);
        database_close(config->registry);
        return error_memory(error, sizeof *made, "the writer");
    }
    made->config = *config;
    made->registry = config->registry;
    made->last = &made->first;
    pthread_mutex_init(&made->mutex, NULL);
    snprintf(made->directory, sizeof made->directory, "%s", config->directory);
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_status status = made->bell < 0 ? error_system(error, "cannot make an event descriptor") : WEFT_OK;
    if (status == WEFT_OK)
        status = file_join(made->runs, config->shared, "runs", error);
    if (status == WEFT_OK)
        status = file_join(made->secrets, made->directory, SERVICE_SECRETS, error);
    if (status == WEFT_OK)
        status = file_join(made->snapshots, made->directory, "snapshots", error);
    made->directories = (struct controller_directories){made->runs, made->snapshots};
    if (status == WEFT_OK)
        status = config->engine->hosts(config->engine, count_host, made, error);
    made->slots.pretended = config->pretended;
    if (status == WEFT_OK)
        status = database_checkpoint_apart(made->registry, error);
    if (status == WEFT_OK)
        status = open_collector(made, error);
    if (status == WEFT_OK)
        status = leftovers_settle(made->directory, made->runs, made->registry, collector_store(made->collector),
                                  config->engine, error);
    if (status == WEFT_OK)
        status = open_disk(made, error);
    if (status == WEFT_OK)
        status = open_controller(made, error);
    if (status == WEFT_OK)
        status = announcements_begin(&made->announcements, made->registry, config->events, error);
    if (status != WEFT_OK) {
        writer_close(made);
        return status;
    }
    *writer = made;
    return WEFT_OK;
}

void writer_close(struct writer *writer)
{
    if (!writer)
        return;
    writer_stop(writer);
    disk_use_close(writer->disk.use);
    disk_space_keep_log(writer->config.space, writer->registry);
    if (writer->collector)
        disk_space_keep_log(writer->config.space, metric_store_database(collector_store(writer->collector)));
    controller_close(writer->controller);
    collector_close(writer->collector);
    writer->config.engine->close(writer->config.engine);
    database_close(writer->registry);
    if (writer->bell >= 0)
        close(writer->bell);
    pthread_mutex_destroy(&writer->mutex);
    free(writer);
}

/* ---- works ---- */

static void writer_ring(struct writer *writer)
{
    uint64_t one = 1;
    if (write(writer->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        perror("weft: the writer cannot be woken");
}

static void free_work(struct writer_work *work)
{
    json_end(&work->answer);
    free(work);
}

/* On the HTTP server's thread. */
static void writer_answer(void *context)
{
    struct writer_work *work = context;
    if (work->done)
        work->done(work->call, work->status, &work->error);
    else
        route_answer(work->call, work->status, &work->answer, &work->error);
    free_work(work);
}

/* Have the call answered; where the HTTP server is stopping, nobody waits for that any more. */
static void writer_finish(struct writer *writer, struct writer_work *work)
{
    if (!http_post(writer->server, &work->posted, writer_answer, work))
        free_work(work);
}

/* False: it is stopping, and has not taken the work. */
static bool writer_give(struct writer *writer, struct writer_work *work)
{
    pthread_mutex_lock(&writer->mutex);
    bool taken = !writer->stopping;
    if (taken) {
        *writer->last = work;
        writer->last = &work->next;
    }
    pthread_mutex_unlock(&writer->mutex);
    if (taken)
        writer_ring(writer);
    return taken;
}

bool writer_post(struct writer *writer, writer_task *task, void *context)
{
    struct writer_work *work = calloc(1, sizeof *work);
    if (work) {
        work->task = task;
        work->context = context;
        if (writer_give(writer, work))
            return true;
    }
    free(work);
    return false;
}

void writer_do(struct writer *writer, struct route_call *call, route_work *function, route_done *done)
{
    struct writer_work *work = calloc(1, sizeof *work);
    if (work) {
        work->call = call;
        work->function = function;
        work->done = done;
        json_begin(&work->answer, JSON_LINE);
        if (writer_give(writer, work))
            return;
    }
    http_fail(call->request, 503, "the server is %s", work ? "stopping" : "out of memory");
    free(work);
}

/* The first works of the queue, GROUP_MOST at most; `*more` if others wait. */
static struct writer_work *take_works(struct writer *writer, bool *more)
{
    pthread_mutex_lock(&writer->mutex);
    struct writer_work *works = writer->first, **end = &writer->first;
    for (int i = 0; i < GROUP_MOST && *end; i++)
        end = &(*end)->next;
    struct writer_work *rest = *end;
    *end = NULL;
    writer->first = rest;
    if (!rest)
        writer->last = &writer->first;
    *more = rest != NULL;
    pthread_mutex_unlock(&writer->mutex);
    return works;
}

/* The registry may have lost what the controller knows: another one begins from it. */
static void give_up_controller(struct writer *writer, const struct error *error)
{
    complain(&writer->trouble, "nothing can be started or changed at the moment", error);
    controller_close(writer->controller);
    writer->controller = NULL;
}

static void do_works(struct writer *writer, struct writer_work *works)
{
    struct error error = {0};
    database_group_begin(writer->registry, DATABASE_DURABLE);
    for (struct writer_work *work = works; work; work = work->next) {
        writer->counts.works++;
        if (work->task)
            work->task(writer, work->context);
        else if (writer->controller)
            work->status = work->function(work->call, &work->answer, &work->error);
        else
            work->status =
                error_set(&work->error, WEFT_ERROR_SYSTEM, "the server is in trouble: %s", writer->trouble.told.text);
    }
    weft_status status = database_group_end(writer->registry, &error);
    if (status != WEFT_OK)
        give_up_controller(writer, &error);
    else if (writer->doubt.status != WEFT_OK)
        give_up_controller(writer, &writer->doubt);
    error_clear(&writer->doubt);
    while (works) {
        struct writer_work *next = works->next;
        if (status != WEFT_OK && works->status == WEFT_OK)
            works->status = error_set(&works->error, status, "%s", error.text);
        if (works->task)
            free(works);
        else
            writer_finish(writer, works);
        works = next;
    }
}

/* ---- the thread ---- */

static int64_t clock_milliseconds(void)
{
    return (int64_t)(clock_now() / 1000000);
}

/* If the clock was set, all that waits and runs goes on as if it had not been. To be called before anything is done by
 * the new time. */
static void heed_clock(struct writer *writer)
{
    struct error error = {0};
    char span[32];
    const int64_t before = clock_milliseconds(), now = writer_now();
    const int64_t by = clock_watch_look(&writer->clock, before, now, clock_milliseconds());
    if (by)
        fprintf(stderr, "weft: the clock was set %s by %s: runs are charged for the time that really passes\n",
                by > 0 ? "forward" : "back", text_seconds((double)(by > 0 ? by : -by) / 1000, span, sizeof span));
    writer->clock_step += by;
    if (!writer->clock_step || !writer->controller)
        return;
    if (controller_shift_clock(writer->controller, writer->clock_step, now, &error) == WEFT_OK)
        writer->clock_step = 0;
    else
        give_up_controller(writer, &error);
}

/* One step of the controller, or an attempt to open one. Returns in how many milliseconds from its beginning the next
 * is due: whatever becomes of the clock meanwhile. */
static int64_t writer_step(struct writer *writer)
{
    struct error error = {0};
    int64_t now = writer_now(), next = now + RETRY_PERIOD;
    const uint64_t began = clock_now();
    weft_status status = writer->controller ? WEFT_OK : open_controller(writer, &error);
    if (status == WEFT_OK)
        status = idle_runs_heed(collector_use(writer->collector), writer->controller, now, &error);
    if (status == WEFT_OK)
        status = disk_watch_heed(&writer->disk, writer->controller, now, &error);
    if (status == WEFT_OK)
        status = controller_step(writer->controller, now, &next, &error);
    if (status != WEFT_OK)
        give_up_controller(writer, &error);
    else
        complain_no_more(&writer->trouble, "things can be started and changed again");
    const double seconds = (double)(clock_now() - began) * 1e-9;
    writer->counts.steps++;
    writer->counts.step_seconds += seconds;
    writer->counts.longest_step = seconds > writer->counts.longest_step ? seconds : writer->counts.longest_step;
    return status == WEFT_OK ? next - now : RETRY_PERIOD;
}

/* Whether the engine or the controller's threads have news. Without `listen` the answer is already known. */
static bool wait_for_something(struct writer *writer, int64_t milliseconds, bool listen)
{
    uint64_t rung;
    bool threads = listen && writer->controller;
    struct pollfd polled[3] = {{.fd = writer->bell, .events = POLLIN},
                               {.fd = listen ? writer->config.engine->descriptor : -1, .events = POLLIN},
                               {.fd = threads ? controller_descriptor(writer->controller) : -1, .events = POLLIN}};
    if (milliseconds > LONGEST_PAUSE)
        milliseconds = LONGEST_PAUSE;
    poll(polled, 3, milliseconds > 0 ? (int)milliseconds : 0);
    if (read(writer->bell, &rung, sizeof rung) < 0 && errno != EAGAIN)
        perror("weft: the writer's descriptor");
    return polled[1].revents || polled[2].revents;
}

static bool writer_is_stopping(struct writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    bool stopping = writer->stopping;
    pthread_mutex_unlock(&writer->mutex);
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

static void *writer_keep(void *context)
{
    struct writer *writer = context;
    int64_t due = 0, began = 0, ended = 0; /* milliseconds of clock_now() */
    bool told = false, asked = true;       /* something may have changed since the last step */
    while (!writer_is_stopping(writer)) {
        bool more;
        heed_clock(writer);
        const int64_t disk_due = disk_watch_look(&writer->disk, !writer->controller, clock_milliseconds());
        struct writer_work *works = take_works(writer, &more);
        if (works)
            do_works(writer, works);
        asked = asked || works;
        int64_t now = clock_milliseconds(), rested = rested_at(began, ended, asked);
        if (now >= due || ((told || asked) && now >= rested)) {
            began = now;
            due = began + writer_step(writer);
            ended = clock_milliseconds();
            told = asked = false;
        }
        int64_t wait = ((told || asked) && rested < due ? rested : due) - clock_milliseconds();
        if (disk_due - clock_milliseconds() < wait)
            wait = disk_due - clock_milliseconds();
        int64_t metrics_due = collector_tick(writer->collector, writer_now());
        int64_t announced = announcements_make(&writer->announcements, writer_now());
        wait = wait < metrics_due ? wait : metrics_due;
        int64_t alive = exits_alive(writer->config.exits, writer_now());
        wait = wait < announced ? wait : announced;
        wait = wait < alive ? wait : alive;
        told = wait_for_something(writer, more ? 0 : wait, !told && !asked) || told;
    }
    return NULL;
}

weft_status writer_start(struct writer *writer, struct http_server *server, struct error *error)
{
    writer->server = server;
    weft_status status = disk_use_start(writer->disk.use, error);
    if (status != WEFT_OK)
        return status;
    int failure = pthread_create(&writer->thread, NULL, writer_keep, writer);
    if (failure) {
        errno = failure;
        return error_system(error, "cannot start the writer's thread");
    }
    writer->started = true;
    return WEFT_OK;
}

void writer_stop(struct writer *writer)
{
    bool more;
    if (!writer->started)
        return;
    disk_use_stop(writer->disk.use);
    pthread_mutex_lock(&writer->mutex);
    writer->stopping = true;
    pthread_mutex_unlock(&writer->mutex);
    writer_ring(writer);
    pthread_join(writer->thread, NULL);
    writer->started = false;
    do {
        for (struct writer_work *works = take_works(writer, &more), *next; works; works = next) {
            next = works->next;
            if (works->task) {
                works->task(NULL, works->context);
                free(works);
                continue;
            }
            works->status = error_set(&works->error, WEFT_ERROR_SYSTEM, "the server is stopping: ask again later");
            writer_finish(writer, works);
        }
    } while (more);
}
