/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run resumes from that keeps copies of its checkpoints. */
#include "training/checkpoint/copy.h"
#include "training/checkpoint/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A checkpoint to resume from, or why there is none. */
struct candidate {
    char path[FILE_PATH_BYTES];
    bool found;
    uint64_t step;
    struct error error;
};

/* `directory` or, as a run directory, the newest checkpoint in it. */
static void candidate_find(const char *directory, struct candidate *candidate)
{
    candidate->found = checkpoint_find(directory, candidate->path, &candidate->error) == WEFT_OK;
    if (candidate->found)
        directory_step_named(candidate->path, &candidate->step);
}

static bool candidate_is_whole(struct candidate *candidate)
{
    struct checkpoint *checkpoint;
    if (!candidate->found || checkpoint_open(candidate->path, &checkpoint, &candidate->error) != WEFT_OK)
        return false;
    checkpoint_close(checkpoint);
    return true;
}

weft_status checkpoint_choose(const char *directory, const char *copy, char chosen[FILE_PATH_BYTES],
                              char reason[CHECKPOINT_REASON_BYTES], struct error *error)
{
    struct candidate first = {0}, second = {0};
    char there[FILE_PATH_BYTES];
    uint64_t step;
    const bool is_single = directory_step_named(directory, &step);
    weft_status status = is_single ? directory_of_step(copy, step, there, error) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    candidate_find(directory, &first);
    candidate_find(is_single ? there : copy, &second);
    snprintf(chosen, FILE_PATH_BYTES, "%s", directory);
    reason[0] = '\0';
    if (first.found && !is_single && strcmp(first.path, directory) == 0)
        return WEFT_OK; /* such as "RUN/best": its name does not say which copy is its own */
    const bool is_older = first.found && second.found && first.step < second.step;
    if (!is_older && candidate_is_whole(&first))
        return WEFT_OK;
    if (candidate_is_whole(&second)) {
        snprintf(chosen, FILE_PATH_BYTES, "%s", second.path);
        if (is_older)
            snprintf(reason, CHECKPOINT_REASON_BYTES, "'%.200s' has no checkpoint after step %" PRIu64, directory,
                     first.step);
        else
            snprintf(reason, CHECKPOINT_REASON_BYTES, "%s", first.error.text);
        return WEFT_OK;
    }
    if (is_older && candidate_is_whole(&first))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "%s; nor can the copy be used: %s", first.error.text, second.error.text);
}
