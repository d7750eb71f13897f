/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/retention.h"

#include "base/file/file.h"
#include "base/text.h"
#include "platform/registry/registry.h"
#include "platform/registry/run/runs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MOST ((int64_t)1000000000000000) /* of a run, as the API has it */
#define NAMED_MOST  256                         /* bytes of the runs that a message names */

/* ---- numbers ---- */

/* The largest number that something in a directory is called by; no smaller than `*largest`. */
static weft_status leftovers_look_at_directory(const char *directory, const char *name, int64_t *largest,
                                               struct error *error)
{
    char path[FILE_PATH_BYTES];
    int64_t number;
    weft_status status = file_join(path, directory, name, error);
    if (status != WEFT_OK)
        return status;
    DIR *listing = opendir(path);
    if (!listing)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot read the directory '%s'", path);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (text_parse_integer(entry->d_name, "run", 1, NUMBER_MOST, &number, NULL) == WEFT_OK && number > *largest)
            *largest = number;
    closedir(listing);
    return WEFT_OK;
}

static weft_status settle_numbers(const char *directory, const char *runs, struct database *registry,
                                  struct metric_store *metrics, struct error *error)
{
    int64_t largest = 0, last = 0;
    weft_status status = metric_store_last_run(metrics, &largest, error);
    if (status == WEFT_OK)
        status = leftovers_look_at_directory(directory, "engine", &largest, error);
    if (status == WEFT_OK)
        status = leftovers_look_at_directory(runs, ".", &largest, error);
    if (status == WEFT_OK)
        status = database_begin(registry, DATABASE_AS_NEEDED, error);
    if (status == WEFT_OK)
        status = database_end(registry, registry_number_above(registry, largest, &last, error), error);
    if (status == WEFT_OK && largest > last)
        fprintf(stderr,
                "weft: '%s' has no run above %" PRId64 ", but runs up to %" PRId64 " have left something in '%s': "
                "the next run is number %" PRId64 "\n",
                REGISTRY_FILE, last, largest, directory, largest + 1);
    return status;
}

/* ---- what still runs ---- */

struct orphans {
    struct database *registry;
    struct engine *engine;
    char named[NAMED_MOST]; /* "2, 5" */
    uint32_t count;
    weft_status status;
    struct error *error;
};

/* A node that has not begun may still do so on another machine. */
static bool note_running(void *context, const struct engine_node *node)
{
    bool *runs = context;
    *runs = *runs || node->state != ENGINE_NODE_ENDED;
    return !*runs;
}

/* Whether the registry has the run. */
static bool leftovers_is_known(struct orphans *orphans, const struct attempt *attempt)
{
    struct registry_run run;
    int64_t number;
    if (text_parse_integer(attempt->run, "run", 1, NUMBER_MOST, &number, NULL) != WEFT_OK)
        return false;
    struct error error = {0};
    const weft_status status = registry_run_get(orphans->registry, number, &run, &error);
    if (status != WEFT_OK && status != WEFT_ERROR_ARGUMENT)
        orphans->status = error_set(orphans->error, status, "%s", error.text);
    return status != WEFT_ERROR_ARGUMENT;
}

static bool end_orphan(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    struct orphans *orphans = context;
    bool runs = false;
    if ((own && leftovers_is_known(orphans, attempt)) ||
        orphans->engine->nodes(orphans->engine, attempt, note_running, &runs, NULL) != WEFT_OK || !runs)
        return orphans->status == WEFT_OK;
    orphans->status = orphans->engine->stop(orphans->engine, attempt, ENGINE_STOP, 0, orphans->error);
    const size_t used = strlen(orphans->named);
    if (used + ATTEMPT_RUN_BYTES + 8 < NAMED_MOST)
        snprintf(orphans->named + used, NAMED_MOST - used, "%s%s", used ? ", " : "", attempt->run);
    else if (used + 6 < NAMED_MOST && !strstr(orphans->named, "..."))
        snprintf(orphans->named + used, NAMED_MOST - used, ", ...");
    orphans->count++;
    return orphans->status == WEFT_OK;
}

weft_status leftovers_settle(const char *directory, const char *runs, struct database *registry,
                             struct metric_store *metrics, struct engine *engine, struct error *error)
{
    struct orphans orphans = {.registry = registry, .engine = engine, .status = WEFT_OK, .error = error};
    weft_status status = settle_numbers(directory, runs, registry, metrics, error);
    if (status == WEFT_OK)
        status = engine->attempts(engine, end_orphan, &orphans, error);
    if (orphans.count)
        fprintf(stderr, "weft: run%s %s, which '%s' does not know, still ran here, and %s asked to end\n",
                orphans.count > 1 ? "s" : "", orphans.named, REGISTRY_FILE, orphans.count > 1 ? "are" : "is");
    return status == WEFT_OK ? orphans.status : status;
}
