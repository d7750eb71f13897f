/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/checkpoints.h"

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text.h"
#include "training/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 16
#define FILES_MOST 10000 /* files counted of one checkpoint */
#define STEP_MOST  INT64_C(1000000000000000)

static bool run_checkpoint_name_is_good(const char *name)
{
    static const char *const unfinished[] = {".partial", ".old", ".tmp"};
    size_t length = strlen(name);
    if (length == 0 || length >= RUN_CHECKPOINT_NAME_BYTES || name[0] == '.' || strchr(name, '/') ||
        !text_is_printable(name, false))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(unfinished); i++) {
        size_t size = strlen(unfinished[i]);
        if (length > size && strcmp(name + length - size, unfinished[i]) == 0)
            return false;
    }
    return true;
}

/* The number after "step" or "checkpoint" in a name; -1: there is none. */
static int64_t checkpoints_step_of(const char *name)
{
    static const char *const words[] = {"step", "checkpoint"};
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        for (const char *at = name; (at = strstr(at, words[i]));) {
            at += strlen(words[i]);
            const char *digit = *at && strchr("-_=", *at) ? at + 1 : at;
            int64_t step = 0;
            bool any = false;
            for (; *digit >= '0' && *digit <= '9' && step < STEP_MOST; digit++, any = true)
                step = step * 10 + (*digit - '0');
            if (any)
                return step;
        }
    return -1;
}

/* Add the sizes of the files in a directory, at most `*left`, and set `*time` to the newest change. */
static void checkpoints_add_bytes(int parent, const char *name, int depth, unsigned *left,
                                  struct run_checkpoint *checkpoint)
{
    DIR *listing = file_listing_open(parent, name, O_NOFOLLOW);
    for (const char *inner; *left > 0 && (inner = file_listing_next(listing));) {
        struct stat there;
        if (fstatat(dirfd(listing), inner, &there, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        --*left;
        if (S_ISREG(there.st_mode)) {
            checkpoint->bytes += (uint64_t)there.st_size;
            if (clock_to_milliseconds(&there.st_mtim) > checkpoint->time)
                checkpoint->time = clock_to_milliseconds(&there.st_mtim);
        } else if (S_ISDIR(there.st_mode) && depth < DEPTH_MOST) {
            checkpoints_add_bytes(dirfd(listing), inner, depth + 1, left, checkpoint);
        }
    }
    file_listing_close(listing);
}

/* The name in the directory that a link points to; "" if it leads elsewhere. */
static void checkpoints_follow(int directory, const char *link, char target[RUN_CHECKPOINT_NAME_BYTES])
{
    ssize_t length = readlinkat(directory, link, target, RUN_CHECKPOINT_NAME_BYTES);
    if (length <= 0 || length >= RUN_CHECKPOINT_NAME_BYTES)
        length = 0;
    target[length] = '\0';
    if (!run_checkpoint_name_is_good(target))
        target[0] = '\0';
}

static int newest_first(const void *left, const void *right)
{
    const struct run_checkpoint *a = left, *b = right;
    if (a->time != b->time)
        return a->time > b->time ? -1 : 1;
    return strcmp(b->name, a->name);
}

/* Fill in `checkpoint` if `name` is one. */
static bool checkpoints_look_at(int directory, const char *name, struct run_checkpoint *checkpoint)
{
    struct stat there;
    unsigned left = FILES_MOST;
    if (!run_checkpoint_name_is_good(name) || fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
        (!S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)))
        return false;
    *checkpoint = (struct run_checkpoint){.step = checkpoints_step_of(name)};
    snprintf(checkpoint->name, sizeof checkpoint->name, "%s", name);
    if (S_ISDIR(there.st_mode))
        checkpoints_add_bytes(directory, name, 0, &left, checkpoint);
    else
        checkpoint->bytes = (uint64_t)there.st_size;
    if (checkpoint->time == 0) /* fallback: copying changes a directory's own time */
        checkpoint->time = clock_to_milliseconds(&there.st_mtim);
    return true;
}

weft_status run_checkpoints_list(const char *path, struct run_checkpoint **list, size_t *count, struct error *error)
{
    struct run_checkpoint *found = NULL;
    size_t used = 0, room = 0;
    char best[RUN_CHECKPOINT_NAME_BYTES] = "";
    weft_status status = WEFT_OK;
    DIR *listing = file_listing_open(AT_FDCWD, path, O_NOFOLLOW);
    if (!listing && errno != ENOENT)
        status = error_system(error, "cannot read the directory '%s'", path);
    if (listing)
        checkpoints_follow(dirfd(listing), CHECKPOINT_BEST, best);
    for (const char *name; status == WEFT_OK && used < RUN_CHECKPOINTS_MOST && (name = file_listing_next(listing));) {
        status = ARRAY_RESERVE(found, room, used + 1, "a list of checkpoints", error);
        if (status != WEFT_OK || !checkpoints_look_at(dirfd(listing), name, &found[used]))
            continue;
        found[used].best = strcmp(best, found[used].name) == 0;
        used++;
    }
    file_listing_close(listing);
    if (status != WEFT_OK) {
        free(found);
        found = NULL;
        used = 0;
    }
    if (used > 1)
        qsort(found, used, sizeof *found, newest_first);
    *list = found;
    *count = used;
    return status;
}

weft_status run_checkpoint_find(const char *path, const char *name, char found[RUN_CHECKPOINT_NAME_BYTES],
                                struct error *error)
{
    struct stat there;
    char target[RUN_CHECKPOINT_NAME_BYTES] = "";
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0 && run_checkpoint_name_is_good(name)) {
        checkpoints_follow(directory, name, target);
        if (!*target)
            snprintf(target, sizeof target, "%s", name);
        if (fstatat(directory, target, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
            (!S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)))
            target[0] = '\0';
    }
    file_close(directory);
    if (*target) {
        memcpy(found, target, sizeof target);
        return WEFT_OK;
    }
    struct run_checkpoint *list;
    size_t count;
    if (run_checkpoints_list(path, &list, &count, NULL) != WEFT_OK)
        count = 0, list = NULL;
    weft_status status =
        count ? error_set(error, WEFT_ERROR_ARGUMENT,
                          "the run has no checkpoint '%.100s'; its newest one of %zu is '%s'", name, count, list->name)
              : error_set(error, WEFT_ERROR_ARGUMENT,
                          "the run has no checkpoint '%.100s': it has written none to WEFT_CHECKPOINT_DIR", name);
    free(list);
    return status;
}
