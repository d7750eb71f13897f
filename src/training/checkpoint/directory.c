/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/directory.h"
#include "training/checkpoint/checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_FORMAT    "step-%08" PRIu64
#define PARTIAL_ENDING ".partial"

weft_status directory_of_step(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error)
{
    char name[64];
    snprintf(name, sizeof name, STEP_FORMAT, step);
    return file_join(path, run, name, error);
}

weft_status directory_of_partial(const char *run, uint64_t step, char path[FILE_PATH_BYTES], struct error *error)
{
    char name[64];
    snprintf(name, sizeof name, STEP_FORMAT PARTIAL_ENDING, step);
    return file_join(path, run, name, error);
}

static weft_status both_names(const char *run, uint64_t step, char directory[FILE_PATH_BYTES],
                              char partial[FILE_PATH_BYTES], struct error *error)
{
    weft_status status = directory_of_step(run, step, directory, error);
    return status == WEFT_OK ? directory_of_partial(run, step, partial, error) : status;
}

/* Whether `name` is a step's as directory_of_step() writes it, followed by `ending`. */
static bool is_step_name(const char *name, const char *ending, uint64_t *step)
{
    char written[64];
    if (strncmp(name, "step-", 5) != 0 || !isdigit((unsigned char)name[5]))
        return false;
    *step = strtoull(name + 5, NULL, 10);
    snprintf(written, sizeof written, STEP_FORMAT "%s", *step, ending);
    return strcmp(name, written) == 0;
}

bool directory_step_named(const char *path, uint64_t *step)
{
    return is_step_name(file_name(path), "", step);
}

static int checkpoint_directory_by_step(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* All steps whose directory has `ending`, rising; the caller frees `*steps`. */
static weft_status list_steps(const char *run, const char *ending, uint64_t **steps, size_t *count, struct error *error)
{
    DIR *directory = opendir(run);
    if (!directory)
        return error_system(error, "cannot read the directory '%s'", run);
    uint64_t *found = NULL, step;
    size_t used = 0, room = 0;
    weft_status status = WEFT_OK;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!is_step_name(entry->d_name, ending, &step))
            continue;
        if ((status = ARRAY_RESERVE(found, room, used + 1, "a list of checkpoints", error)) != WEFT_OK)
            break;
        found[used++] = step;
    }
    closedir(directory);
    if (status != WEFT_OK) {
        free(found);
        return status;
    }
    if (used)
        qsort(found, used, sizeof *found, checkpoint_directory_by_step);
    *steps = found;
    *count = used;
    return WEFT_OK;
}

weft_status checkpoint_list(const char *run, uint64_t *steps, size_t room, size_t *count, struct error *error)
{
    uint64_t *found = NULL;
    size_t used = 0, whole = 0;
    weft_status status = list_steps(run, "", &found, &used, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < used && status == WEFT_OK; i++) {
        char directory[FILE_PATH_BYTES], manifest[FILE_PATH_BYTES];
        status = directory_of_step(run, found[i], directory, error);
        if (status == WEFT_OK)
            status = file_join(manifest, directory, CHECKPOINT_MANIFEST, error);
        if (status == WEFT_OK && file_exists(manifest))
            found[whole++] = found[i];
    }
    if (status == WEFT_OK) {
        size_t given = whole < room ? whole : room;
        if (given)
            memcpy(steps, found + whole - given, given * sizeof *steps);
        *count = whole;
    }
    free(found);
    return status;
}

weft_status directory_remove_partials(const char *run, struct error *error)
{
    uint64_t *steps = NULL;
    size_t count = 0;
    weft_status status = list_steps(run, PARTIAL_ENDING, &steps, &count, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        char partial[FILE_PATH_BYTES];
        status = directory_of_partial(run, steps[i], partial, error);
        if (status == WEFT_OK)
            status = file_remove_tree(partial, error);
    }
    free(steps);
    return status;
}

/* Remove the checkpoint of `step`. It is renamed first, so that no reader finds it half removed. */
static weft_status remove_step(const char *run, uint64_t step, struct error *error)
{
    char directory[FILE_PATH_BYTES], partial[FILE_PATH_BYTES];
    weft_status status = both_names(run, step, directory, partial, error);
    if (status != WEFT_OK)
        return status;
    if (rename(directory, partial) != 0)
        return error_system(error, "cannot rename the old checkpoint '%s' to remove it", directory);
    return file_remove_tree(partial, error);
}

/* For file systems that cannot swap two names: move the old one away first. Between the two moves the step is absent.
 */
static weft_status replace_in_two_moves(const char *partial, const char *directory, struct error *error)
{
    char old[FILE_PATH_BYTES];
    if (snprintf(old, sizeof old, "%s.old", directory) >= (int)sizeof old)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", directory);
    weft_status status = file_remove_tree(old, error);
    if (status != WEFT_OK)
        return status;
    if (rename(directory, old) != 0)
        return error_system(error, "cannot rename the checkpoint '%s' to replace it", directory);
    if (rename(partial, directory) != 0) {
        error_system(error, "cannot rename '%s' to '%s'", partial, directory);
        rename(old, directory);
        return WEFT_ERROR_SYSTEM;
    }
    return file_remove_tree(old, error);
}

weft_status directory_publish(const char *run, uint64_t step, struct error *error)
{
    char directory[FILE_PATH_BYTES], partial[FILE_PATH_BYTES];
    weft_status status = both_names(run, step, directory, partial, error);
    if (status != WEFT_OK)
        return status;
    if (!file_exists(directory)) {
        if (rename(partial, directory) != 0)
            return error_system(error, "cannot rename '%s' to '%s'", partial, directory);
        return file_sync_directory(run, error);
    }
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, directory, RENAME_EXCHANGE) == 0)
        status = file_remove_tree(partial, error);
    else
        status = replace_in_two_moves(partial, directory, error);
    return status == WEFT_OK ? file_sync_directory(run, error) : status;
}

bool directory_is_best(const char *run, uint64_t step)
{
    char link[FILE_PATH_BYTES], target[64], name[64];
    snprintf(name, sizeof name, STEP_FORMAT, step);
    if (file_join(link, run, CHECKPOINT_BEST, NULL) != WEFT_OK)
        return false;
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    return strcmp(target, name) == 0;
}

weft_status directory_mark_best(const char *run, uint64_t step, struct error *error)
{
    char link[FILE_PATH_BYTES], made[FILE_PATH_BYTES], name[64];
    if (directory_is_best(run, step))
        return WEFT_OK;
    snprintf(name, sizeof name, STEP_FORMAT, step);
    weft_status status = file_join(link, run, CHECKPOINT_BEST, error);
    if (status == WEFT_OK)
        status = file_join(made, run, CHECKPOINT_BEST PARTIAL_ENDING, error);
    if (status != WEFT_OK)
        return status;
    unlink(made); /* of a crash */
    if (symlink(name, made) != 0)
        return error_system(error, "cannot make the link '%s' to the best checkpoint", made);
    if (rename(made, link) != 0) {
        error_system(error, "cannot rename '%s' to '%s'", made, link);
        unlink(made);
        return WEFT_ERROR_SYSTEM;
    }
    return file_sync_directory(run, error);
}

weft_status directory_prune(const char *run, uint64_t step, unsigned keep, uint64_t held, struct error *error)
{
    uint64_t *steps = NULL;
    size_t count = 0, candidates = 0;
    weft_status status = list_steps(run, "", &steps, &count, error);
    if (status != WEFT_OK)
        return status;
    while (candidates < count && steps[candidates] <= step)
        candidates++;
    for (size_t i = 0; i + keep < candidates && status == WEFT_OK; i++)
        if (steps[i] != held && !directory_is_best(run, steps[i]))
            status = remove_step(run, steps[i], error);
    free(steps);
    return status;
}
