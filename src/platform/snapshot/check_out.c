/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/list.h"
#include "platform/snapshot/receive.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)256 << 10)

weft_status snapshot_object_path(char path[FILE_PATH_BYTES], const char *store, const char *hash, const char *name,
                                 struct error *error)
{
    char inner[128];
    snprintf(inner, sizeof inner, "objects/%.2s%s%s", hash, name ? "/" : "", name ? name : "");
    return file_join(path, store, inner, error);
}

/* Copy the object of `entry` to `path`, and see that it is what it should be. */
static weft_status check_out_file(const char *store, const struct snapshot_entry *entry, const char *path,
                                  uint8_t *piece, struct error *error)
{
    char object[FILE_PATH_BYTES], hash[SHA256_TEXT_BYTES] = "";
    weft_status status = snapshot_object_path(object, store, entry->hash, entry->hash + 2, error);
    if (status != WEFT_OK)
        return status;
    int from = open(object, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return error_system(error, "cannot open '%s', which a snapshot needs", object);
    mode_t mode = (snapshot_entry_is_program(entry) ? 0777 : 0666) & (snapshot_entry_is_private(entry) ? 0700 : 0777);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (to < 0) {
        error_system(error, "cannot create '%s'", path);
        close(from);
        return WEFT_ERROR_SYSTEM;
    }
    struct sha256 state;
    uint8_t digest[SHA256_BYTES];
    bool shared = entry->size > 0 && ioctl(to, FICLONE, from) == 0;
    struct file_writer writer = {.descriptor = to, .expected = entry->size};
    snprintf(writer.path, sizeof writer.path, "%s", path);
    status = sha256_begin(&state, error);
    bool begun = status == WEFT_OK;
    while (status == WEFT_OK) {
        ssize_t n = read(from, piece, PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = error_system(error, "cannot read '%s'", object);
        if (n <= 0)
            break;
        sha256_update(&state, piece, (size_t)n);
        if (!shared)
            status = file_writer_append(&writer, piece, (size_t)n, error);
    }
    if (begun && sha256_end(&state, digest, error) == WEFT_OK)
        sha256_text(digest, hash);
    close(from);
    if (close(to) != 0 && status == WEFT_OK)
        status = error_system(error, "cannot write '%s'", path);
    if (status == WEFT_OK && strcmp(hash, entry->hash) != 0)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: its content is not what its name says", object);
    return status;
}

static weft_status check_out_entries(const char *store, struct snapshot_list *list, const char *target, uint8_t *piece,
                                     struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct snapshot_entry entry;
    bool found = true;
    for (;;) {
        weft_status status = snapshot_list_next(list, &entry, &found, error);
        if (status == WEFT_OK && found)
            status = file_join(path, target, entry.path, error);
        if (status != WEFT_OK || !found)
            return status;
        if (entry.kind == 'd' && mkdir(path, 0777) != 0)
            return error_system(error, "cannot make the directory '%s'", path);
        if (entry.kind == 'l' && symlink(entry.target, path) != 0)
            return error_system(error, "cannot make the link '%s'", path);
        if (snapshot_entry_is_file(&entry))
            status = check_out_file(store, &entry, path, piece, error);
        if (status != WEFT_OK)
            return status;
    }
}

bool snapshot_mark(const char *path)
{
    static const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    return utimensat(AT_FDCWD, path, times, 0) == 0;
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

weft_status snapshot_list_write(const char *path, const void *list, size_t size, struct error *error)
{
    weft_status status = file_write(path, list, size, error);
    if (status == WEFT_OK && chmod(path, 0600) != 0)
        status = error_system(error, "cannot close '%s' to others", path);
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

weft_status snapshot_list_load(const char *store, const char *id, char path[FILE_PATH_BYTES], char **text, size_t *size,
                               struct error *error)
{
    char hash[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    weft_status status = snapshot_list_path(path, store, id, error);
    if (status == WEFT_OK)
        status = file_read(path, SNAPSHOT_LIST_MOST, text, size, error);
    if (status != WEFT_OK)
        return status;
    status = sha256_of(*text, *size, digest, error);
    if (status == WEFT_OK && strcmp(sha256_text(digest, hash), id) != 0)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged: its content is not what its name says", path);
    if (status != WEFT_OK)
        free(*text);
    return status;
}

weft_status snapshot_check_out(const char *store, const char *id, const char *target, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    size_t size;
    struct snapshot_list list;
    weft_status status = snapshot_list_load(store, id, path, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!piece)
        status = error_memory(error, PIECE_BYTES, "copying files");
    if (status == WEFT_OK)
        status = snapshot_list_open(&list, text, size, path, error);
    if (status == WEFT_OK)
        status = file_make_directory_of(target, error);
    if (status == WEFT_OK && rmdir(target) != 0 && errno != ENOENT)
        status = error_system(error, "cannot check out a snapshot to '%s'", target);
    if (status == WEFT_OK && mkdir(target, 0777) != 0)
        status = error_system(error, "cannot make the directory '%s'", target);
    if (status == WEFT_OK) {
        status = check_out_entries(store, &list, target, piece, error);
        if (status != WEFT_OK)
            file_remove_tree(target, NULL);
    }
    free(piece);
    free(text);
    return status;
}
