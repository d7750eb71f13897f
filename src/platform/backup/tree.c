/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/backup/internal/tree.h"

#include "base/sha256.h"
#include "base/string_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST  256
#define PIECE_BYTES ((size_t)256 << 10)
#define MODE_BITS   07777u

/* A path below both directories, while its tree is walked. */
struct tree_place {
    char path[FILE_PATH_BYTES];
    int depth;
};

static weft_status tree_fails(const struct tree_copy *copy, const char *path, struct error *error)
{
    return error_system(error, "cannot copy '%s/%s' to '%s'", copy->from, path, copy->to);
}

/* Whether a failure means that the entry is gone, as it may be in a tree that lives. */
static bool has_gone(const struct tree_copy *copy)
{
    return copy->living && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
}

/* Whether an entry that cannot be copied is left out: no run may keep its server from being backed up. */
static bool leave_entry_out(struct tree_copy *copy, const char *path)
{
    if (!copy->lenient || strncmp(path, copy->lenient, strlen(copy->lenient)) != 0)
        return false;
    if (copy->left_out++ == 0)
        snprintf(copy->first_left_out, sizeof copy->first_left_out, "%s", path);
    return true;
}

static weft_status refuse_entry(struct tree_copy *copy, const char *path, struct error *error)
{
    if (has_gone(copy) || (errno == EACCES && leave_entry_out(copy, path)))
        return WEFT_OK;
    return tree_fails(copy, path, error);
}

/* "HASH  PATH", with a backslash before it if the path has escaped characters. */
static void put_sum(struct tree_copy *copy, const char *path, const uint8_t digest[SHA256_BYTES])
{
    char text[SHA256_TEXT_BYTES];
    const bool escaped = strpbrk(path, "\\\n\r");
    buffer_print(&copy->sums, "%s%s  ", escaped ? "\\" : "", sha256_text(digest, text));
    for (; *path; path++) {
        if (*path == '\\' || *path == '\n' || *path == '\r')
            buffer_put_string(&copy->sums, *path == '\n' ? "\\n" : *path == '\r' ? "\\r" : "\\\\");
        else
            buffer_put(&copy->sums, path, 1);
    }
    buffer_put_string(&copy->sums, "\n");
}

/* ---- files ---- */

static bool tree_write_all(int descriptor, const char *bytes, ssize_t size)
{
    while (size > 0) {
        const ssize_t written = write(descriptor, bytes, (size_t)size);
        if (written < 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        size -= written > 0 ? written : 0;
    }
    return true;
}

/* Read the first `most` bytes of `from`, or to its end, write them to `to` (-1: nowhere), and list the file. */
static weft_status copy_content(struct tree_copy *copy, const char *path, int from, int to, uint64_t most,
                                struct error *error)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    char *piece = malloc(PIECE_BYTES);
    uint64_t bytes = 0;
    if (!piece)
        return error_memory(error, PIECE_BYTES, "copying files");
    weft_status status = sha256_begin(&hash, error);
    while (status == WEFT_OK && bytes < most) {
        const ssize_t got = read(from, piece, most - bytes < PIECE_BYTES ? (size_t)(most - bytes) : PIECE_BYTES);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || (to >= 0 && !tree_write_all(to, piece, got))) {
            status = tree_fails(copy, path, error);
            sha256_end(&hash, NULL, NULL);
            break;
        }
        sha256_update(&hash, piece, (size_t)got);
        bytes += (uint64_t)got;
    }
    free(piece);
    if (status == WEFT_OK)
        status = sha256_end(&hash, digest, error);
    if (status != WEFT_OK)
        return status;
    put_sum(copy, path, digest);
    copy->files++;
    copy->bytes += bytes;
    return copy->sums.failed ? error_memory(error, copy->sums.room, "the list of files") : WEFT_OK;
}

/* What a copy has from its original beside the content. */
static weft_status settle(const struct tree_copy *copy, const char *path, int made, const struct stat *there,
                          struct error *error)
{
    const struct timespec times[2] = {there->st_atim, there->st_mtim};
    if ((geteuid() == 0 && fchown(made, there->st_uid, there->st_gid) != 0) ||
        fchmod(made, there->st_mode & MODE_BITS) != 0 || futimens(made, times) != 0)
        return tree_fails(copy, path, error);
    return WEFT_OK;
}

static weft_status tree_copy_file(struct tree_copy *copy, int from, int to, const char *name, const char *path,
                                  struct error *error)
{
    struct stat there;
    const int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (source < 0)
        return refuse_entry(copy, path, error);
    if (fstat(source, &there) != 0 || !S_ISREG(there.st_mode)) {
        close(source);
        return WEFT_OK; /* it was replaced by something else */
    }
    const int made = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    weft_status status = made < 0 ? tree_fails(copy, path, error)
                                  : copy_content(copy, path, source, made, (uint64_t)there.st_size, error);
    if (status == WEFT_OK)
        status = settle(copy, path, made, &there, error);
    file_close(made);
    close(source);
    return status;
}

static weft_status copy_link(struct tree_copy *copy, int from, int to, const char *name, const char *path,
                             const struct stat *there, struct error *error)
{
    char target[FILE_PATH_BYTES];
    const ssize_t length = readlinkat(from, name, target, sizeof target - 1);
    if (length < 0)
        return errno == EINVAL ? WEFT_OK : refuse_entry(copy, path, error);
    target[length] = '\0';
    if (symlinkat(target, to, name) != 0 ||
        (geteuid() == 0 && fchownat(to, name, there->st_uid, there->st_gid, AT_SYMLINK_NOFOLLOW) != 0))
        return tree_fails(copy, path, error);
    return WEFT_OK;
}

/* ---- directories ---- */

static weft_status list_sorted(const struct tree_copy *copy, DIR *listing, const char *path, struct string_list *names,
                               struct error *error)
{
    weft_status status = WEFT_OK;
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));)
        status = string_list_add(names, name, error);
    if (status == WEFT_OK && errno)
        status = tree_fails(copy, path, error);
    string_list_sort(names);
    return status;
}

static weft_status tree_copy_entry(struct tree_copy *copy, int from, int to, const char *name, struct tree_place *place,
                                   struct error *error);

static weft_status tree_copy_directory(struct tree_copy *copy, int from, int to, const char *name,
                                       struct tree_place *place, const struct stat *there, struct error *error)
{
    struct string_list names = {0};
    if (place->depth >= DEPTH_MOST)
        return leave_entry_out(copy, place->path)
                   ? WEFT_OK
                   : error_set(error, WEFT_ERROR_DATA, "'%s/%s' is %d directories deep, and deeper ones are not copied",
                               copy->from, place->path, DEPTH_MOST);
    DIR *listing = file_listing_open(from, name, O_NOFOLLOW);
    if (!listing)
        return refuse_entry(copy, place->path, error);
    int made = -1;
    weft_status status = WEFT_OK;
    if ((mkdirat(to, name, 0700) != 0 && errno != EEXIST) ||
        (made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        status = tree_fails(copy, place->path, error);
    if (status == WEFT_OK)
        status = list_sorted(copy, listing, place->path, &names, error);
    const size_t length = strlen(place->path);
    place->depth++;
    for (size_t i = 0; status == WEFT_OK && i < names.count; i++) {
        const bool fits = snprintf(place->path + length, sizeof place->path - length, "/%s", names.items[i]) <
                          (int)(sizeof place->path - length);
        if (!fits && !leave_entry_out(copy, place->path))
            status = error_set(error, WEFT_ERROR_DATA, "a path below '%s/%.*s' is too long to be copied", copy->from,
                               (int)length, place->path);
        if (fits)
            status = tree_copy_entry(copy, dirfd(listing), made, names.items[i], place, error);
        place->path[length] = '\0';
    }
    place->depth--;
    if (status == WEFT_OK)
        status = settle(copy, place->path, made, there, error);
    string_list_free(&names);
    file_listing_close(listing);
    file_close(made);
    return status;
}

static weft_status tree_copy_entry(struct tree_copy *copy, int from, int to, const char *name, struct tree_place *place,
                                   struct error *error)
{
    struct stat there;
    if (fstatat(from, name, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return refuse_entry(copy, place->path, error);
    if (S_ISREG(there.st_mode))
        return tree_copy_file(copy, from, to, name, place->path, error);
    if (S_ISDIR(there.st_mode))
        return tree_copy_directory(copy, from, to, name, place, &there, error);
    return S_ISLNK(there.st_mode) ? copy_link(copy, from, to, name, place->path, &there, error) : WEFT_OK;
}

/* ---- the whole ---- */

weft_status tree_copy(struct tree_copy *copy, const char *path, struct error *error)
{
    struct tree_place place = {0};
    struct stat there;
    weft_status status = WEFT_OK;
    const int from = open(copy->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int to = open(copy->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(place.path, sizeof place.path, "%s", path);
    if (from < 0 || to < 0)
        status = error_system(error, "cannot open the directory '%s'", from < 0 ? copy->from : copy->to);
    else if (fstatat(from, path, &there, AT_SYMLINK_NOFOLLOW) == 0)
        status = tree_copy_entry(copy, from, to, path, &place, error);
    else if (errno != ENOENT)
        status = tree_fails(copy, path, error);
    file_close(from);
    file_close(to);
    return status;
}

weft_status tree_copy_count(struct tree_copy *copy, const char *path, struct error *error)
{
    char where[FILE_PATH_BYTES];
    weft_status status = file_join(where, copy->to, path, error);
    if (status != WEFT_OK)
        return status;
    const int made = open(where, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0)
        return error_system(error, "cannot read '%s'", where);
    status = copy_content(copy, path, made, -1, UINT64_MAX, error);
    close(made);
    return status;
}

void tree_copy_free(struct tree_copy *copy)
{
    buffer_free(&copy->sums);
}
