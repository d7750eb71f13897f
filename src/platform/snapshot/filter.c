/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/filter.h"

#include "base/file/file.h"
#include "platform/snapshot/git_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUR_FILE      ".weftignore"
#define GIT_FILE      ".gitignore"
#define SETTING_FLAGS (O_RDONLY | O_NONBLOCK | O_CLOEXEC) /* for a file that git's settings name */
#define STANDARD      ".git\n.hg/\n.svn/\n__pycache__/\n"

/* A directory whose files of patterns were read. */
struct filter_level {
    struct ignore ours, git;
    size_t base; /* bytes before what its patterns are compared with */
    char *shown; /* the directory in messages; "" for the top */
};

struct snapshot_filter {
    char before[FILE_PATH_BYTES];    /* the top within its repository, "" or with a slash at the end */
    char place[FILE_PATH_BYTES + 1]; /* the top on the machine, with a slash at the end: ~/.aws has the credentials also
                                        from within */
    struct filter_level *levels;
    size_t count, room;
    struct ignore exclude, global, standard;
    struct secret_names secrets;
};

static void free_level(struct filter_level *level)
{
    ignore_free(&level->ours);
    ignore_free(&level->git);
    free(level->shown);
}

/* ---- files of patterns ---- */

/* Read the patterns of an open file, and close it. One that could not be opened (-1) or is no file has none. */
static weft_status read_patterns(int file, const char *where, struct ignore *ignore, struct error *error)
{
    char opened[64], *text = NULL;
    size_t size = 0;
    struct stat there;
    weft_status status = WEFT_OK;
    if (file >= 0 && fstat(file, &there) == 0 && S_ISREG(there.st_mode)) {
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", file); /* the file that was looked at */
        if ((uint64_t)there.st_size > IGNORE_BYTES_MOST)
            status = error_set(error, WEFT_ERROR_DATA, "'%s' has more than %zu bytes", where, IGNORE_BYTES_MOST);
        else if ((status = file_read(opened, IGNORE_BYTES_MOST, &text, &size, error)) == WEFT_OK)
            status = ignore_add(ignore, text, size, where, error);
        free(text);
    }
    file_close(file);
    return status;
}

/* Read a directory's file of patterns; links are not followed, as in git. */
static weft_status read_inner(int directory, const char *name, const char *shown,
                              weft_status (*check)(void *, int, const char *, struct error *), void *context,
                              struct ignore *ignore, struct error *error)
{
    char path[FILE_PATH_BYTES + sizeof "/" OUR_FILE];
    snprintf(path, sizeof path, "%s%s%s", shown, *shown ? "/" : "", name);
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT || errno == ELOOP || errno == ENXIO ? WEFT_OK
                                                                   : error_system(error, "cannot read '%s'", path);
    weft_status status = check ? check(context, file, path, error) : WEFT_OK;
    if (status == WEFT_OK)
        return read_patterns(file, path, ignore, error);
    close(file);
    return status;
}

/* ---- directories ---- */

static weft_status filter_push(struct snapshot_filter *filter, int directory, const char *shown, size_t base, bool ours,
                               weft_status (*check)(void *, int, const char *, struct error *), void *context,
                               struct error *error)
{
    struct filter_level level = {.base = base, .shown = strdup(shown)};
    weft_status status =
        level.shown ? ARRAY_RESERVE(filter->levels, filter->room, filter->count + 1, "the directories of a tree", error)
                    : error_memory(error, strlen(shown), "a path");
    if (status == WEFT_OK && ours)
        status = read_inner(directory, OUR_FILE, shown, check, context, &level.ours, error);
    if (status == WEFT_OK)
        status = read_inner(directory, GIT_FILE, shown, check, context, &level.git, error);
    if (status == WEFT_OK)
        filter->levels[filter->count++] = level;
    else
        free_level(&level);
    return status;
}

/* The .gitignore files above the top, from the top of the repository at `top`, whose path has `size` bytes. */
static weft_status read_above(struct snapshot_filter *filter, const char *top, size_t size, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    for (size_t end = size; status == WEFT_OK && top[end]; end += 1 + strcspn(top + end + 1, "/")) {
        snprintf(path, sizeof path, "%.*s", (int)end, top);
        int directory = open(*path ? path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
            continue;
        status = filter_push(filter, directory, path, end > size ? end - size : 0, false, NULL, NULL, error);
        close(directory);
    }
    return status;
}

static void drop_levels(struct snapshot_filter *filter)
{
    while (filter->count > 0)
        snapshot_filter_leave(filter);
}

static bool judge_by_git(const struct snapshot_filter *filter, const char *full, bool directory,
                         struct snapshot_verdict *verdict);

/* Whether the repository ignores the top itself or a directory above it: its patterns then do not apply to the tree. */
static bool top_is_left_out(const struct snapshot_filter *filter)
{
    struct snapshot_verdict verdict = {.reason = SNAPSHOT_TAKEN};
    char path[FILE_PATH_BYTES];
    for (size_t end = 0; filter->before[end]; end++)
        if (filter->before[end] == '/') {
            snprintf(path, sizeof path, "%.*s", (int)end, filter->before);
            if (judge_by_git(filter, path, true, &verdict) && verdict.reason == SNAPSHOT_PATTERN)
                return true;
        }
    return false;
}

/* Read git's patterns from outside the tree. */
static weft_status read_outside(struct snapshot_filter *filter, const char *directory, struct error *error)
{
    char top[FILE_PATH_BYTES], git[FILE_PATH_BYTES], exclude[FILE_PATH_BYTES], global[FILE_PATH_BYTES];
    if (!realpath(directory, top))
        return error_system(error, "cannot tell where '%s' is", directory);
    size_t size = strlen(top);
    bool found = false;
    snprintf(filter->place, sizeof filter->place, "%s/", top + 1);
    for (;;) {
        if (snprintf(git, sizeof git, "%.*s/.git", (int)size, top) < (int)sizeof git)
            found = file_exists(git);
        if (found || size == 0)
            break;
        while (size > 0 && top[--size] != '/')
            ;
    }
    git_state_excludes(directory, exclude, global, sizeof exclude);
    if (found && top[size] == '/')
        snprintf(filter->before, sizeof filter->before, "%s/", top + size + 1);
    weft_status status = found ? read_above(filter, top, size, error) : WEFT_OK;
    if (found && !*exclude && file_is_directory(git) &&
        snprintf(exclude, sizeof exclude, "%s/info/exclude", git) >= (int)sizeof exclude)
        *exclude = '\0';
    if (status == WEFT_OK && found)
        status = read_patterns(open(exclude, SETTING_FLAGS), exclude, &filter->exclude, error);
    if (status == WEFT_OK && top_is_left_out(filter)) {
        drop_levels(filter);
        ignore_free(&filter->exclude);
    }
    if (status == WEFT_OK)
        status = read_patterns(open(global, SETTING_FLAGS), global, &filter->global, error);
    return status;
}

weft_status snapshot_filter_open(const char *directory, bool outside, struct snapshot_filter **filter,
                                 struct error *error)
{
    struct snapshot_filter *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "patterns");
    weft_status status = ignore_add(&made->standard, STANDARD, sizeof STANDARD - 1, "patterns", error);
    if (status == WEFT_OK)
        status = secret_names_open(&made->secrets, error);
    if (status == WEFT_OK && outside)
        status = read_outside(made, directory, error);
    if (status == WEFT_OK)
        *filter = made;
    else
        snapshot_filter_close(made);
    return status;
}

void snapshot_filter_close(struct snapshot_filter *filter)
{
    if (!filter)
        return;
    drop_levels(filter);
    ignore_free(&filter->exclude);
    ignore_free(&filter->global);
    ignore_free(&filter->standard);
    secret_names_close(&filter->secrets);
    free(filter->levels);
    free(filter);
}

weft_status snapshot_filter_enter(struct snapshot_filter *filter, int directory, const char *path,
                                  weft_status (*check)(void *context, int file, const char *path, struct error *error),
                                  void *context, struct error *error)
{
    size_t base = strlen(filter->before) + strlen(path) + (*path != '\0');
    return filter_push(filter, directory, path, base, true, check, context, error);
}

void snapshot_filter_leave(struct snapshot_filter *filter)
{
    free_level(&filter->levels[--filter->count]);
}

/* ---- judging ---- */

/* Judge by the patterns of the file `name` in the directory `shown`: SNAPSHOT_TAKEN_BY_NAME or SNAPSHOT_PATTERN. False:
 * none matches. */
static bool judge_pattern(const struct ignore *ignore, const char *path, bool directory, const char *shown,
                          const char *name, struct snapshot_verdict *verdict)
{
    enum ignore_answer answer = ignore_match(ignore, path, directory, NULL);
    if (answer == IGNORE_UNNAMED)
        return false;
    verdict->reason = answer == IGNORE_TAKEN ? SNAPSHOT_TAKEN_BY_NAME : SNAPSHOT_PATTERN;
    snprintf(verdict->why, sizeof verdict->why, "%s%s%s", shown, *shown ? "/" : "", name);
    return true;
}

/* Judge by git's patterns; `full` is the path within the repository. */
static bool judge_by_git(const struct snapshot_filter *filter, const char *full, bool directory,
                         struct snapshot_verdict *verdict)
{
    for (size_t i = filter->count; i-- > 0;) {
        const struct filter_level *level = &filter->levels[i];
        if (level->base < strlen(full) &&
            judge_pattern(&level->git, full + level->base, directory, level->shown, GIT_FILE, verdict))
            return true;
    }
    return judge_pattern(&filter->exclude, full, directory, "", ".git/info/exclude", verdict) ||
           judge_pattern(&filter->global, full, directory, "", "git's core.excludesFile", verdict);
}

struct snapshot_verdict snapshot_filter_judge(const struct snapshot_filter *filter, const char *path, bool directory)
{
    char full[2 * FILE_PATH_BYTES];
    struct snapshot_verdict verdict = {.reason = SNAPSHOT_TAKEN};
    snprintf(full, sizeof full, "%s%s", filter->before, path);
    for (size_t i = filter->count; i-- > 0;) {
        const struct filter_level *level = &filter->levels[i];
        if (judge_pattern(&level->ours, full + level->base, directory, level->shown, OUR_FILE, &verdict))
            return verdict;
    }
    if (ignore_match(&filter->standard, path, directory, NULL) == IGNORE_LEFT_OUT)
        return (struct snapshot_verdict){.reason = SNAPSHOT_STANDARD};
    char placed[2 * FILE_PATH_BYTES];
    snprintf(placed, sizeof placed, "%s%s", filter->place, path);
    verdict.kind = secret_names_find(&filter->secrets, placed, directory);
    if (verdict.kind && !verdict.kind->only_with[0]) {
        verdict.reason = SNAPSHOT_SECRET;
        snprintf(verdict.why, sizeof verdict.why, "%s", verdict.kind->what);
    } else if (judge_by_git(filter, full, directory, &verdict) && verdict.reason == SNAPSHOT_TAKEN_BY_NAME) {
        verdict.reason = SNAPSHOT_TAKEN; /* git does not ignore it, but its content may still be secret */
    }
    return verdict;
}
