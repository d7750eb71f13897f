/* SPDX-License-Identifier: Apache-2.0 */
#include "service/snapshot_stores.h"

#include "platform/registry_run_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

weft_status snapshot_store_of(const struct controller_folders *folders, const char *project, char path[FILE_PATH_BYTES],
                              struct error *error)
{
    return file_join(path, folders->snapshots, project, error);
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

static bool is_named(void *context, const char *id)
{
    const struct named *named = context;
    return named->count > 0 && bsearch(id, named->ids, named->count, sizeof *named->ids, by_id) != NULL;
}

weft_status snapshot_stores_collect(const struct controller_folders *folders, struct database *registry, int64_t before,
                                    struct snapshot_collected *collected, struct error *error)
{
    DIR *listing = opendir(folders->snapshots);
    weft_status result = WEFT_OK;
    *collected = (struct snapshot_collected){0};
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char store[FILE_PATH_BYTES];
        struct named named = {0};
        struct snapshot_collected here = {0};
        struct error failure = {0};
        if (!platform_name_is_valid(entry->d_name))
            continue;
        weft_status status = snapshot_store_of(folders, entry->d_name, store, &failure);
        if (status == WEFT_OK)
            status = registry_run_snapshots(registry, entry->d_name, &named.ids, &named.count, &failure);
        if (status == WEFT_OK)
            status = snapshot_collect(store, before, is_named, &named, &here, &failure);
        free(named.ids);
        collected->snapshots += here.snapshots;
        collected->objects += here.objects;
        collected->bytes += here.bytes;
        if (status != WEFT_OK) {
            error_clear(error);
            result = error_set(error, status, "%s", failure.text);
        }
    }
    if (listing)
        closedir(listing);
    return result;
}
