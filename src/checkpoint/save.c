/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a checkpoint: begin, parts, commit. */
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_status checkpoint_begin(const char *run, uint64_t step, struct error *error)
{
    char partial[FILE_PATH_BYTES];
    weft_status status = folder_of_partial(run, step, partial, error);
    if (status == WEFT_OK)
        status = file_make_folder(run, error);
    if (status == WEFT_OK)
        status = folder_remove_partials(run, error);
    if (status == WEFT_OK)
        status = file_make_folder(partial, error);
    return status;
}

weft_status checkpoint_write_part(const char *run, uint64_t step, const char *kind, unsigned part, unsigned parts,
                                  const struct named_tensor *tensors, size_t count, struct checkpoint_record *record,
                                  struct error *error)
{
    struct checkpoint_record made = {0};
    if (part >= parts)
        return error_set(error, WEFT_ERROR_ARGUMENT, "part %u of %u of a checkpoint does not exist", part, parts);
    int length = parts == 1
                     ? snprintf(made.name, sizeof made.name, "%s.safetensors", kind)
                     : snprintf(made.name, sizeof made.name, "%s-%05u-of-%05u.safetensors", kind, part + 1, parts);
    if (length >= (int)sizeof made.name || !manifest_file_name_is_good(made.name))
        return error_set(error, WEFT_ERROR_ARGUMENT, "a checkpoint has no files of kind '%s'; use small letters", kind);
    char partial[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    weft_status status = folder_of_partial(run, step, partial, error);
    if (status == WEFT_OK)
        status = file_join(path, partial, made.name, error);
    if (status == WEFT_OK)
        status = safetensors_write(path, tensors, count, &made.digest, error);
    if (status == WEFT_OK)
        *record = made;
    return status;
}

/* The manifest is written last, once every file is on the disk. */
static weft_status write_manifest(const char *partial, const struct checkpoint_state *state,
                                  const struct checkpoint_record *records, size_t count, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    weft_status status = file_join(path, partial, CHECKPOINT_MANIFEST, error);
    if (status == WEFT_OK)
        status = manifest_format(state, records, count, &text, error);
    if (status != WEFT_OK)
        return status;
    status = file_write(path, text, strlen(text), error);
    free(text);
    return status;
}

weft_status checkpoint_commit(const char *run, const struct checkpoint_state *state,
                              const struct checkpoint_record *records, size_t count, unsigned keep, struct error *error)
{
    char partial[FILE_PATH_BYTES];
    weft_status status = folder_of_partial(run, state->step, partial, error);
    if (status == WEFT_OK)
        status = write_manifest(partial, state, records, count, error);
    if (status == WEFT_OK)
        status = folder_publish(run, state->step, error);
    if (status == WEFT_OK && keep > 0)
        status = folder_prune(run, state->step, keep, error);
    return status;
}

void checkpoint_abandon(const char *run, uint64_t step)
{
    char partial[FILE_PATH_BYTES];
    if (folder_of_partial(run, step, partial, NULL) == WEFT_OK)
        file_remove_tree(partial, NULL);
}

weft_status checkpoint_save(const char *run, const struct checkpoint_state *state, const struct named_tensor *weights,
                            size_t weight_count, const struct named_tensor *optimizer, size_t optimizer_count,
                            unsigned keep, struct error *error)
{
    struct checkpoint_record records[2];
    size_t files = optimizer_count > 0 ? 2 : 1;
    weft_status status = checkpoint_begin(run, state->step, error);
    if (status == WEFT_OK)
        status = checkpoint_write_part(run, state->step, "model", 0, 1, weights, weight_count, &records[0], error);
    if (status == WEFT_OK && files == 2)
        status =
            checkpoint_write_part(run, state->step, "optimizer", 0, 1, optimizer, optimizer_count, &records[1], error);
    if (status == WEFT_OK)
        status = checkpoint_commit(run, state, records, files, keep, error);
    if (status != WEFT_OK)
        checkpoint_abandon(run, state->step);
    return status;
}
