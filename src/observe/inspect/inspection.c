/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/inspect/inspection.h"

#include "base/file/file.h"
#include "base/text.h"
#include "core/collective/call.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/diagnosis/operation_log.h"
#include "core/control/status/status_page.h"
#include "core/control/wire/process_state.h"
#include "observe/inspect/internal/inspection_judge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOMENT_MOST 315360000e9 /* ten years: larger values are invalid */
#define ASKERS_MOST 2           /* of a job's ranks here, one after the other, until one responds */

static const char *const state_names[] = {
    [INSPECTED_OUTSIDE] = "outside", [INSPECTED_MOVING] = "moving", [INSPECTED_WAITING] = "waiting",
    [INSPECTED_STOPPED] = "stopped", [INSPECTED_SILENT] = "silent", [INSPECTED_GONE] = "gone",
};

const char *inspected_state_name(enum inspected_state state)
{
    return state_names[state];
}

/* ---- timestamps ---- */

/* The time at which a job was inspected, and nanoseconds per tick of this machine. */
struct reference {
    struct clock_timestamp moment;
    double tick;
};

/* Logs are others', so that any number may come: within +-MOMENT_MOST, so that they can be subtracted. */
static int64_t moment_within(double moment)
{
    return (int64_t)(moment < -MOMENT_MOST ? -MOMENT_MOST : moment > MOMENT_MOST ? MOMENT_MOST : moment);
}

static double tick_length(const struct reference *reference, const struct operation_log *log)
{
    double length = clock_tick_length(log->opened, log->beat);
    return length > 0 ? length : reference->tick;
}

static double tick_length_here(void)
{
    struct clock_timestamp first = clock_timestamp();
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return clock_tick_length(first, clock_timestamp());
}

static int64_t moment_here(const struct reference *reference, uint64_t ticks)
{
    return moment_within((double)(int64_t)(ticks - reference->moment.ticks) * reference->tick);
}

/* How a log's ticks become moments: those of this machine directly, others by way of the rank that has asked. */
struct timing {
    const struct reference *reference;
    const struct operation_log *log;
    const struct status_page *asker; /* NULL: a log of this machine */
    int64_t offset;                  /* of the log's clock_now() against the asker's */
};

static int64_t inspection_moment_of(const struct timing *timing, uint64_t ticks)
{
    if (!timing->asker)
        return moment_here(timing->reference, ticks);
    const struct operation_log *log = timing->log;
    int64_t there = moment_within((double)(int64_t)(ticks - log->beat.ticks) * tick_length(timing->reference, log));
    struct clock_timestamp asker = {__atomic_load_n(&timing->asker->log.beat.ticks, __ATOMIC_RELAXED),
                                    __atomic_load_n(&timing->asker->log.beat.now, __ATOMIC_RELAXED)};
    /* Since the asker's last turn, by its clock. */
    uint64_t since = log->beat.now + (uint64_t)there - (uint64_t)timing->offset - asker.now;
    return moment_within((double)(int64_t)since + (double)moment_here(timing->reference, asker.ticks));
}

/* ---- operations ---- */

static void read_operation(const struct operation_entry *entry, const struct timing *timing,
                           struct inspected_operation *operation)
{
    uint32_t awaited = atomic_load_explicit(&entry->awaited, memory_order_relaxed);
    operation->communicator = entry->communicator & COMM_IDS;
    operation->is_message = entry->communicator & COMM_MESSAGES;
    operation->sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed) - 1;
    operation->phase = entry->phase <= OPERATION_DONE ? (enum operation_phase)entry->phase : OPERATION_DONE;
    operation->bytes = entry->collective < COLLECTIVES ? entry->count * weft_type_size((weft_type)entry->type) : 0;
    operation->tag = entry->hash;
    operation->started = inspection_moment_of(timing, entry->started);
    operation->since = awaited ? inspection_moment_of(timing, entry->since) : operation->started;
    operation->awaited = awaited && operation->phase != OPERATION_DONE ? awaited - 1 : INSPECTION_NOBODY;
    call_describe(entry, operation->text, sizeof operation->text);
    operation_place_name(entry->communicator, operation->sequence, operation->place, sizeof operation->place);
}

static void choose_current(struct inspected_rank *rank)
{
    const struct inspected_operation *blocking = NULL;
    for (uint32_t i = 0; i < rank->operation_count; i++) {
        const struct inspected_operation *operation = &rank->operations[i];
        if (operation->phase == OPERATION_DONE) {
            if (!rank->last)
                rank->last = operation;
            continue;
        }
        rank->current = operation;
        if (operation->phase == OPERATION_BLOCKING)
            blocking = operation;
    }
    if (blocking)
        rank->current = blocking;
}

/* Take over a log, a copy. */
static weft_status inspection_read_log(const struct timing *timing, struct inspected_rank *rank, struct error *error)
{
    const struct operation_log *log = timing->log;
    rank->count = atomic_load_explicit(&log->next, memory_order_relaxed);
    rank->operations = calloc(OPERATION_LOG_ENTRIES, sizeof *rank->operations);
    if (!rank->operations)
        return error_memory(error, OPERATION_LOG_ENTRIES * sizeof *rank->operations, "a rank's operations");
    for (uint32_t back = 0; back < OPERATION_LOG_ENTRIES && back < rank->count; back++) {
        const struct operation_entry *entry = &log->entries[(rank->count - 1 - back) % OPERATION_LOG_ENTRIES];
        if (atomic_load_explicit(&entry->sequence, memory_order_relaxed))
            read_operation(entry, timing, &rank->operations[rank->operation_count++]);
    }
    choose_current(rank);
    rank->state = !rank->current                                ? INSPECTED_OUTSIDE
                  : rank->current->awaited != INSPECTION_NOBODY ? INSPECTED_WAITING
                                                                : INSPECTED_MOVING;
    return WEFT_OK;
}

/* ---- processes ---- */

/* The bytes of a small file of a process, and NUL; how many there are. */
static size_t read_small(int32_t process, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    ssize_t length = file_read_small(AT_FDCWD, path, text, size);
    return length > 0 ? (size_t)length : 0;
}

static void inspection_read_process(struct inspected_rank *rank)
{
    rank->main_thread = process_state(rank->process);
    if (rank->main_thread == 'T' || rank->main_thread == 't')
        rank->state = INSPECTED_STOPPED;
    read_small(rank->process, "wchan", rank->where, sizeof rank->where);
    if (strcmp(rank->where, "0") == 0 || rank->main_thread == 'R')
        *rank->where = '\0';
}

static void read_command(int32_t process, char *text, size_t size)
{
    size_t length = read_small(process, "cmdline", text, size);
    while (length > 0 && text[length - 1] == '\0')
        length--;
    for (size_t i = 0; i < length; i++)
        text[i] = strchr("\n\t", text[i]) ? ' ' : text[i]; /* a word's end, too: NUL */
    text[length] = '\0';
    text_printable(text);
}

/* ---- jobs ---- */

/* Texts in a status page are whatever its process has written. */
static void inspection_copy_text(char *to, size_t size, const char *from, size_t most)
{
    size_t length = most < size ? most : size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
    text_printable(to);
}

static weft_status job_begin(const struct status_page_view *view, struct inspected_job *job, struct error *error)
{
    const struct status_page *status_page = view->status_page;
    *job = (struct inspected_job){.number = view->job, .started = status_page->started, .rank_count = view->ranks};
    job->ranks = calloc(view->ranks, sizeof *job->ranks);
    if (!job->ranks)
        return error_memory(error, view->ranks * sizeof *job->ranks, "the ranks of a job");
    inspection_copy_text(job->launcher, sizeof job->launcher, status_page->launcher, sizeof status_page->launcher);
    inspection_copy_text(job->name, sizeof job->name, status_page->run, sizeof status_page->run);
    if (!*job->name)
        snprintf(job->name, sizeof job->name, "job-%08" PRIx64, job->number >> 32);
    const struct passwd *user = getpwuid(view->owner);
    if (user)
        snprintf(job->user, sizeof job->user, "%s", user->pw_name);
    else
        snprintf(job->user, sizeof job->user, "%u", view->owner);
    for (uint32_t r = 0; r < job->rank_count; r++) {
        job->ranks[r].rank = r;
        job->ranks[r].process = status_page->who[r].process;
        job->ranks[r].state = INSPECTED_SILENT;
        inspection_copy_text(job->ranks[r].host, sizeof job->ranks[r].host, status_page->who[r].host,
                             sizeof status_page->who[r].host);
    }
    return WEFT_OK;
}

/* Whether status pages are of one job. Nobody can claim to be of another user's, nor say that a job has other ranks than its
 * other status pages do. */
static bool same_job(const struct status_page_view *a, const struct status_page_view *b)
{
    return a->job == b->job && a->owner == b->owner && a->ranks == b->ranks;
}

/* A rank of this machine: what its status page shows. */
static weft_status read_here(const struct status_page_view *view, const struct reference *reference,
                             struct inspected_job *job, struct error *error)
{
    struct operation_log log;
    struct inspected_rank *rank = &job->ranks[view->rank];
    if (rank->operations)
        return WEFT_OK;
    operation_log_copy(&view->status_page->log, &log);
    struct timing timing = {.reference = reference, .log = &log};
    rank->process = view->process;
    weft_status status = inspection_read_log(&timing, rank, error);
    inspection_read_process(rank);
    if (!job->here++ || view->rank == 0)
        read_command(view->process, job->command, sizeof job->command);
    return status;
}

/* Ranks that the asker's machine does not show: what they have told it. */
static weft_status read_elsewhere(const struct status_page_view *asker, uint64_t number,
                                  const struct reference *reference, struct inspected_job *job, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t r = 0; status == WEFT_OK && r < job->rank_count; r++) {
        const struct status_page_answer *answer = &status_page_answers(asker->status_page, asker->ranks)[r];
        struct operation_log log;
        if (job->ranks[r].operations ||
            atomic_load_explicit((_Atomic uint64_t *)&answer->number, memory_order_acquire) < number)
            continue;
        operation_log_copy(&answer->log, &log);
        struct timing timing = {reference, &log, asker->status_page, answer->offset};
        job->ranks[r].uncertainty = (double)answer->round_trip * 0.5e-9;
        status = inspection_read_log(&timing, &job->ranks[r], error);
    }
    return status;
}

/* Whether a rank that shows no status page should be on the machine of one that does. */
static void find_gone(const struct status_page_view *view, struct inspected_job *job)
{
    const struct status_page_rank *who = view->status_page->who, *own = &who[view->rank];
    for (uint32_t r = 0; r < job->rank_count; r++)
        if (!job->ranks[r].operations && strncmp(who[r].machine, own->machine, sizeof own->machine) == 0 &&
            kill(job->ranks[r].process, 0) != 0 && errno == ESRCH)
            job->ranks[r].state = INSPECTED_GONE;
}

/* The status pages of one job, of those of all. */
struct job_views {
    const struct status_page_view *views; /* the first is of this job, others may be */
    uint32_t count;
};

/* The next view of the job after number `i`; `count` if there is none. */
static uint32_t next_view(const struct job_views *of, uint32_t i)
{
    for (i++; i < of->count && !same_job(&of->views[i], &of->views[0]);)
        i++;
    return i;
}

/* Have a rank of this machine ask those of others; the number of the question, 0 if none is needed or can be put. */
static uint64_t ask_elsewhere(const struct job_views *of, const struct status_page_view **asker)
{
    uint32_t shown = 0, asked = 0;
    uint64_t question = 0;
    for (uint32_t i = 0; i < of->count; i = next_view(of, i))
        shown++;
    for (uint32_t i = 0; shown < of->views[0].ranks && !question && asked < ASKERS_MOST && i < of->count;
         i = next_view(of, i)) {
        if (!process_is_well(of->views[i].process))
            continue;
        *asker = &of->views[i];
        question = status_page_ring(*asker);
        asked++;
    }
    return question;
}

/* All that is known of a job. */
static weft_status read_job(const struct job_views *of, bool elsewhere, double tick, struct inspected_job *job,
                            struct error *error)
{
    weft_status status = job_begin(&of->views[0], job, error);
    if (status != WEFT_OK)
        return status;
    const struct status_page_view *asker = NULL;
    uint64_t question = elsewhere ? ask_elsewhere(of, &asker) : 0;
    struct reference reference = {clock_timestamp(), tick};
    for (uint32_t i = 0; status == WEFT_OK && i < of->count; i = next_view(of, i))
        status = read_here(&of->views[i], &reference, job, error);
    for (uint32_t i = 0; status == WEFT_OK && i < of->count; i = next_view(of, i))
        find_gone(&of->views[i], job);
    if (status == WEFT_OK && question)
        status = read_elsewhere(asker, question, &reference, job, error);
    if (status == WEFT_OK)
        status = inspection_judge_skew(job, error);
    if (status == WEFT_OK)
        status = inspection_judge_waits(job, error);
    return status;
}

static int compare_jobs(const void *left, const void *right)
{
    const struct inspected_job *a = left, *b = right;
    if (a->started != b->started)
        return a->started < b->started ? -1 : 1;
    return strcmp(a->name, b->name);
}

weft_status inspection_read(const struct status_page_view *views, uint32_t count, bool elsewhere,
                            struct inspection *inspection, struct error *error)
{
    struct inspection made = {.jobs = calloc(count ? count : 1, sizeof *made.jobs)};
    weft_status status = WEFT_OK;
    if (!made.jobs)
        return error_memory(error, count * sizeof *made.jobs, "the jobs of this machine");
    double tick = count ? tick_length_here() : 0;
    for (uint32_t i = 0; status == WEFT_OK && i < count; i++) {
        bool known = false;
        for (uint32_t earlier = 0; earlier < i && !known; earlier++)
            known = same_job(&views[earlier], &views[i]);
        if (known)
            continue;
        const struct job_views of = {&views[i], count - i};
        status = read_job(&of, elsewhere, tick, &made.jobs[made.job_count], error);
        made.job_count += made.jobs[made.job_count].ranks != NULL;
    }
    if (status != WEFT_OK) {
        inspection_close(&made);
        return status;
    }
    qsort(made.jobs, made.job_count, sizeof *made.jobs, compare_jobs);
    *inspection = made;
    return WEFT_OK;
}

weft_status inspection_open(bool elsewhere, struct inspection *inspection, struct error *error)
{
    struct status_page_view *views;
    uint32_t count;
    weft_status status = status_page_views_list(&views, &count, error);
    if (status != WEFT_OK)
        return status;
    status = inspection_read(views, count, elsewhere, inspection, error);
    status_page_views_free(views, count);
    return status;
}

void inspection_close(struct inspection *inspection)
{
    for (uint32_t j = 0; j < inspection->job_count; j++) {
        for (uint32_t r = 0; r < inspection->jobs[j].rank_count; r++)
            free(inspection->jobs[j].ranks[r].operations);
        free(inspection->jobs[j].ranks);
    }
    free(inspection->jobs);
    *inspection = (struct inspection){0};
}

static bool is_called(const struct inspected_job *job, const char *name)
{
    char *end;
    long process = strtol(name, &end, 10);
    if (strcmp(job->name, name) == 0)
        return true;
    for (uint32_t r = 0; !*end && r < job->rank_count; r++)
        if (job->ranks[r].process == process)
            return true;
    return false;
}

weft_status inspection_find(const struct inspection *inspection, const char *name, const struct inspected_job **job,
                            struct error *error)
{
    if (inspection->job_count == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "no job of yours runs on this machine; look on a host that has ranks of it");
    if (!name && inspection->job_count == 1) {
        *job = &inspection->jobs[0];
        return WEFT_OK;
    }
    if (!name)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%u jobs run here; name one of those that `weft ps` lists",
                         inspection->job_count);
    for (uint32_t j = 0; j < inspection->job_count; j++)
        if (is_called(&inspection->jobs[j], name)) {
            *job = &inspection->jobs[j];
            return WEFT_OK;
        }
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "no running job is called '%s', nor has a process of that number; `weft ps` lists them", name);
}
