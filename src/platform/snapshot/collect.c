/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/collect.h"

#include "base/clock.h"
#include "core/control/wire/frame.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct collecting {
    const char *store;
    int64_t before;
    bool (*named)(void *context, const char *id);
    void *context;
    struct snapshot_collected *collected;
    struct buffer needed; /* hashes of the objects that lists name, in digits; sorted */
};

/* Neither written nor marked (snapshot_mark()) since then. */
static bool is_old(const struct collecting *collecting, const FTSENT *file)
{
    return clock_to_milliseconds(&file->fts_statp->st_mtim) < collecting->before &&
           clock_to_milliseconds(&file->fts_statp->st_atim) < collecting->before;
}

static int collect_by_bytes(const void *left, const void *right)
{
    return memcmp(left, right, SHA256_BYTES);
}

/* Note the objects of a snapshot that stays. */
static weft_status need(struct collecting *collecting, const char *id, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    size_t size;
    struct snapshot_list list;
    struct snapshot_entry entry;
    bool found = true;
    weft_status status = snapshot_list_load(collecting->store, id, path, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    status = snapshot_list_open(&list, text, size, path, error);
    while (status == WEFT_OK && found) {
        uint8_t hash[SHA256_BYTES];
        status = snapshot_list_next(&list, &entry, &found, error);
        if (status == WEFT_OK && found && snapshot_entry_is_file(&entry) && sha256_parse(entry.hash, hash))
            buffer_put(&collecting->needed, hash, sizeof hash);
    }
    free(text);
    if (status == WEFT_OK && collecting->needed.failed)
        status = error_memory(error, buffer_size(&collecting->needed), "the objects of snapshots");
    return status;
}

static weft_status collect_look_at_snapshot(struct collecting *collecting, const FTSENT *file, struct error *error)
{
    const char *name = file->fts_name;
    bool old = is_old(collecting, file);
    bool good = strlen(name) == SNAPSHOT_ID_BYTES - 1 && strspn(name, "0123456789abcdef") == SNAPSHOT_ID_BYTES - 1;
    if (good && (!old || (collecting->named && collecting->named(collecting->context, name))))
        return need(collecting, name, error);
    if (old && unlink(file->fts_accpath) == 0) /* or what a crash has left of one being written */
        collecting->collected->snapshots += good;
    return WEFT_OK;
}

static weft_status collect_look_at_object(struct collecting *collecting, const FTSENT *file, struct error *error)
{
    char text[SHA256_TEXT_BYTES];
    uint8_t hash[SHA256_BYTES];
    size_t count = buffer_size(&collecting->needed) / SHA256_BYTES;
    int length = snprintf(text, sizeof text, "%s%s", file->fts_parent->fts_name, file->fts_name);
    bool good = length == SHA256_TEXT_BYTES - 1 && sha256_parse(text, hash);
    if (good && count > 0 && bsearch(hash, buffer_begin(&collecting->needed), count, SHA256_BYTES, collect_by_bytes))
        return WEFT_OK;
    if (!is_old(collecting, file) || unlink(file->fts_accpath) != 0)
        return WEFT_OK;
    collecting->collected->objects++;
    collecting->collected->bytes += (uint64_t)file->fts_statp->st_size;
    return WEFT_OK;
}

/* Call `each` with every file in a directory of the store; a directory that is not there is empty. */
static weft_status collect_each_file(struct collecting *collecting, const char *inner,
                                     weft_status (*each)(struct collecting *collecting, const FTSENT *file,
                                                         struct error *error),
                                     struct error *error)
{
    char path[FILE_PATH_BYTES], *paths[] = {path, NULL};
    weft_status status = file_join(path, collecting->store, inner, error);
    FTS *walk = status == WEFT_OK ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    if (status == WEFT_OK && !walk)
        status = error_system(error, "cannot read the directory '%s'", path);
    for (FTSENT *file; status == WEFT_OK && (file = fts_read(walk));) {
        errno = file->fts_errno;
        if (file->fts_info == FTS_DNR || file->fts_info == FTS_ERR)
            status = error_system(error, "cannot read the directory '%s'", file->fts_path);
        else if (file->fts_info == FTS_F)
            status = each(collecting, file, error);
    }
    if (walk)
        fts_close(walk);
    return status;
}

weft_status snapshot_collect(const char *store, int64_t before, bool (*named)(void *context, const char *id),
                             void *context, struct snapshot_collected *collected, struct error *error)
{
    struct collecting collecting = {store, before, named, context, collected, {0}};
    *collected = (struct snapshot_collected){0};
    weft_status status = collect_each_file(&collecting, "snapshots", collect_look_at_snapshot, error);
    size_t count = buffer_size(&collecting.needed) / SHA256_BYTES;
    if (count > 1)
        qsort(buffer_begin(&collecting.needed), count, SHA256_BYTES, collect_by_bytes);
    if (status == WEFT_OK)
        status = collect_each_file(&collecting, "objects", collect_look_at_object, error);
    buffer_free(&collecting.needed);
    return status;
}
