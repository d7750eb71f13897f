/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/snapshot.h"

#include "base/text.h"
#include "platform/snapshot/internal/filter.h"
#include "platform/snapshot/internal/objects.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 128
#define TRIES      3

#define LARGE_DATA                                                                                                     \
    "large data belongs in a directory of the hosts: give the run its absolute path there, as in --data "              \
    "/data/train.bin"

/* A snapshot being taken. */
struct taking {
    const char *store, *directory;
    const char *named; /* the directory as it stands before a slash */
    struct snapshot_limits limits;
    const struct snapshot_options *options;
    uid_t holder; /* of the directory */
    struct snapshot snapshot;
    struct snapshot_filter *filter;
    struct snapshot_objects objects;
    struct buffer list;
    struct stat store_status;
};

/* ---- what is left out ---- */

static void note_omission(struct taking *taking, enum snapshot_reason reason, const char *path, bool directory,
                          const char *why)
{
    struct snapshot_omissions *omissions = taking->options->omissions;
    taking->snapshot.left_out++;
    taking->snapshot.secrets += reason == SNAPSHOT_SECRET;
    if (!omissions || reason == SNAPSHOT_STANDARD || omissions->count >= SNAPSHOT_OMISSIONS_MOST)
        return;
    if (omissions->count == omissions->room) {
        size_t room = omissions->room ? 2 * omissions->room : 64;
        struct snapshot_omission *grown = realloc(omissions->list, room * sizeof *grown);
        if (!grown)
            return;
        omissions->list = grown;
        omissions->room = room;
    }
    struct snapshot_omission *omission = &omissions->list[omissions->count];
    *omission = (struct snapshot_omission){.secret = reason == SNAPSHOT_SECRET};
    snprintf(omission->why, sizeof omission->why, "%s", why ? why : "");
    size_t size = strlen(path) + 2;
    if (!(omission->path = malloc(size)))
        return;
    snprintf(omission->path, size, "%s%s", path, directory ? "/" : "");
    omissions->count++;
}

void snapshot_omissions_free(struct snapshot_omissions *omissions)
{
    for (size_t i = 0; i < omissions->count; i++)
        free(omissions->list[i].path);
    free(omissions->list);
    *omissions = (struct snapshot_omissions){0};
}

/* ---- files ---- */

static weft_status too_large(const struct taking *taking, const char *what, uint64_t has, uint64_t limit,
                             struct error *error)
{
    char large[32], most[32];
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "%s has %s, and a snapshot's limit is %s; " LARGE_DATA "; name what the run does not need in "
                     "'%s/.weftignore', or send no code (--no-snapshot)",
                     what, text_bytes(has, large, sizeof large), text_bytes(limit, most, sizeof most),
                     taking->directory);
}

/* Of a foreign directory, whether an open file is its owner's. */
static weft_status snapshot_check_holder(const struct taking *taking, int file, const char *path, struct error *error)
{
    struct stat there;
    if (!taking->options->foreign || geteuid() != 0)
        return WEFT_OK;
    if (fstat(file, &there) == 0 && there.st_uid == taking->holder)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_STATE,
                     "'%s/%s' is no file of the run's own account (user %u): no snapshot is taken of it", taking->named,
                     path, (unsigned)taking->holder);
}

/* Whether nobody but the owner may look at what has that mode. */
static bool is_owner_only(const struct stat *there)
{
    return (there->st_mode & (S_ISDIR(there->st_mode) ? 055 : 044)) == 0;
}

static weft_status check_public(const struct taking *taking, const char *path, struct error *error)
{
    if (!taking->options->refused)
        return WEFT_OK;
    *taking->options->refused = true;
    return error_set(error, WEFT_ERROR_STATE, "'%s/%s' can be read by its owner only", taking->named, path);
}

/* `verdict`: of its name; `hidden`: in a directory that only the owner may enter. */
static weft_status take_file(struct taking *taking, int parent, const char *name, const char *path,
                             const struct snapshot_verdict *verdict, bool hidden, struct error *error)
{
    struct snapshot_entry entry = {.kind = 'f', .path = path};
    bool same = false;
    int file = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return error_system(error, "cannot read '%s/%s'", taking->named, path);
    const char *secret = verdict->reason == SNAPSHOT_TAKEN
                             ? secret_content(file, verdict->kind, taking->objects.piece, SNAPSHOT_PIECE_BYTES)
                             : NULL;
    if (secret) {
        close(file);
        note_omission(taking, SNAPSHOT_SECRET, path, false, secret);
        return WEFT_OK;
    }
    weft_status status = WEFT_OK;
    for (int attempt = 0; status == WEFT_OK && !same && attempt < TRIES; attempt++) {
        struct stat before, after;
        uint64_t room = taking->limits.bytes - taking->snapshot.bytes;
        if ((status = snapshot_check_holder(taking, file, path, error)) != WEFT_OK)
            break;
        if (fstat(file, &before) != 0 || !S_ISREG(before.st_mode)) {
            status = error_set(error, WEFT_ERROR_SYSTEM, "'%s/%s' is no file any more: try again", taking->named, path);
            break;
        }
        bool program = before.st_mode & 0111, private = hidden || is_owner_only(&before);
        entry.kind = private ? (program ? 'q' : 'p') : program ? 'x' : 'f';
        if (private && (status = check_public(taking, path, error)) != WEFT_OK)
            break;
        uint64_t size = (uint64_t)before.st_size;
        if (size > taking->limits.file_bytes)
            status = too_large(taking, path, size, taking->limits.file_bytes, error);
        else if (size > room)
            status = too_large(taking, taking->directory, taking->snapshot.bytes + size, taking->limits.bytes, error);
        else
            status = snapshot_objects_hash(&taking->objects, file, path, size, entry.hash, &entry.size, error);
        bool still = status == WEFT_OK && entry.size == size && fstat(file, &after) == 0 &&
                     after.st_size == before.st_size && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
                     after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
        if (still)
            status = snapshot_objects_keep(&taking->objects, file, path, &entry, &same, error);
    }
    close(file);
    if (status == WEFT_OK && !same)
        status = error_set(error, WEFT_ERROR_SYSTEM,
                           "'%s/%s' changes while it is read; stop what writes to it, or name it in .weftignore",
                           taking->named, path);
    if (status != WEFT_OK)
        return status;
    taking->snapshot.files++;
    taking->snapshot.bytes += entry.size;
    taking->snapshot.owner_only += snapshot_entry_is_private(&entry);
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

/* ---- directories ---- */

static int snapshot_by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

/* The names in a directory, sorted. */
static weft_status list_names(struct taking *taking, int directory, const char *path, char ***names, size_t *count,
                              struct error *error)
{
    char **list = NULL;
    size_t used = 0, room = 0;
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again >= 0 ? fdopendir(again) : NULL;
    if (!listing) {
        error_system(error, "cannot read the directory '%s/%s'", taking->named, path);
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
                status = error_memory(error, room * sizeof *list, "the names in a directory");
                break;
            }
            list = grown;
        }
        if (!(list[used] = strdup(entry->d_name)))
            status = error_memory(error, strlen(entry->d_name), "the names in a directory");
        else
            used++;
    }
    closedir(listing);
    if (status != WEFT_OK) {
        free_names(list, used);
        return status;
    }
    if (used > 1)
        qsort(list, used, sizeof *list, snapshot_by_name);
    *names = list;
    *count = used;
    return WEFT_OK;
}

static weft_status take_directory(struct taking *taking, int directory, const char *path, bool hidden, int depth,
                                  struct error *error);

static weft_status take_entry(struct taking *taking, int parent, const char *name, const char *path, bool hidden,
                              int depth, struct error *error)
{
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot look at '%s/%s'", taking->named, path);
    bool directory = S_ISDIR(status.st_mode);
    if (directory && status.st_dev == taking->store_status.st_dev && status.st_ino == taking->store_status.st_ino)
        return WEFT_OK;
    const struct snapshot_verdict verdict = snapshot_filter_judge(taking->filter, path, directory);
    if (verdict.reason != SNAPSHOT_TAKEN && verdict.reason != SNAPSHOT_TAKEN_BY_NAME) {
        note_omission(taking, verdict.reason, path, directory, verdict.why);
        return WEFT_OK;
    }
    if (!directory && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
        taking->snapshot.special++;
        return WEFT_OK;
    }
    if (taking->snapshot.files + taking->snapshot.directories + taking->snapshot.links >= taking->limits.entries)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' has more than the %" PRIu64
                         " files and directories that a snapshot may have; " LARGE_DATA
                         "; name what the run does not need in '%s/.weftignore', or send no code (--no-snapshot)",
                         taking->directory, taking->limits.entries, taking->directory);
    if (S_ISLNK(status.st_mode))
        return take_link(taking, parent, name, path, error);
    if (!directory)
        return take_file(taking, parent, name, path, &verdict, hidden, error);
    if (depth >= DEPTH_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s/%s': directories nest deeper than %d", taking->named, path,
                         DEPTH_MOST);
    int inner = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0)
        return error_system(error, "cannot read the directory '%s/%s'", taking->named, path);
    snapshot_list_put(&taking->list, &(struct snapshot_entry){.kind = 'd', .path = path});
    taking->snapshot.directories++;
    weft_status result = take_directory(taking, inner, path, hidden || is_owner_only(&status), depth + 1, error);
    close(inner);
    return result;
}

static weft_status check_patterns(void *context, int file, const char *path, struct error *error)
{
    return snapshot_check_holder(context, file, path, error);
}

/* Take what is in `directory`, which is `path` within the tree ("" at the top). */
static weft_status take_directory(struct taking *taking, int directory, const char *path, bool hidden, int depth,
                                  struct error *error)
{
    char **names, *inner = malloc(FILE_PATH_BYTES);
    size_t count;
    if (!inner)
        return error_memory(error, FILE_PATH_BYTES, "a path");
    weft_status status = list_names(taking, directory, path, &names, &count, error);
    if (status == WEFT_OK) {
        status = snapshot_filter_enter(taking->filter, directory, path, check_patterns, taking, error);
        if (status != WEFT_OK)
            free_names(names, count);
    }
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
            status = take_entry(taking, directory, names[i], inner, hidden, depth, error);
    }
    snapshot_filter_leave(taking->filter);
    free_names(names, count);
    free(inner);
    return status;
}

/* ---- the whole ---- */

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
    status = snapshot_objects_name(&taking->objects, error);
    if (status == WEFT_OK && buffer_size(&taking->objects.pending) > 0 &&
        (status = file_join(path, taking->store, "objects", error)) == WEFT_OK)
        status = file_sync_directory(path, error);
    if (status == WEFT_OK)
        status = snapshot_list_path(path, taking->store, taking->snapshot.id, error);
    if (status == WEFT_OK && snapshot_mark(path)) /* used again: platform/snapshot/collect.h */
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    return snapshot_list_write(path, buffer_begin(&taking->list), buffer_size(&taking->list), error);
}

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

weft_status snapshot_object_create(struct file_writer *writer, const char *store, const char *hash, const char *path,
                                   uint64_t size, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    struct error failed = {0};
    weft_status status = file_writer_open(writer, path, size, &failed);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (errno != ENOENT)
        return error_set(error, status, "%s", failed.text);
    status = snapshot_object_path(directory, store, hash, NULL, error);
    if (status == WEFT_OK && mkdir(directory, 0700) != 0 && errno != EEXIST) /* by another process meanwhile */
        status = error_system(error, "cannot make the directory '%s'", directory);
    return status == WEFT_OK ? file_writer_open(writer, path, size, error) : status;
}

static weft_status open_store(struct taking *taking, struct error *error)
{
    weft_status status = snapshot_store_make(taking->store, error);
    if (status == WEFT_OK && stat(taking->store, &taking->store_status) != 0)
        status = error_system(error, "cannot look at '%s'", taking->store);
    return status;
}

static weft_status snapshot_snapshot_take(struct taking *taking, struct snapshot *snapshot, struct error *error)
{
    const char *directory = taking->directory;
    taking->named = strcmp(directory, "/") == 0 ? "" : directory;
    if (!taking->limits.bytes)
        taking->limits.bytes = SNAPSHOT_BYTES_MOST;
    if (!taking->limits.file_bytes)
        taking->limits.file_bytes = SNAPSHOT_FILE_MOST;
    if (!taking->limits.entries)
        taking->limits.entries = SNAPSHOT_ENTRIES_MOST;
    struct stat there = {0};
    int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (taking->options->foreign ? O_NOFOLLOW : 0));
    if (top < 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot take a snapshot of '%s': %s", directory, strerror(errno));
    weft_status status = fstat(top, &there) == 0 ? WEFT_OK : error_system(error, "cannot look at '%s'", directory);
    taking->holder = there.st_uid;
    if (status == WEFT_OK)
        status = snapshot_objects_begin(&taking->objects, taking->store, taking->named, error);
    if (status == WEFT_OK)
        status = open_store(taking, error);
    if (status == WEFT_OK)
        status = snapshot_filter_open(directory, taking->options->outside, &taking->filter, error);
    snapshot_list_begin(&taking->list);
    if (status == WEFT_OK)
        status = take_directory(taking, top, "", false, 0, error);
    if (status == WEFT_OK)
        status = keep_list(taking, error);
    close(top);
    taking->snapshot.new_bytes = taking->objects.new_bytes;
    if (status == WEFT_OK)
        *snapshot = taking->snapshot;
    snapshot_objects_end(&taking->objects, status != WEFT_OK);
    snapshot_filter_close(taking->filter);
    buffer_free(&taking->list);
    return status;
}

weft_status snapshot_take_with(const char *store, const char *directory, const struct snapshot_options *options,
                               struct snapshot *snapshot, struct error *error)
{
    struct taking taking = {.store = store, .directory = directory, .options = options};
    if (options->limits)
        taking.limits = *options->limits;
    return snapshot_snapshot_take(&taking, snapshot, error);
}

weft_status snapshot_take(const char *store, const char *directory, const struct snapshot_limits *limits,
                          struct snapshot *snapshot, struct error *error)
{
    return snapshot_take_with(store, directory, &(struct snapshot_options){.limits = limits}, snapshot, error);
}
