/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/store.h"

#include "base/sha256.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- stores ---- */

weft_status snapshot_store_make(const char *store, struct error *error)
{
    char path[FILE_PATH_BYTES];
    static const char *const parts[] = {"objects", "snapshots"};
    weft_status made = file_make_directory_of(store, error);
    if (made != WEFT_OK)
        return made;
    (void)!mkdir(store, 0700); /* what users write is not for others to read; what fails here fails below */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        weft_status status = file_join(path, store, parts[i], error);
        if (status == WEFT_OK && mkdir(path, 0700) != 0 && errno != EEXIST)
            status = error_system(error, "cannot make the directory '%s'", path);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

weft_status snapshot_store_sync(const char *store, struct error *error)
{
    int directory = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    weft_status status =
        directory >= 0 && syncfs(directory) == 0 ? WEFT_OK : error_system(error, "cannot sync '%s'", store);
    file_close(directory);
    return status;
}

weft_status snapshot_store_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                   struct error *error)
{
    char inner[FILE_PATH_BYTES];
    weft_status status = file_join(inner, "private", owner, error);
    return status == WEFT_OK ? file_join(path, store, inner, error) : status;
}

weft_status snapshot_store_make_private(char path[FILE_PATH_BYTES], const char *store, const char *owner,
                                        struct error *error)
{
    weft_status status = snapshot_store_make(store, error);
    if (status == WEFT_OK)
        status = file_join(path, store, "private", error);
    if (status == WEFT_OK && mkdir(path, 0700) != 0 && errno != EEXIST)
        status = error_system(error, "cannot make the directory '%s'", path);
    if (status == WEFT_OK)
        status = snapshot_store_private(path, store, owner, error);
    return status == WEFT_OK ? snapshot_store_make(path, error) : status;
}

bool snapshot_store_find(char path[FILE_PATH_BYTES], const char *store, const char *owner, const char *id)
{
    if (snapshot_is_there(store, id)) {
        memcpy(path, store, strlen(store) + 1);
        return true;
    }
    return *owner && snapshot_store_private(path, store, owner, NULL) == WEFT_OK && snapshot_is_there(path, id);
}

/* ---- what is in them ---- */

bool snapshot_mark(const char *path)
{
    static const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    return utimensat(AT_FDCWD, path, times, 0) == 0;
}

/* Read the file at `path`, whose content has the SHA-256 `wanted`. */
static weft_status store_read(const char *path, size_t most, const char *wanted, char **content, size_t *size,
                              struct error *error)
{
    char hash[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    weft_status status = file_read(path, most, content, size, error);
    if (status != WEFT_OK)
        return status;
    status = sha256_of(*content, *size, digest, error);
    if (status == WEFT_OK && strcmp(sha256_text(digest, hash), wanted) != 0)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: its content is not what its name says", path);
    if (status != WEFT_OK)
        free(*content);
    return status;
}

weft_status snapshot_object_path(char path[FILE_PATH_BYTES], const char *store, const char *hash, const char *name,
                                 struct error *error)
{
    char inner[128];
    snprintf(inner, sizeof inner, "objects/%.2s%s%s", hash, name ? "/" : "", name ? name : "");
    return file_join(path, store, inner, error);
}

bool snapshot_object_find(const char *store, const char *hash, uint64_t size)
{
    char path[FILE_PATH_BYTES];
    struct stat there;
    return snapshot_object_path(path, store, hash, hash + 2, NULL) == WEFT_OK && stat(path, &there) == 0 &&
           S_ISREG(there.st_mode) && (uint64_t)there.st_size == size && snapshot_mark(path);
}

weft_status snapshot_object_read(const char *store, const char *hash, char **content, size_t *size, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = snapshot_object_path(path, store, hash, hash + 2, error);
    return status == WEFT_OK ? store_read(path, SNAPSHOT_PACK_MOST, hash, content, size, error) : status;
}

weft_status snapshot_list_path(char path[FILE_PATH_BYTES], const char *store, const char *id, struct error *error)
{
    char inner[sizeof "snapshots/" + SNAPSHOT_ID_BYTES];
    if (strlen(id) != SNAPSHOT_ID_BYTES - 1 || strspn(id, "0123456789abcdef") != SNAPSHOT_ID_BYTES - 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.80s' is no snapshot: one is named by 64 hexadecimal digits",
                         id);
    snprintf(inner, sizeof inner, "snapshots/%s", id);
    return file_join(path, store, inner, error);
}

bool snapshot_is_there(const char *store, const char *id)
{
    char path[FILE_PATH_BYTES];
    return snapshot_list_path(path, store, id, NULL) == WEFT_OK && snapshot_mark(path);
}

weft_status snapshot_list_write(const char *path, const void *list, size_t size, struct error *error)
{
    weft_status status = file_write(path, list, size, error);
    if (status == WEFT_OK && chmod(path, 0600) != 0)
        status = error_system(error, "cannot close '%s' to others", path);
    return status;
}

weft_status snapshot_list_load(const char *store, const char *id, char path[FILE_PATH_BYTES], char **text, size_t *size,
                               struct error *error)
{
    weft_status status = snapshot_list_path(path, store, id, error);
    return status == WEFT_OK ? store_read(path, SNAPSHOT_LIST_MOST, id, text, size, error) : status;
}
