/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a checkpoint: begin, parts, commit. */
#include "base/format/json_put.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/directory.h"
#include "training/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

weft_status checkpoint_begin(const char *run, uint64_t step, struct error *error)
{
    char partial[FILE_PATH_BYTES];
    weft_status status = directory_of_partial(run, step, partial, error);
    if (status == WEFT_OK)
        status = file_make_directory(run, error);
    if (status == WEFT_OK)
        status = directory_remove_partials(run, error);
    if (status == WEFT_OK)
        status = file_make_directory(partial, error);
    return status;
}

static weft_status checkpoint_part_name(const char *kind, unsigned part, unsigned parts,
                                        char name[CHECKPOINT_FILE_NAME_BYTES], struct error *error)
{
    if (part >= parts)
        return error_set(error, WEFT_ERROR_ARGUMENT, "part %u of %u of a checkpoint does not exist", part, parts);
    int length = parts == 1
                     ? snprintf(name, CHECKPOINT_FILE_NAME_BYTES, "%s.safetensors", kind)
                     : snprintf(name, CHECKPOINT_FILE_NAME_BYTES, "%s-%05u-of-%05u.safetensors", kind, part + 1, parts);
    if (length >= CHECKPOINT_FILE_NAME_BYTES || !manifest_file_name_is_good(name))
        return error_set(error, WEFT_ERROR_ARGUMENT, "a checkpoint has no files of kind '%s'; use small letters", kind);
    return WEFT_OK;
}

/* The path at which file `name` of a checkpoint that was begun lies. */
static weft_status path_in_partial(const char *run, uint64_t step, const char *name, char path[FILE_PATH_BYTES],
                                   struct error *error)
{
    char partial[FILE_PATH_BYTES];
    weft_status status = directory_of_partial(run, step, partial, error);
    return status == WEFT_OK ? file_join(path, partial, name, error) : status;
}

weft_status checkpoint_write_part(const char *run, uint64_t step, const char *kind, unsigned part, unsigned parts,
                                  const struct named_tensor *tensors, size_t count, const struct byte_source *source,
                                  struct checkpoint_record *record, struct error *error)
{
    struct checkpoint_record made = {0};
    char path[FILE_PATH_BYTES];
    weft_status status = checkpoint_part_name(kind, part, parts, made.name, error);
    if (status == WEFT_OK)
        status = path_in_partial(run, step, made.name, path, error);
    if (status == WEFT_OK)
        status = source ? safetensors_write_from(path, tensors, count, source, &made.digest, error)
                        : safetensors_write(path, tensors, count, &made.digest, error);
    if (status == WEFT_OK)
        *record = made;
    return status;
}

/* The text of the index. */
static weft_status format_index(struct json_writer *text, const struct checkpoint_place *places, size_t count,
                                unsigned parts, uint64_t bytes, struct error *error)
{
    json_open_object(text, NULL);
    JSON_PUT_OBJECT(text, "metadata", "total_size", bytes);
    json_open_object(text, "weight_map");
    for (size_t i = 0; i < count; i++) {
        char name[CHECKPOINT_FILE_NAME_BYTES];
        weft_status status = checkpoint_part_name("model", places[i].part, parts, name, error);
        if (status != WEFT_OK)
            return status;
        json_put_text(text, places[i].tensor, name);
    }
    json_close(text);
    json_close(text);
    return json_text(text) ? WEFT_OK : error_memory(error, json_size(text), "the index of a checkpoint");
}

weft_status checkpoint_write_text(const char *run, uint64_t step, const char *name, const char *text, size_t size,
                                  struct checkpoint_record *record, struct error *error)
{
    struct checkpoint_record made = {.digest.bytes = size};
    char path[FILE_PATH_BYTES];
    snprintf(made.name, sizeof made.name, "%s", name);
    weft_status status = path_in_partial(run, step, made.name, path, error);
    if (status == WEFT_OK)
        status = sha256_of(text, size, made.digest.sha256, error);
    if (status == WEFT_OK)
        status = file_write(path, text, size, error);
    if (status == WEFT_OK)
        *record = made;
    return status;
}

weft_status checkpoint_write_index(const char *run, uint64_t step, const struct checkpoint_place *places, size_t count,
                                   unsigned parts, uint64_t bytes, struct checkpoint_record *record,
                                   struct error *error)
{
    struct json_writer text;
    json_begin(&text, JSON_INDENTED);
    weft_status status = format_index(&text, places, count, parts, bytes, error);
    if (status == WEFT_OK)
        status = checkpoint_write_text(run, step, CHECKPOINT_INDEX, json_text(&text), json_size(&text), record, error);
    json_end(&text);
    return status;
}

/* Check that this rank sees every file with the size that its writer reported. */
static weft_status save_find_files(const char *run, uint64_t step, const struct checkpoint_record *records,
                                   size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES];
        struct stat found;
        weft_status status = path_in_partial(run, step, records[i].name, path, error);
        if (status != WEFT_OK)
            return status;
        if (stat(path, &found) != 0)
            return error_system(error, "'%s', which a rank has written, cannot be seen by the rank that completes it",
                                path);
        if ((uint64_t)found.st_size != records[i].digest.bytes)
            return error_set(error, WEFT_ERROR_DATA,
                             "'%s' has %" PRIu64 " bytes, but the rank that wrote it says %" PRIu64, path,
                             (uint64_t)found.st_size, records[i].digest.bytes);
    }
    return WEFT_OK;
}

/* The manifest is written last, once every file is on the disk. */
static weft_status write_manifest(const char *directory, const struct checkpoint_state *state,
                                  const struct checkpoint_record *records, size_t count, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    weft_status status = file_join(path, directory, CHECKPOINT_MANIFEST, error);
    if (status == WEFT_OK)
        status = manifest_format(state, records, count, &text, error);
    if (status != WEFT_OK)
        return status;
    status = file_write(path, text, strlen(text), error);
    free(text);
    return status;
}

static weft_status mark_and_prune(const char *run, const struct checkpoint_state *state, unsigned keep,
                                  struct error *error)
{
    weft_status status = state->best ? directory_mark_best(run, state->step, error) : WEFT_OK;
    return status == WEFT_OK && keep > 0 ? directory_prune(run, state->step, keep, UINT64_MAX, error) : status;
}

weft_status checkpoint_commit(const char *run, const struct checkpoint_state *state,
                              const struct checkpoint_record *records, size_t count, unsigned keep, struct error *error)
{
    char partial[FILE_PATH_BYTES];
    weft_status status = directory_of_partial(run, state->step, partial, error);
    if (status == WEFT_OK)
        status = save_find_files(run, state->step, records, count, error);
    if (status == WEFT_OK)
        status = write_manifest(partial, state, records, count, error);
    if (status == WEFT_OK)
        status = directory_publish(run, state->step, error);
    return status == WEFT_OK ? mark_and_prune(run, state, keep, error) : status;
}

weft_status checkpoint_amend(const char *run, const struct checkpoint_state *state,
                             const struct checkpoint_record *records, size_t count, unsigned keep, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    weft_status status = directory_of_step(run, state->step, directory, error);
    if (status == WEFT_OK)
        status = write_manifest(directory, state, records, count, error);
    return status == WEFT_OK ? mark_and_prune(run, state, keep, error) : status;
}

void checkpoint_abandon(const char *run, uint64_t step)
{
    char partial[FILE_PATH_BYTES];
    if (directory_of_partial(run, step, partial, NULL) == WEFT_OK)
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
        status =
            checkpoint_write_part(run, state->step, "model", 0, 1, weights, weight_count, NULL, &records[0], error);
    if (status == WEFT_OK && files == 2)
        status = checkpoint_write_part(run, state->step, "optimizer", 0, 1, optimizer, optimizer_count, NULL,
                                       &records[1], error);
    if (status == WEFT_OK)
        status = checkpoint_commit(run, state, records, files, keep, error);
    if (status != WEFT_OK)
        checkpoint_abandon(run, state->step);
    return status;
}
