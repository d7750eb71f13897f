/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot.h"

#include "base/text.h"
#include "platform/ignore.h"
#include "platform/snapshot_list.h"
#include "platform/snapshot_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define IGNORE_FILE   ".weftignore"
#define DEPTH_MOST    128
#define PIECE_BYTES   ((size_t)256 << 10)
#define TRIES         3
#define SYNCED_EACH   16 /* new objects; above that one sync of the file system takes less time */
#define ALWAYS_IGNORE ".git/\n.hg/\n.svn/\n__pycache__/\n"

/* A snapshot being taken. */
struct taking {
    const char *store, *folder;
    const char *named; /* the folder as it stands before a slash */
    struct snapshot_limits limits;
    bool foreign; /* the folder is not trusted */
    uid_t holder; /* of the folder */
    struct snapshot snapshot;
    struct ignore ignore;
    struct buffer list;
    struct stat store_status;
    char token[24];        /* in the names of what it has not finished */
    struct buffer pending; /* hashes of new objects, as texts with their NUL: written, but under other names yet */
    uint8_t *piece;        /* PIECE_BYTES to read into */
};

/* ---- files ------------------------------------------------------------------------------------------------------ */

/*
 * Read `file` from its beginning, hash what is read, and pass it on to `writer` if that is not NULL. `most` bytes are
 * read at most: a file that grows is not followed for ever.
 */
static weft_status hash_file(struct taking *taking, int file, const char *path, uint64_t most,
                             struct file_writer *writer, char hash[SHA256_TEXT_BYTES], uint64_t *size,
                             struct error *error)
{
    struct sha256 state;
    uint8_t digest[SHA256_BYTES];
    weft_status status = sha256_begin(&state, error);
    if (status != WEFT_OK)
        return status;
    *size = 0;
    while (*size <= most) {
        ssize_t n = pread(file, taking->piece, PIECE_BYTES, (off_t)*size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = error_system(error, "cannot read '%s/%s'", taking->named, path);
        if (n <= 0)
            break;
        sha256_update(&state, taking->piece, (size_t)n);
        *size += (uint64_t)n;
        if (writer)
            status = file_writer_append(writer, taking->piece, (size_t)n, error);
        if (status != WEFT_OK)
            break;
    }
    weft_status ended = sha256_end(&state, digest, error);
    sha256_text(digest, hash);
    return status != WEFT_OK ? status : ended;
}

/* The name under which an object is written before it is safe on disk. */
static weft_status partial_path(char path[FILE_PATH_BYTES], const struct taking *taking, const char *hash,
                                struct error *error)
{
    char name[100];
    snprintf(name, sizeof name, "partial-%s-%s", taking->token, hash + 2);
    return snapshot_object_path(path, taking->store, hash, name, error);
}

static bool is_there(const char *path, uint64_t size)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISREG(there.st_mode) && (uint64_t)there.st_size == size;
}

/* Put the content of `file`, which was hashed, into the store; `*same` tells whether it was that still. */
static weft_status keep_object(struct taking *taking, int file, const char *path, const struct snapshot_entry *entry,
                               bool *same, struct error *error)
{
    char object[FILE_PATH_BYTES], partial[FILE_PATH_BYTES], hash[SHA256_TEXT_BYTES];
    uint64_t size;
    *same = true;
    weft_status status = snapshot_object_path(object, taking->store, entry->hash, entry->hash + 2, error);
    if (status == WEFT_OK)
        status = partial_path(partial, taking, entry->hash, error);
    if (status != WEFT_OK || is_there(partial, entry->size))
        return status;
    if (is_there(object, entry->size) && snapshot_mark(object)) /* used: snapshot_collect.h */
        return WEFT_OK;
    struct file_writer writer;
    status = snapshot_object_create(&writer, taking->store, entry->hash, partial, entry->size, error);
    if (status != WEFT_OK)
        return status;
    fchmod(writer.descriptor, 0400);
    status = hash_file(taking, file, path, entry->size, &writer, hash, &size, error);
    *same = status == WEFT_OK && strcmp(hash, entry->hash) == 0;
    if (!*same) {
        file_writer_discard(&writer);
        return status;
    }
    buffer_put(&taking->pending, entry->hash, SHA256_TEXT_BYTES);
    if (taking->pending.failed)
        status = error_memory(error, SHA256_TEXT_BYTES, "the list of new objects");
    if (close(writer.descriptor) != 0 && status == WEFT_OK) /* it is synced with all the others */
        status = error_system(error, "cannot write '%s'", partial);
    if (status != WEFT_OK)
        unlink(partial);
    taking->snapshot.new_bytes += entry->size;
    return status;
}

/* Have the disk keep all new objects: by their names if they are few, else the file system as a whole. */
static weft_status sync_objects(const struct taking *taking, bool folders, struct error *error)
{
    size_t count = buffer_size(&taking->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&taking->pending);
    weft_status status = WEFT_OK;
    for (size_t i = 0; count <= SYNCED_EACH && status == WEFT_OK && i < count; i++, hash += SHA256_TEXT_BYTES) {
        char path[FILE_PATH_BYTES];
        status = folders ? snapshot_object_path(path, taking->store, hash, NULL, error)
                         : partial_path(path, taking, hash, error);
        int file = status == WEFT_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (status == WEFT_OK && (file < 0 || fsync(file) != 0))
            status = error_system(error, "cannot sync '%s'", path);
        if (file >= 0)
            close(file);
    }
    if (count <= SYNCED_EACH)
        return status;
    int store = open(taking->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store < 0 || syncfs(store) != 0)
        status = error_system(error, "cannot sync '%s'", taking->store);
    if (store >= 0)
        close(store);
    return status;
}

/* Give new objects their names, now that their content is safe. */
static weft_status name_objects(struct taking *taking, struct error *error)
{
    size_t count = buffer_size(&taking->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&taking->pending);
    weft_status status = sync_objects(taking, false, error);
    for (size_t i = 0; status == WEFT_OK && i < count; i++, hash += SHA256_TEXT_BYTES) {
        char partial[FILE_PATH_BYTES], object[FILE_PATH_BYTES];
        if ((status = partial_path(partial, taking, hash, error)) == WEFT_OK &&
            (status = snapshot_object_path(object, taking->store, hash, hash + 2, error)) == WEFT_OK &&
            rename(partial, object) != 0)
            status = error_system(error, "cannot rename '%s' to '%s'", partial, object);
    }
    return status == WEFT_OK && count > 0 ? sync_objects(taking, true, error) : status;
}

/* Take away what was not named. */
static void drop_objects(const struct taking *taking)
{
    size_t count = buffer_size(&taking->pending) / SHA256_TEXT_BYTES;
    const char *hash = (const char *)buffer_begin(&taking->pending);
    for (size_t i = 0; i < count; i++, hash += SHA256_TEXT_BYTES) {
        char partial[FILE_PATH_BYTES];
        if (partial_path(partial, taking, hash, NULL) == WEFT_OK)
            unlink(partial);
    }
}

static weft_status too_large(const struct taking *taking, const char *what, uint64_t has, uint64_t limit,
                             struct error *error)
{
    char large[32], most[32];
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "%s has %s, and a snapshot's limit is %s; name what the run does not need in '%s/" IGNORE_FILE
                     "', or send no code (--no-snapshot)",
                     what, text_bytes(has, large, sizeof large), text_bytes(limit, most, sizeof most), taking->folder);
}

/* Of a foreign folder, whether an open file is its owner's. */
static weft_status check_holder(const struct taking *taking, int file, const char *path, struct error *error)
{
    struct stat there;
    if (!taking->foreign || geteuid() != 0)
        return WEFT_OK;
    if (fstat(file, &there) == 0 && there.st_uid == taking->holder)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_STATE,
                     "'%s/%s' is no file of the run's own account (user %u): no snapshot is taken of it", taking->named,
                     path, (unsigned)taking->holder);
}

static weft_status take_file(struct taking *taking, int parent, const char *name, const char *path, struct error *error)
{
    struct snapshot_entry entry = {.kind = 'f', .path = path};
    bool same = false;
    int file = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return error_system(error, "cannot read '%s/%s'", taking->named, path);
    weft_status status = WEFT_OK;
    for (int attempt = 0; status == WEFT_OK && !same && attempt < TRIES; attempt++) {
        struct stat before, after;
        uint64_t room = taking->limits.bytes - taking->snapshot.bytes;
        if ((status = check_holder(taking, file, path, error)) != WEFT_OK)
            break;
        if (fstat(file, &before) != 0 || !S_ISREG(before.st_mode)) {
            status = error_set(error, WEFT_ERROR_SYSTEM, "'%s/%s' is no file any more: try again", taking->named, path);
            break;
        }
        entry.kind = before.st_mode & 0111 ? 'x' : 'f';
        uint64_t size = (uint64_t)before.st_size;
        if (size > taking->limits.file_bytes)
            status = too_large(taking, path, size, taking->limits.file_bytes, error);
        else if (size > room)
            status = too_large(taking, taking->folder, taking->snapshot.bytes + size, taking->limits.bytes, error);
        else
            status = hash_file(taking, file, path, size, NULL, entry.hash, &entry.size, error);
        bool still = status == WEFT_OK && entry.size == size && fstat(file, &after) == 0 &&
                     after.st_size == before.st_size && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                     after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
        if (still)
            status = keep_object(taking, file, path, &entry, &same, error);
    }
    close(file);
    if (status == WEFT_OK && !same)
        status = error_set(error, WEFT_ERROR_SYSTEM,
                           "'%s/%s' changes while it is read; stop what writes to it, or name it in " IGNORE_FILE,
                           taking->named, path);
    if (status != WEFT_OK)
        return status;
    taking->snapshot.files++;
    taking->snapshot.bytes += entry.size;
    snapshot_list_put(&taking->list, &entry);
    return WEFT_OK;
}

static weft_status take_link(struct taking *taking, int parent, const char *name, const char *path, struct error *error)
{
    char target[FILE_PATH_BYTES];
    ssize_t length = readlinkat(parent, name, target, sizeof target - 1);
    if (length <= 0)
        return error_system(error, "cannot read the link '%s/%s'", taking->named, path);
    target[length] = '\0';
    struct snapshot_entry entry = {.kind = 'l', .path = path, .target = target};
    snapshot_list_put(&taking->list, &entry);
    taking->snapshot.links++;
    return WEFT_OK;
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

/* The names in a folder, sorted. */
static weft_status list_names(struct taking *taking, int folder, const char *path, char ***names, size_t *count,
                              struct error *error)
{
    char **list = NULL;
    size_t used = 0, room = 0;
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again >= 0 ? fdopendir(again) : NULL;
    if (!listing) {
        error_system(error, "cannot read the folder '%s/%s'", taking->named, path);
        if (again >= 0)
            close(again);
        return WEFT_ERROR_SYSTEM;
    }
    weft_status status = WEFT_OK;
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (used == room) {
            room = room ? 2 * room : 64;
            char **grown = realloc(list, room * sizeof *list);
            if (!grown) {
                status = error_memory(error, room * sizeof *list, "the names in a folder");
                break;
            }
            list = grown;
        }
        if (!(list[used] = strdup(entry->d_name)))
            status = error_memory(error, strlen(entry->d_name), "the names in a folder");
        else
            used++;
    }
    closedir(listing);
    if (status != WEFT_OK) {
        free_names(list, used);
        return status;
    }
    if (used > 1)
        qsort(list, used, sizeof *list, by_name);
    *names = list;
    *count = used;
    return WEFT_OK;
}

static weft_status take_folder(struct taking *taking, int folder, const char *path, int depth, struct error *error);

static weft_status take_entry(struct taking *taking, int parent, const char *name, const char *path, int depth,
                              struct error *error)
{
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot look at '%s/%s'", taking->named, path);
    bool folder = S_ISDIR(status.st_mode);
    if (folder && status.st_dev == taking->store_status.st_dev && status.st_ino == taking->store_status.st_ino)
        return WEFT_OK;
    if (ignore_has(&taking->ignore, path, folder)) {
        taking->snapshot.left_out++;
        return WEFT_OK;
    }
    if (!folder && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
        taking->snapshot.special++;
        return WEFT_OK;
    }
    if (taking->snapshot.files + taking->snapshot.folders + taking->snapshot.links >= taking->limits.entries)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' has more than the %" PRIu64 " files and folders that a snapshot may have; name what the "
                         "run does not need in '%s/" IGNORE_FILE "', or send no code (--no-snapshot)",
                         taking->folder, taking->limits.entries, taking->folder);
    if (S_ISLNK(status.st_mode))
        return take_link(taking, parent, name, path, error);
    if (!folder)
        return take_file(taking, parent, name, path, error);
    if (depth >= DEPTH_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s/%s': folders nest deeper than %d", taking->named, path,
                         DEPTH_MOST);
    int inner = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return error_system(error, "cannot read the folder '%s/%s'", taking->named, path);
    snapshot_list_put(&taking->list, &(struct snapshot_entry){.kind = 'd', .path = path});
    taking->snapshot.folders++;
    weft_status result = take_folder(taking, inner, path, depth + 1, error);
    close(inner);
    return result;
}

/* Take what is in `folder`, which is `path` within the tree ("" at the top). */
static weft_status take_folder(struct taking *taking, int folder, const char *path, int depth, struct error *error)
{
    char **names, *inner = malloc(FILE_PATH_BYTES);
    size_t count;
    if (!inner)
        return error_memory(error, FILE_PATH_BYTES, "a path");
    weft_status status = list_names(taking, folder, path, &names, &count, error);
    if (status != WEFT_OK) {
        free(inner);
        return status;
    }
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        if (*path)
            status = file_join(inner, path, names[i], error);
        else
            memcpy(inner, names[i], strlen(names[i]) + 1);
        if (status == WEFT_OK)
            status = take_entry(taking, folder, names[i], inner, depth, error);
    }
    free_names(names, count);
    free(inner);
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static weft_status read_patterns(struct taking *taking, int top, struct error *error)
{
    char path[FILE_PATH_BYTES], opened[64], *text = NULL;
    size_t size = 0;
    struct stat there;
    weft_status status = ignore_add(&taking->ignore, ALWAYS_IGNORE, sizeof ALWAYS_IGNORE - 1, "patterns", error);
    if (status == WEFT_OK)
        status = file_join(path, taking->folder, IGNORE_FILE, error);
    int file = status == WEFT_OK ? openat(top, IGNORE_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (file < 0 && status == WEFT_OK && errno != ENOENT && errno != ELOOP && errno != ENXIO)
        return error_system(error, "cannot read '%s'", path);
    if (file < 0)
        return status;
    if (fstat(file, &there) == 0 && S_ISREG(there.st_mode)) {
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", file); /* the file that was looked at */
        status = check_holder(taking, file, IGNORE_FILE, error);
        if (status == WEFT_OK && (uint64_t)there.st_size > IGNORE_BYTES_MOST)
            status = error_set(error, WEFT_ERROR_DATA, "'%s' has more than %zu bytes", path, (size_t)IGNORE_BYTES_MOST);
        if (status == WEFT_OK)
            status = file_read(opened, IGNORE_BYTES_MOST, &text, &size, error);
        if (status == WEFT_OK)
            status = ignore_add(&taking->ignore, text, size, path, error);
    }
    close(file);
    free(text);
    return status;
}

/* All objects are on disk: write the list that names them. */
static weft_status keep_list(struct taking *taking, struct error *error)
{
    char path[FILE_PATH_BYTES];
    uint8_t digest[SHA256_BYTES];
    if (taking->list.failed)
        return error_memory(error, buffer_size(&taking->list), "the list of a snapshot");
    weft_status status = sha256_of(buffer_begin(&taking->list), buffer_size(&taking->list), digest, error);
    if (status != WEFT_OK)
        return status;
    sha256_text(digest, taking->snapshot.id);
    status = name_objects(taking, error);
    if (status == WEFT_OK && buffer_size(&taking->pending) > 0 &&
        (status = file_join(path, taking->store, "objects", error)) == WEFT_OK)
        status = file_sync_folder(path, error);
    if (status == WEFT_OK)
        status = snapshot_list_path(path, taking->store, taking->snapshot.id, error);
    if (status == WEFT_OK && snapshot_mark(path)) /* used again: snapshot_collect.h */
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    return file_write(path, buffer_begin(&taking->list), buffer_size(&taking->list), error);
}

weft_status snapshot_store_make(const char *store, struct error *error)
{
    char path[FILE_PATH_BYTES];
    static const char *const parts[] = {"objects", "snapshots"};
    weft_status made = file_make_folder_of(store, error);
    if (made != WEFT_OK)
        return made;
    (void)!mkdir(store, 0700); /* what users write is not for others to read; what fails here fails below */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        weft_status status = file_join(path, store, parts[i], error);
        if (status == WEFT_OK)
            status = file_make_folder(path, error);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

weft_status snapshot_object_create(struct file_writer *writer, const char *store, const char *hash, const char *path,
                                   uint64_t size, struct error *error)
{
    char folder[FILE_PATH_BYTES];
    struct error failed = {0};
    weft_status status = file_writer_open(writer, path, size, &failed);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (errno != ENOENT)
        return error_set(error, status, "%s", failed.text);
    status = snapshot_object_path(folder, store, hash, NULL, error);
    if (status == WEFT_OK && mkdir(folder, 0777) != 0 && errno != EEXIST) /* by another process meanwhile */
        status = error_system(error, "cannot make the folder '%s'", folder);
    return status == WEFT_OK ? file_writer_open(writer, path, size, error) : status;
}

static weft_status open_store(struct taking *taking, struct error *error)
{
    weft_status status = snapshot_store_make(taking->store, error);
    if (status == WEFT_OK && stat(taking->store, &taking->store_status) != 0)
        status = error_system(error, "cannot look at '%s'", taking->store);
    return status;
}

static weft_status take(struct taking *taking, struct snapshot *snapshot, struct error *error)
{
    const char *folder = taking->folder;
    taking->named = strcmp(folder, "/") == 0 ? "" : folder;
    if (!taking->limits.bytes)
        taking->limits.bytes = SNAPSHOT_BYTES_MOST;
    if (!taking->limits.file_bytes)
        taking->limits.file_bytes = SNAPSHOT_FILE_MOST;
    if (!taking->limits.entries)
        taking->limits.entries = SNAPSHOT_ENTRIES_MOST;
    struct stat there = {0};
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (taking->foreign ? O_NOFOLLOW : 0));
    if (top < 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot take a snapshot of '%s': %s", folder, strerror(errno));
    weft_status status = fstat(top, &there) == 0 ? WEFT_OK : error_system(error, "cannot look at '%s'", folder);
    taking->holder = there.st_uid;
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        status = error_system(error, "cannot draw a random name");
    snprintf(taking->token, sizeof taking->token, "%016" PRIx64, random);
    taking->piece = malloc(PIECE_BYTES);
    if (status == WEFT_OK && !taking->piece)
        status = error_memory(error, PIECE_BYTES, "reading files");
    if (status == WEFT_OK)
        status = open_store(taking, error);
    if (status == WEFT_OK)
        status = read_patterns(taking, top, error);
    snapshot_list_begin(&taking->list);
    if (status == WEFT_OK)
        status = take_folder(taking, top, "", 0, error);
    if (status == WEFT_OK)
        status = keep_list(taking, error);
    close(top);
    if (status == WEFT_OK)
        *snapshot = taking->snapshot;
    else
        drop_objects(taking);
    buffer_free(&taking->pending);
    ignore_free(&taking->ignore);
    buffer_free(&taking->list);
    free(taking->piece);
    return status;
}

weft_status snapshot_take(const char *store, const char *folder, const struct snapshot_limits *limits,
                          struct snapshot *snapshot, struct error *error)
{
    struct taking taking = {.store = store, .folder = folder};
    if (limits)
        taking.limits = *limits;
    return take(&taking, snapshot, error);
}

weft_status snapshot_take_foreign(const char *store, const char *folder, struct snapshot *snapshot, struct error *error)
{
    struct taking taking = {.store = store, .folder = folder, .foreign = true};
    return take(&taking, snapshot, error);
}
