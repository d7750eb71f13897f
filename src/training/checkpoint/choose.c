/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run resumes from: the newest checkpoint that is whole, in its directory or among the copies. */
#include "training/checkpoint/copy.h"
#include "training/checkpoint/directory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CANDIDATES_MOST 16 /* of a directory, from the newest on */

/* The checkpoints of a directory that are still to be tried, and why those before cannot be used. */
struct candidates {
    const char *directory;
    bool is_checkpoint; /* it is one itself, and the only candidate */
    size_t count, tried;
    uint64_t steps[CANDIDATES_MOST]; /* rising; those up to `count` are to be tried */
    struct error error;              /* of the newest */
};

/* The first error that may pass: the checkpoint may be whole. */
struct unread_checkpoint {
    uint64_t step;
    struct error error;
};

/* Without a directory there are none. */
static void candidates_find(const char *directory, struct candidates *candidates)
{
    char newest[FILE_PATH_BYTES];
    size_t count = 0;
    *candidates = (struct candidates){.directory = directory};
    if (!directory || checkpoint_find(directory, newest, &candidates->error) != WEFT_OK)
        return;
    if (strcmp(newest, directory) == 0) {
        candidates->is_checkpoint = true;
        candidates->count = 1;
        directory_step_named(directory, &candidates->steps[0]);
    } else if (checkpoint_list(directory, candidates->steps, CANDIDATES_MOST, &count, &candidates->error) == WEFT_OK) {
        candidates->count = count < CANDIDATES_MOST ? count : CANDIDATES_MOST;
    }
}

static uint64_t candidates_step(const struct candidates *candidates)
{
    return candidates->steps[candidates->count - 1];
}

/* Verify the next one. `path` receives its directory. Errors: DATA if it is damaged or missing. */
static weft_status candidates_try(struct candidates *candidates, char path[FILE_PATH_BYTES],
                                  struct checkpoint_identity *verified, struct error *error)
{
    struct checkpoint *checkpoint = NULL;
    struct stat about;
    weft_status status = WEFT_OK;
    path[0] = '\0';
    if (candidates->is_checkpoint)
        snprintf(path, FILE_PATH_BYTES, "%s", candidates->directory);
    else
        status = directory_of_step(candidates->directory, candidates_step(candidates), path, error);
    if (status == WEFT_OK)
        status = checkpoint_open(path, &checkpoint, error);
    if (status == WEFT_OK)
        status = checkpoint_identify(checkpoint, verified, error);
    checkpoint_close(checkpoint);
    if (status == WEFT_OK)
        return WEFT_OK;
    if (candidates->tried == 0)
        candidates->error = *error;
    candidates->tried++;
    candidates->count--;
    return stat(path, &about) != 0 && errno == ENOENT ? WEFT_ERROR_DATA : status; /* removed meanwhile */
}

/* `path`, of the copies or not, is whole. Say why it is not the newest one of `first`, if so. */
static void candidates_take(const struct candidates *first, const struct candidates *second, bool is_copy,
                            const char *path, char chosen[FILE_PATH_BYTES], char warning[CHECKPOINT_WARNING_BYTES])
{
    const char *problem = first->error.text;
    char reason[ERROR_TEXT_BYTES];
    snprintf(chosen, FILE_PATH_BYTES, "%s", is_copy || first->tried ? path : first->directory);
    if (!is_copy && !first->tried && !second->tried)
        return;
    if (is_copy && !*problem) {
        snprintf(reason, sizeof reason, "'%.200s' has no checkpoint after step %" PRIu64, first->directory,
                 candidates_step(first));
        problem = reason;
    } else if (!*problem) {
        problem = second->error.text;
    }
    snprintf(warning, CHECKPOINT_WARNING_BYTES, "%s; resuming from the %s '%s'", problem,
             is_copy ? "copy" : "older checkpoint", path);
}

weft_status checkpoint_choose(const char *directory, const char *copy, char chosen[FILE_PATH_BYTES],
                              char warning[CHECKPOINT_WARNING_BYTES], struct checkpoint_identity *verified,
                              struct error *error)
{
    struct candidates first, second;
    struct unread_checkpoint unread = {0};
    char there[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    uint64_t step;
    const bool is_single = directory_step_named(directory, &step);
    warning[0] = '\0';
    *verified = (struct checkpoint_identity){0};
    if (is_single && copy) {
        const weft_status status = directory_of_step(copy, step, there, error);
        if (status != WEFT_OK)
            return status;
        copy = there;
    }
    candidates_find(directory, &first);
    if (first.is_checkpoint && !is_single) { /* such as "RUN/best": its name does not say which copy is its own */
        snprintf(chosen, FILE_PATH_BYTES, "%s", directory);
        return WEFT_OK;
    }
    candidates_find(copy, &second);
    while (first.count || second.count) {
        const bool is_copy = !first.count || (second.count && candidates_step(&second) > candidates_step(&first));
        struct candidates *from = is_copy ? &second : &first;
        const uint64_t from_step = candidates_step(from);
        struct error tried = {0};
        if (unread.error.status != WEFT_OK && from_step < unread.step)
            break;
        const weft_status status = candidates_try(from, path, verified, &tried);
        if (status == WEFT_OK) {
            candidates_take(&first, &second, is_copy, path, chosen, warning);
            return WEFT_OK;
        }
        if (status == WEFT_ERROR_MEMORY)
            return error_set(error, status, "%s", tried.text);
        if (status != WEFT_ERROR_DATA && unread.error.status == WEFT_OK)
            unread = (struct unread_checkpoint){.step = from_step, .error = tried};
    }
    if (unread.error.status != WEFT_OK)
        return error_set(error, unread.error.status, "%s", unread.error.text);
    if (!copy)
        return error_set(error, WEFT_ERROR_DATA, "%s", first.error.text);
    return error_set(error, WEFT_ERROR_DATA, "%s; nor can the copy be used: %s", first.error.text, second.error.text);
}
