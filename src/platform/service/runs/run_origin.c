/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/run_origin.h"

#include "platform/runs/directory.h"
#include "platform/service/internal/snapshot_stores.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include <string.h>

weft_status run_origin_check(const struct controller_directories *directories,
                             const struct run_specification *specification, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    if (*specification->checkpoint && specification->parent <= 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a run that begins from checkpoint '%.100s' is a fork of the run that has it",
                         specification->checkpoint);
    if (*specification->snapshot) {
        status = snapshot_stores_find(directories, specification->project, specification->owner,
                                      specification->snapshot, specification->parent, path, error);
    }
    return status;
}

weft_status run_origin_find(const struct controller_directories *directories, int64_t parent, const char *checkpoint,
                            char found[RUN_CHECKPOINT_NAME_BYTES], struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = run_directory_path(directories->runs, parent, "checkpoints", path, error);
    return status == WEFT_OK ? run_checkpoint_find(path, checkpoint, found, error) : status;
}

weft_status run_origin_take(const struct controller_directories *directories, const char *project, int64_t run,
                            const char *owner, const char *user, struct snapshot *taken, struct error *error)
{
    char store[FILE_PATH_BYTES], private[FILE_PATH_BYTES], work[FILE_PATH_BYTES];
    struct error failure = {0};
    bool refused = false;
    const struct snapshot_options public = {.foreign = true, .refused = &refused}, all = {.foreign = true};
    weft_status status = snapshot_store_of(directories, project, store, error);
    *taken = (struct snapshot){.id = ""};
    if (status == WEFT_OK)
        status = run_directory_path(directories->runs, run, "work", work, error);
    if (status != WEFT_OK || !file_is_directory(work))
        return status;
    status = snapshot_take(store, work, &public, taken, &failure);
    if (status != WEFT_OK && (!refused || strcmp(owner, user) != 0))
        error_set(error, status, "%s%s", failure.text,
                  refused
                      ? ": so only the owner can promote the run, unless the file is made readable for others (chmod "
                        "go+r)"
                      : "");
    else if (status != WEFT_OK && (status = snapshot_store_make_private(private, store, owner, error)) == WEFT_OK)
        status = snapshot_take(private, work, &all, taken, error);
    return status;
}
