/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/collect.h"

#include "core/control/wire/frame.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

static int64_t collect_milliseconds(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000;
}

/* Neither written nor marked (snapshot_mark()) since then. */
static bool is_old(const struct collecting *collecting, const struct stat *there)
{
    return collect_milliseconds(&there->st_mtim) < collecting->before &&
           collect_milliseconds(&there->st_atim) < collecting->before;
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

/* Call `each` with every name in a directory of the store; one that is not there is empty. */
static weft_status each_name(struct collecting *collecting, const char *inner,
                             weft_status (*each)(struct collecting *collecting, const char *inner, int directory,
                                                 const char *name, struct error *error),
                             struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, collecting->store, inner, error);
    DIR *listing = status == WEFT_OK ? opendir(path) : NULL;
    if (status == WEFT_OK && !listing && errno != ENOENT)
        status = error_system(error, "cannot read the directory '%s'", path);
    for (struct dirent *entry; listing && status == WEFT_OK && (entry = readdir(listing));)
        if (entry->d_name[0] != '.')
            status = each(collecting, inner, dirfd(listing), entry->d_name, error);
    if (listing)
        closedir(listing);
    return status;
}

static weft_status look_at_snapshot(struct collecting *collecting, const char *inner, int directory, const char *name,
                                    struct error *error)
{
    struct stat there;
    if (fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return WEFT_OK;
    bool old = is_old(collecting, &there);
    bool good = strlen(name) == SNAPSHOT_ID_BYTES - 1 && strspn(name, "0123456789abcdef") == SNAPSHOT_ID_BYTES - 1;
    if (good && (!old || (collecting->named && collecting->named(collecting->context, name))))
        return need(collecting, name, error);
    if (old && unlinkat(directory, name, 0) == 0) /* or what a crash has left of one being written */
        collecting->collected->snapshots += good;
    return WEFT_OK;
}

static weft_status look_at_object(struct collecting *collecting, const char *inner, int directory, const char *name,
                                  struct error *error)
{
    struct stat there;
    char text[SHA256_TEXT_BYTES];
    uint8_t hash[SHA256_BYTES];
    const char *first = inner + sizeof "objects/" - 1;
    int length = snprintf(text, sizeof text, "%s%s", first, name);
    size_t count = buffer_size(&collecting->needed) / SHA256_BYTES;
    if (length == SHA256_TEXT_BYTES - 1 && sha256_parse(text, hash) && count > 0 &&
        bsearch(hash, buffer_begin(&collecting->needed), count, SHA256_BYTES, collect_by_bytes))
        return WEFT_OK;
    if (fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) != 0 || !is_old(collecting, &there) ||
        unlinkat(directory, name, 0) != 0)
        return WEFT_OK;
    collecting->collected->objects++;
    collecting->collected->bytes += (uint64_t)there.st_size;
    return WEFT_OK;
}

static weft_status collect_look_at_directory(struct collecting *collecting, const char *inner, int directory,
                                             const char *name, struct error *error)
{
    char path[16];
    if (strlen(name) != 2)
        return WEFT_OK;
    snprintf(path, sizeof path, "objects/%s", name);
    return each_name(collecting, path, look_at_object, error);
}

weft_status snapshot_collect(const char *store, int64_t before, bool (*named)(void *context, const char *id),
                             void *context, struct snapshot_collected *collected, struct error *error)
{
    struct collecting collecting = {store, before, named, context, collected, {0}};
    *collected = (struct snapshot_collected){0};
    weft_status status = each_name(&collecting, "snapshots", look_at_snapshot, error);
    size_t count = buffer_size(&collecting.needed) / SHA256_BYTES;
    if (count > 1)
        qsort(buffer_begin(&collecting.needed), count, SHA256_BYTES, collect_by_bytes);
    if (status == WEFT_OK)
        status = each_name(&collecting, "objects", collect_look_at_directory, error);
    buffer_free(&collecting.needed);
    return status;
}
