/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/snapshot_stores.h"

#include "base/text.h"
#include "platform/registry/run/runs.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/store.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_status snapshot_store_of(const struct controller_directories *directories, const char *project,
                              char path[FILE_PATH_BYTES], struct error *error)
{
    return file_join(path, directories->snapshots, project, error);
}

/* An error if this is another user's snapshot, with the files that keep it private. */
static weft_status refuse_other(const char *store, const char *user, const char *id, int64_t parent,
                                struct error *error)
{
    char private[FILE_PATH_BYTES], path[FILE_PATH_BYTES], names[512], *list;
    size_t size;
    uint64_t count;
    if (!platform_name_is_valid(user) || snapshot_store_private(private, store, user, error) != WEFT_OK ||
        snapshot_list_path(path, private, id, error) != WEFT_OK || !file_exists(path) ||
        snapshot_list_load(private, id, path, &list, &size, error) != WEFT_OK)
        return WEFT_OK;
    weft_status status = snapshot_list_private(list, size, path, &count, names, sizeof names, error);
    free(list);
    if (status != WEFT_OK)
        return status;
    char run[32] = "this snapshot";
    if (parent > 0)
        snprintf(run, sizeof run, "run %" PRId64, parent);
    return error_set(error, WEFT_ERROR_STATE,
                     "the code of %s has %" PRIu64 " file%s that only %s may read (%s), so other users cannot use it. "
                     "Start from your own code (weft fork --code in its directory), or ask %s to let others read "
                     "%s (chmod go+r) and submit again",
                     run, count, count == 1 ? "" : "s", user, text_printable(names), user, count == 1 ? "it" : "them");
}

weft_status snapshot_stores_find(const struct controller_directories *directories, const char *project,
                                 const char *owner, const char *id, int64_t parent, char path[FILE_PATH_BYTES],
                                 struct error *error)
{
    char store[FILE_PATH_BYTES], private[FILE_PATH_BYTES];
    weft_status status = snapshot_store_of(directories, project, store, error);
    if (status != WEFT_OK || snapshot_store_find(path, store, owner, id))
        return status;
    DIR *listing = file_join(private, store, "private", NULL) == WEFT_OK ? opendir(private) : NULL;
    for (struct dirent *entry; listing && status == WEFT_OK && (entry = readdir(listing));)
        status = refuse_other(store, entry->d_name, id, parent, error);
    if (listing)
        closedir(listing);
    if (status == WEFT_OK)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "project '%s' has no snapshot %.12s...: upload it first, as weft submit does", project, id);
    return status;
}

/* The snapshots that runs of a project name, sorted. */
struct named {
    char (*ids)[RUN_SNAPSHOT_BYTES];
    size_t count;
};

static int by_id(const void *left, const void *right)
{
    return strcmp(left, right);
}

static bool snapshot_stores_is_named(void *context, const char *id)
{
    const struct named *named = context;
    return named->count > 0 && bsearch(id, named->ids, named->count, sizeof *named->ids, by_id) != NULL;
}

static void add_collected(struct snapshot_collected *sum, const struct snapshot_collected *more)
{
    sum->snapshots += more->snapshots;
    sum->objects += more->objects;
    sum->bytes += more->bytes;
}

/* A project's store, and the private ones in it. */
static weft_status collect_project(const char *store, int64_t before, struct named *named,
                                   struct snapshot_collected *collected, struct error *error)
{
    char private[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    struct snapshot_collected here = {0};
    weft_status status = snapshot_collect(store, before, snapshot_stores_is_named, named, &here, error);
    add_collected(collected, &here);
    DIR *listing = file_join(private, store, "private", NULL) == WEFT_OK ? opendir(private) : NULL;
    for (struct dirent *entry; listing && status == WEFT_OK && (entry = readdir(listing));) {
        if (!platform_name_is_valid(entry->d_name))
            continue;
        status = file_join(path, private, entry->d_name, error);
        if (status == WEFT_OK)
            status = snapshot_collect(path, before, snapshot_stores_is_named, named, &here, error);
        add_collected(collected, &here);
    }
    if (listing)
        closedir(listing);
    return status;
}

weft_status snapshot_stores_collect(const struct controller_directories *directories, struct database *registry,
                                    int64_t before, struct snapshot_collected *collected, struct error *error)
{
    DIR *listing = opendir(directories->snapshots);
    weft_status result = WEFT_OK;
    *collected = (struct snapshot_collected){0};
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char store[FILE_PATH_BYTES];
        struct named named = {0};
        struct snapshot_collected here = {0};
        struct error failure = {0};
        if (!platform_name_is_valid(entry->d_name))
            continue;
        weft_status status = snapshot_store_of(directories, entry->d_name, store, &failure);
        if (status == WEFT_OK)
            status = registry_run_snapshots(registry, entry->d_name, &named.ids, &named.count, &failure);
        if (status == WEFT_OK)
            status = collect_project(store, before, &named, &here, &failure);
        free(named.ids);
        add_collected(collected, &here);
        if (status != WEFT_OK) {
            error_clear(error);
            result = error_set(error, status, "%s", failure.text);
        }
    }
    if (listing)
        closedir(listing);
    return result;
}
