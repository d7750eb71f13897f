/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/disk.h"

#include "base/file/file.h"
#include "base/text.h"
#include "base/thread.h"
#include "platform/controller/controller.h"
#include "platform/registry/run/runs.h"
#include "platform/runs/directory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD        1.0  /* seconds between two measurements of a run */
#define PERIOD_FULL   0.2  /* while the disk is full, or fills */
#define REST          19.0 /* times as long as a measurement took nothing is measured */
#define REST_FULL     3.0
#define GROWN         ((uint64_t)1 << 20) /* bytes: a run that has grown by less is not what fills a project's share */
#define LARGEST_SHOWN 3

struct measured_run {
    int64_t run;
    char project[PLATFORM_NAME_BYTES];
    uint64_t bytes, quota;
    uint64_t settled;       /* its bytes when its project had no more than it may the last time */
    uint64_t told_at;       /* its bytes when it was reported; 0: it was not */
    bool live, measured;    /* live: at the last look at the registry */
    bool quota_known, last; /* last: measured since it has ended */
    bool seen;              /* in the present listing */
    bool to_tell, further, by_project;
};

struct disk_use {
    struct disk_use_config config;
    char directory[FILE_PATH_BYTES], runs[FILE_PATH_BYTES], engine[FILE_PATH_BYTES];
    struct database *registry; /* a reader, of the thread */
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool stopping;
    bool listed;                /* all runs were measured once, which the thread alone knows */
    bool hurry;                 /* by the mutex, as the next */
    struct measured_run *entry; /* by number; only the thread adds and removes */
    size_t count, room;
};

static struct measured_run *use_find(const struct disk_use *use, int64_t run)
{
    size_t low = 0, high = use->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (use->entry[middle].run < run)
            low = middle + 1;
        else
            high = middle;
    }
    return low < use->count && use->entry[low].run == run ? &use->entry[low] : NULL;
}

static uint64_t project_bytes(const struct disk_use *use, const char *project)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < use->count; i++)
        if (strcmp(use->entry[i].project, project) == 0)
            bytes += use->entry[i].bytes;
    return bytes;
}

/* ---- which runs there are ---- */

/* Put a run among those that are measured. */
static void use_add_run(struct disk_use *use, const struct registry_run *run)
{
    struct run_specification specification;
    if (ARRAY_RESERVE(use->entry, use->room, use->count + 1, "a list", NULL) != WEFT_OK)
        return;
    struct measured_run made = {.run = run->run, .live = !run_state_is_final(run->state), .seen = true};
    snprintf(made.project, sizeof made.project, "%s", run->project);
    if (registry_run_specification(use->registry, run->run, &specification, NULL) == WEFT_OK) {
        made.quota = (uint64_t)(specification.disk ? specification.disk : use->config.run_quota);
        made.quota_known = made.quota != 0;
        run_specification_free(&specification);
    }
    size_t at = use->count++;
    for (; at > 0 && use->entry[at - 1].run > made.run; at--)
        use->entry[at] = use->entry[at - 1];
    use->entry[at] = made;
}

/* Look up a run that has a directory. */
static void note_run(struct disk_use *use, int64_t number)
{
    struct registry_run run;
    struct measured_run *entry = use_find(use, number);
    if (entry && !entry->live) {
        entry->seen = true;
        return;
    }
    if (registry_run_get(use->registry, number, &run, NULL) != WEFT_OK)
        return;
    pthread_mutex_lock(&use->mutex);
    if (entry) {
        entry->seen = true;
        entry->live = !run_state_is_final(run.state);
    } else {
        use_add_run(use, &run);
    }
    pthread_mutex_unlock(&use->mutex);
}

/* Those that have a directory now: what was discarded is forgotten once it is removed. */
static void use_list_runs(struct disk_use *use)
{
    DIR *listing = opendir(use->runs);
    size_t kept = 0;
    if (!listing && errno != ENOENT) /* no descriptor is left, say: what is known stays */
        return;
    for (size_t i = 0; i < use->count; i++)
        use->entry[i].seen = false;
    for (struct dirent *entry; listing && !atomic_load(&use->stopping) && (entry = readdir(listing));) {
        char *end;
        const int64_t number = strtoll(entry->d_name, &end, 10);
        if (number >= 1 && !*end)
            note_run(use, number);
    }
    if (listing)
        closedir(listing);
    pthread_mutex_lock(&use->mutex);
    for (size_t i = 0; i < use->count; i++)
        if (use->entry[i].seen)
            use->entry[kept++] = use->entry[i];
    use->count = kept;
    pthread_mutex_unlock(&use->mutex);
}

/* ---- who takes too much ---- */

/* Decide whether to report a run. With the mutex. */
static void use_judge(struct disk_use *use, struct measured_run *entry)
{
    const uint64_t most = (uint64_t)use->config.project_quota;
    const bool project_full = most && project_bytes(use, entry->project) > most;
    if (!project_full)
        entry->settled = entry->bytes;
    if (!entry->live)
        return;
    const bool own = entry->quota && entry->bytes > entry->quota;
    const bool grows = project_full && entry->bytes > entry->settled + GROWN;
    if (!own && !grows)
        return;
    if (entry->told_at && entry->bytes <= entry->told_at + entry->told_at / 10)
        return;
    entry->further = entry->told_at != 0;
    entry->by_project = !own;
    entry->told_at = entry->bytes;
    entry->to_tell = true;
}

/* Measure a run. False: it could not be done. */
static bool use_measure(struct disk_use *use, size_t index)
{
    char path[FILE_PATH_BYTES], number[32];
    uint64_t files = 0, journals = 0;
    const int64_t run = use->entry[index].run;
    const bool ended = !use->entry[index].live;
    snprintf(number, sizeof number, "%" PRId64, run);
    if (run_directory_path(use->runs, run, "", path, NULL) != WEFT_OK ||
        !file_tree_bytes(path, &use->stopping, &files) || file_join(path, use->engine, number, NULL) != WEFT_OK ||
        !file_tree_bytes(path, &use->stopping, &journals))
        return false;
    const int64_t has = (int64_t)(files + journals);
    pthread_mutex_lock(&use->mutex);
    struct measured_run *entry = &use->entry[index];
    entry->bytes = files + journals;
    if (!entry->quota_known) {
        entry->quota = (uint64_t)controller_disk_quota(0, 0, use->directory, has);
        entry->quota_known = true;
        if (!use->listed && entry->quota < entry->bytes) /* what was free when it began is not known any more */
            entry->quota = entry->bytes;
    }
    if (!entry->measured && !use->listed)
        entry->settled = entry->bytes;
    entry->measured = true;
    entry->last = ended;
    use_judge(use, entry);
    const bool tells = entry->to_tell;
    pthread_mutex_unlock(&use->mutex);
    if (tells)
        use->config.wake(use->config.context);
    return true;
}

static void *use_watch(void *context)
{
    struct disk_use *use = context;
    while (!atomic_load(&use->stopping)) {
        const uint64_t began = clock_now();
        use_list_runs(use);
        for (size_t i = 0; i < use->count && !atomic_load(&use->stopping); i++)
            if (use->entry[i].live || !use->entry[i].last)
                use_measure(use, i);
        use->listed = true;
        const double took = (double)(clock_now() - began) * 1e-9;
        const uint64_t ended = clock_now();
        pthread_mutex_lock(&use->mutex);
        while (!atomic_load(&use->stopping)) {
            const double period = use->hurry ? PERIOD_FULL : PERIOD, rest = took * (use->hurry ? REST_FULL : REST);
            const double left = (period > rest ? period : rest) - (double)(clock_now() - ended) * 1e-9;
            if (left <= 0)
                break;
            thread_wait_until(&use->changed, &use->mutex, clock_after(left));
        }
        pthread_mutex_unlock(&use->mutex);
    }
    return NULL;
}

/* ---- what is known ---- */

static void use_say(struct disk_use *use, const struct measured_run *entry, struct disk_use_told *told)
{
    char has[32], most[32];
    if (entry->by_project)
        snprintf(told->message, sizeof told->message,
                 "project '%s' takes %s on disk, more than its quota of %s, and run %" PRId64
                 " keeps growing; discard ended runs of the project",
                 entry->project, text_bytes(project_bytes(use, entry->project), has, sizeof has),
                 text_bytes((uint64_t)use->config.project_quota, most, sizeof most), entry->run);
    else
        snprintf(told->message, sizeof told->message,
                 "run %" PRId64 " takes %s on disk, more than its quota of %s; ask for more with 'weft submit --disk'",
                 entry->run, text_bytes(entry->bytes, has, sizeof has), text_bytes(entry->quota, most, sizeof most));
}

bool disk_use_next(struct disk_use *use, struct disk_use_told *told)
{
    bool found = false;
    pthread_mutex_lock(&use->mutex);
    for (size_t i = 0; i < use->count && !found; i++) {
        struct measured_run *entry = &use->entry[i];
        if (!entry->to_tell)
            continue;
        found = true;
        entry->to_tell = false;
        told->run = entry->run;
        told->further = entry->further;
        use_say(use, entry, told);
    }
    pthread_mutex_unlock(&use->mutex);
    return found;
}

void disk_use_repeat(struct disk_use *use, const struct disk_use_told *told)
{
    pthread_mutex_lock(&use->mutex);
    struct measured_run *entry = use_find(use, told->run);
    if (entry)
        entry->to_tell = true;
    pthread_mutex_unlock(&use->mutex);
}

void disk_use_hurry(struct disk_use *use, bool hurry)
{
    pthread_mutex_lock(&use->mutex);
    if (use->hurry != hurry)
        pthread_cond_signal(&use->changed);
    use->hurry = hurry;
    pthread_mutex_unlock(&use->mutex);
}

bool disk_use_run(struct disk_use *use, int64_t run, uint64_t *bytes, uint64_t *quota)
{
    pthread_mutex_lock(&use->mutex);
    const struct measured_run *entry = use_find(use, run);
    const bool measured = entry && entry->measured;
    *bytes = measured ? entry->bytes : 0;
    *quota = measured ? entry->quota : 0;
    pthread_mutex_unlock(&use->mutex);
    return measured;
}

uint64_t disk_use_project(struct disk_use *use, const char *project)
{
    pthread_mutex_lock(&use->mutex);
    const uint64_t bytes = project_bytes(use, project);
    pthread_mutex_unlock(&use->mutex);
    return bytes;
}

uint64_t disk_use_project_quota(const struct disk_use *use)
{
    return (uint64_t)use->config.project_quota;
}

weft_status disk_use_check(struct disk_use *use, const char *project, struct error *error)
{
    char has[32], most[32];
    const uint64_t bytes = disk_use_project(use, project), quota = (uint64_t)use->config.project_quota;
    if (!quota || bytes < quota)
        return WEFT_OK;
    return error_set(
        error, WEFT_ERROR_STATE,
        "project '%s' takes %s on disk, and its quota is %s: discard runs of it that have ended ('weft discard')",
        project, text_bytes(bytes, has, sizeof has), text_bytes(quota, most, sizeof most));
}

/* Larger runs come first; of those that take the same, the older ones. */
static bool comes_after(const struct measured_run *entry, const struct measured_run *other)
{
    return entry->bytes != other->bytes ? entry->bytes < other->bytes : entry->run > other->run;
}

char *disk_use_largest(struct disk_use *use, char *text, size_t size)
{
    const struct measured_run *last = NULL;
    size_t used = 0;
    text[0] = '\0';
    pthread_mutex_lock(&use->mutex);
    for (int shown = 0; shown < LARGEST_SHOWN && used < size; shown++) {
        const struct measured_run *largest = NULL;
        char has[32];
        for (const struct measured_run *entry = use->entry; entry < use->entry + use->count; entry++)
            if (entry->live && entry->bytes && (!last || comes_after(entry, last)) &&
                (!largest || comes_after(largest, entry)))
                largest = entry;
        if (!largest)
            break;
        last = largest;
        used += (size_t)snprintf(text + used, size - used, "%srun %" PRId64 " (%s)", shown ? ", " : "", largest->run,
                                 text_bytes(largest->bytes, has, sizeof has));
    }
    pthread_mutex_unlock(&use->mutex);
    return text;
}

/* ---- its life ---- */

weft_status disk_use_open(const struct disk_use_config *config, struct disk_use **use, struct error *error)
{
    struct disk_use *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "what runs take on disk");
    made->config = *config;
    snprintf(made->directory, sizeof made->directory, "%s", config->directory);
    snprintf(made->runs, sizeof made->runs, "%s", config->runs);
    thread_condition_init(&made->mutex, &made->changed);
    weft_status status = file_join(made->engine, config->directory, "engine", error);
    if (status != WEFT_OK) {
        disk_use_close(made);
        return status;
    }
    *use = made;
    return WEFT_OK;
}

weft_status disk_use_start(struct disk_use *use, struct error *error)
{
    weft_status status = registry_open(use->directory, DATABASE_READER, &use->registry, error);
    if (status != WEFT_OK)
        return status;
    const int failure = thread_start(&use->thread, use_watch, use);
    if (failure)
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot start the thread that measures what runs take on disk");
    use->started = true;
    return WEFT_OK;
}

void disk_use_stop(struct disk_use *use)
{
    if (!use || !use->started)
        return;
    pthread_mutex_lock(&use->mutex);
    atomic_store(&use->stopping, true);
    pthread_cond_broadcast(&use->changed);
    pthread_mutex_unlock(&use->mutex);
    pthread_join(use->thread, NULL);
    use->started = false;
}

void disk_use_close(struct disk_use *use)
{
    if (!use)
        return;
    disk_use_stop(use);
    database_close(use->registry);
    pthread_cond_destroy(&use->changed);
    pthread_mutex_destroy(&use->mutex);
    free(use->entry);
    free(use);
}
