/* SPDX-License-Identifier: Apache-2.0 */
/* Copy a checkpoint to another run's directory by shared blocks, links or copies, completely or not at all. */
#include "platform/runs/checkpoints.h"

#include "base/file/file.h"
#include "training/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST  16
#define FILES_MOST  100000
#define PIECE_BYTES ((size_t)1 << 20)

struct copying {
    const char *directory, *name; /* for messages: what is copied */
    bool linked;                  /* files are never modified, so a hard link serves as a copy */
    uid_t owner, holder;          /* of the finished copy; of the source directory */
    unsigned files;
};

static weft_status fails(const struct copying *copying, const char *inner, struct error *error)
{
    return error_system(error, "cannot copy '%s' of the checkpoint '%s/%s'", inner, copying->directory, copying->name);
}

/* Copy bytes, in the kernel if possible. */
static weft_status checkpoint_copy_copy_bytes(const struct copying *copying, int from, int to, const char *name,
                                              struct error *error)
{
    if (ioctl(to, FICLONE, from) == 0)
        return WEFT_OK;
    for (;;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, PIECE_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return WEFT_OK;
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            break;
        if (n < 0)
            return fails(copying, name, error);
    }
    char piece[65536];
    for (;;) {
        ssize_t n = read(from, piece, sizeof piece), written = 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? WEFT_OK : fails(copying, name, error);
        while (written < n) {
            ssize_t more = write(to, piece + written, (size_t)(n - written));
            if (more < 0 && errno != EINTR)
                return fails(copying, name, error);
            written += more > 0 ? more : 0;
        }
    }
}

/*
 * A run's program may have hard-linked another user's file into its directory. A process running as root could read it
 * and would give it away.
 */
static weft_status checkpoint_copy_check_holder(const struct copying *copying, const char *name,
                                                const struct stat *there, struct error *error)
{
    if (geteuid() != 0 || (S_ISREG(there->st_mode) && there->st_uid == copying->holder))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_STATE,
                     "'%s' of the checkpoint '%s/%s' is no file of the run's own account (user %u): it is not copied",
                     name, copying->directory, copying->name, (unsigned)copying->holder);
}

/* Hard-link the file. False: it must be copied. */
static bool link_file(const struct copying *copying, int from, int to, const char *name, const struct stat *there)
{
    struct stat made;
    if (!copying->linked || there->st_uid != copying->owner || linkat(from, name, to, name, 0) != 0)
        return false;
    if (fstatat(to, name, &made, AT_SYMLINK_NOFOLLOW) == 0 && made.st_ino == there->st_ino &&
        made.st_dev == there->st_dev)
        return true;
    unlinkat(to, name, 0); /* it was replaced in between */
    return false;
}

static weft_status copy_file(struct copying *copying, int from, int to, const char *name, const struct stat *seen,
                             struct error *error)
{
    struct stat there = *seen;
    weft_status status = checkpoint_copy_check_holder(copying, name, &there, error);
    if (status != WEFT_OK || link_file(copying, from, to, name, &there))
        return status;
    int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (source < 0 || fstat(source, &there) != 0)
        status = fails(copying, name, error);
    else
        status = checkpoint_copy_check_holder(copying, name, &there, error);
    if (status != WEFT_OK) {
        file_close(source);
        return status;
    }
    int made = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, there.st_mode & 0777);
    status = made < 0 ? fails(copying, name, error) : checkpoint_copy_copy_bytes(copying, source, made, name, error);
    const struct timespec times[2] = {there.st_atim, there.st_mtim};
    if (status == WEFT_OK)
        (void)!futimens(made, times);
    if (status == WEFT_OK && fsync(made) != 0)
        status = fails(copying, name, error);
    file_close(made);
    close(source);
    return status;
}

static weft_status copy_entry(struct copying *copying, int from, int to, const char *name, int depth,
                              struct error *error);

static weft_status copy_directory(struct copying *copying, int from, int to, const char *name, int depth,
                                  struct error *error)
{
    DIR *listing = file_listing_open(from, name, O_NOFOLLOW);
    int made = -1;
    weft_status status = WEFT_OK;
    if (!listing || mkdirat(to, name, 0777) != 0 ||
        (made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        status = fails(copying, name, error);
    else if (depth == 0)
        copying->linked = faccessat(dirfd(listing), CHECKPOINT_MANIFEST, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    for (const char *inner; status == WEFT_OK && (inner = file_listing_next(listing));)
        status = copy_entry(copying, dirfd(listing), made, inner, depth + 1, error);
    if (status == WEFT_OK && errno)
        status = fails(copying, name, error);
    if (status == WEFT_OK && fsync(made) != 0)
        status = fails(copying, name, error);
    file_listing_close(listing);
    file_close(made);
    return status;
}

static weft_status copy_entry(struct copying *copying, int from, int to, const char *name, int depth,
                              struct error *error)
{
    struct stat there;
    if (fstatat(from, name, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return fails(copying, name, error);
    if (depth > DEPTH_MOST || ++copying->files > FILES_MOST)
        return error_set(
            error, WEFT_ERROR_DATA,
            "the checkpoint '%s/%s' has more than %d files, or directories deeper than %d: no run begins from "
            "it",
            copying->directory, copying->name, FILES_MOST, DEPTH_MOST);
    if (S_ISREG(there.st_mode))
        return copy_file(copying, from, to, name, &there, error);
    if (S_ISDIR(there.st_mode))
        return copy_directory(copying, from, to, name, depth, error);
    if (!S_ISLNK(there.st_mode))
        return WEFT_OK; /* skip pipes and sockets */
    char target[FILE_PATH_BYTES];
    ssize_t length = readlinkat(from, name, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    return length > 0 && symlinkat(target, to, name) == 0 ? WEFT_OK : fails(copying, name, error);
}

/* Whether the source checkpoint still exists and is the same one. */
static weft_status check_still(const struct copying *copying, int directory, const struct stat *before,
                               struct error *error)
{
    struct stat after;
    if (fstatat(directory, copying->name, &after, AT_SYMLINK_NOFOLLOW) == 0 && after.st_ino == before->st_ino &&
        after.st_dev == before->st_dev &&
        (S_ISDIR(after.st_mode) ||
         (after.st_mtim.tv_sec == before->st_mtim.tv_sec && after.st_mtim.tv_nsec == before->st_mtim.tv_nsec)))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_STATE,
                     "the checkpoint '%s/%s' was removed or replaced while it was copied; choose another",
                     copying->directory, copying->name);
}

weft_status run_checkpoint_copy(const char *path, const char *name, const char *target, uid_t owner,
                                struct error *error)
{
    char found[RUN_CHECKPOINT_NAME_BYTES], made[FILE_PATH_BYTES];
    weft_status status = run_checkpoint_find(path, name, found, error);
    if (status == WEFT_OK)
        status = file_join(made, target, found, error);
    if (status != WEFT_OK)
        return status;
    struct copying copying = {.directory = path, .name = found, .owner = owner};
    struct stat before, holder;
    int from = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int to = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        status = error_system(error, "cannot open the directory '%s'", from < 0 ? path : target);
    else if (fstat(from, &holder) != 0 || fstatat(from, found, &before, AT_SYMLINK_NOFOLLOW) != 0)
        status = fails(&copying, found, error);
    else if (file_exists(made))
        status = error_set(error, WEFT_ERROR_STATE, "'%s' is there already", made);
    if (status == WEFT_OK) {
        struct error failure = {0};
        copying.holder = holder.st_uid;
        status = copy_entry(&copying, from, to, found, 0, &failure);
        /* If the source has changed, that is the better explanation. */
        if (check_still(&copying, from, &before, error) != WEFT_OK)
            status = WEFT_ERROR_STATE;
        else if (status != WEFT_OK)
            error_set(error, status, "%s", failure.text);
        if (status == WEFT_OK && fsync(to) != 0)
            status = error_system(error, "cannot sync the directory '%s'", target);
        if (status != WEFT_OK)
            file_remove_tree(made, NULL);
    }
    file_close(from);
    file_close(to);
    return status;
}
