/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/snapshot.h"

#include "base/string_list.h"
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

#define DEPTH_MOST  128
#define TRIES       3
#define PIECE_BYTES ((size_t)256 << 10) /* of a file that are searched for secrets at once */

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
    struct buffer content; /* room for the file that is being read */
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
    if (ARRAY_RESERVE(omissions->list, omissions->room, omissions->count + 1, "omissions", NULL) != WEFT_OK)
        return;
    struct snapshot_omission *omission = &omissions->list[omissions->count];
    *omission = (struct snapshot_omission){.secret = reason == SNAPSHOT_SECRET};
    snprintf(omission->why, sizeof omission->why, "%s", why ? why : "");
    if (asprintf(&omission->path, "%s%s", path, directory ? "/" : "") < 0)
        return;
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

/* Read a file of `size` bytes into `taking->content`; `*same` is false if it has fewer or more. */
static weft_status read_content(struct taking *taking, int file, const char *path, uint64_t size, bool *same,
                                struct error *error)
{
    uint64_t used = 0;
    uint8_t *bytes = buffer_reserve(&taking->content, size + 1);
    if (!bytes)
        return error_memory(error, size + 1, "the content of a file");
    while (used <= size) {
        ssize_t n = pread(file, bytes + used, size + 1 - used, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(error, "cannot read '%s/%s'", taking->named, path);
        if (n == 0)
            break;
        used += (uint64_t)n;
    }
    *same = used == size;
    return WEFT_OK;
}

/* `verdict`: of its name; `hidden`: in a directory that only the owner may enter. */
static weft_status take_file(struct taking *taking, int parent, const char *name, const char *path,
                             const struct snapshot_verdict *verdict, bool hidden, struct error *error)
{
    struct snapshot_entry entry = {.path = path};
    uint8_t digest[SHA256_BYTES];
    bool same = false;
    int file = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return error_system(error, "cannot read '%s/%s'", taking->named, path);
    const char *secret = verdict->reason == SNAPSHOT_TAKEN
                             ? secret_content(file, verdict->kind, taking->content.bytes, PIECE_BYTES)
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
        entry.size = (uint64_t)before.st_size;
        if (entry.size > taking->limits.file_bytes)
            status = too_large(taking, path, entry.size, taking->limits.file_bytes, error);
        else if (entry.size > room)
            status =
                too_large(taking, taking->directory, taking->snapshot.bytes + entry.size, taking->limits.bytes, error);
        else
            status = read_content(taking, file, path, entry.size, &same, error);
        same = same && fstat(file, &after) == 0 && after.st_size == before.st_size &&
               after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
    }
    close(file);
    if (status == WEFT_OK && !same)
        status = error_set(error, WEFT_ERROR_SYSTEM,
                           "'%s/%s' changes while it is read; stop what writes to it, or name it in .weftignore",
                           taking->named, path);
    if (status == WEFT_OK)
        status = sha256_of(taking->content.bytes, entry.size, digest, error);
    if (status == WEFT_OK)
        status = snapshot_objects_put(&taking->objects, sha256_text(digest, entry.hash), taking->content.bytes,
                                      entry.size, error);
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

/* The names in a directory, sorted. */
static weft_status list_names(struct taking *taking, int directory, const char *path, struct string_list *names,
                              struct error *error)
{
    DIR *listing = file_listing_open(directory, ".", 0);
    weft_status status =
        listing ? WEFT_OK : error_system(error, "cannot read the directory '%s/%s'", taking->named, path);
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));)
        status = string_list_add(names, name, error);
    if (status == WEFT_OK && errno)
        status = error_system(error, "cannot read the directory '%s/%s'", taking->named, path);
    file_listing_close(listing);
    string_list_sort(names);
    return status;
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
    struct string_list names = {0};
    char *inner = malloc(FILE_PATH_BYTES);
    if (!inner)
        return error_memory(error, FILE_PATH_BYTES, "a path");
    weft_status status = list_names(taking, directory, path, &names, error);
    bool entered = status == WEFT_OK && (status = snapshot_filter_enter(taking->filter, directory, path, check_patterns,
                                                                        taking, error)) == WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < names.count; i++) {
        if (*path)
            status = file_join(inner, path, names.items[i], error);
        else
            snprintf(inner, FILE_PATH_BYTES, "%s", names.items[i]);
        if (status == WEFT_OK)
            status = take_entry(taking, directory, names.items[i], inner, hidden, depth, error);
    }
    if (entered)
        snapshot_filter_leave(taking->filter);
    string_list_free(&names);
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
    status = snapshot_objects_commit(&taking->objects, error);
    if (status == WEFT_OK)
        status = snapshot_list_path(path, taking->store, taking->snapshot.id, error);
    if (status == WEFT_OK && snapshot_mark(path)) /* used again: platform/snapshot/collect.h */
        return WEFT_OK;
    if (status != WEFT_OK)
        return status;
    return snapshot_list_write(path, buffer_begin(&taking->list), buffer_size(&taking->list), error);
}

static weft_status snapshot_take_tree(struct taking *taking, struct error *error)
{
    const char *directory = taking->directory;
    struct stat there = {0};
    int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (taking->options->foreign ? O_NOFOLLOW : 0));
    if (top < 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "cannot take a snapshot of '%s': %s", directory, strerror(errno));
    weft_status status = fstat(top, &there) == 0 ? WEFT_OK : error_system(error, "cannot look at '%s'", directory);
    taking->holder = there.st_uid;
    if (status == WEFT_OK)
        status = snapshot_objects_begin(&taking->objects, taking->store, error);
    if (status == WEFT_OK && stat(taking->store, &taking->store_status) != 0)
        status = error_system(error, "cannot look at '%s'", taking->store);
    if (status == WEFT_OK && !buffer_reserve(&taking->content, PIECE_BYTES))
        status = error_memory(error, PIECE_BYTES, "reading files");
    if (status == WEFT_OK)
        status = snapshot_filter_open(directory, taking->options->outside, &taking->filter, error);
    snapshot_list_begin(&taking->list);
    if (status == WEFT_OK)
        status = take_directory(taking, top, "", false, 0, error);
    if (status == WEFT_OK)
        status = keep_list(taking, error);
    close(top);
    return status;
}

weft_status snapshot_take(const char *store, const char *directory, const struct snapshot_options *options,
                          struct snapshot *snapshot, struct error *error)
{
    static const struct snapshot_options defaults = {0};
    struct taking taking = {.store = store,
                            .directory = directory,
                            .named = strcmp(directory, "/") == 0 ? "" : directory,
                            .options = options ? options : &defaults};
    if (taking.options->limits)
        taking.limits = *taking.options->limits;
    if (!taking.limits.bytes)
        taking.limits.bytes = SNAPSHOT_BYTES_MOST;
    if (!taking.limits.file_bytes)
        taking.limits.file_bytes = SNAPSHOT_FILE_MOST;
    if (!taking.limits.entries)
        taking.limits.entries = SNAPSHOT_ENTRIES_MOST;
    weft_status status = snapshot_take_tree(&taking, error);
    taking.snapshot.new_bytes = taking.objects.bytes;
    if (status == WEFT_OK)
        *snapshot = taking.snapshot;
    snapshot_objects_end(&taking.objects);
    snapshot_filter_close(taking.filter);
    buffer_free(&taking.list);
    buffer_free(&taking.content);
    return status;
}
