/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a checkpoint: find it, verify every byte, put the pieces of its tensors together. */
#include "training/checkpoint/directory.h"
#include "training/checkpoint/internal/opened.h"
#include "training/checkpoint/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Times to look again when a checkpoint is replaced or removed while it is being opened. */
#define ATTEMPTS 10

/* ---- files ---- */

/* Map a file and compare it with its record: the size, and unless another rank has read it, every byte. */
static weft_status verify_file(const char *path, const struct file_digest *expected, bool verified,
                               struct file_map *map, struct error *error)
{
    struct stat about;
    if (stat(path, &about) != 0 && errno == ENOENT)
        return error_set(error, WEFT_ERROR_DATA,
                         "cannot open '%s': it is missing, but its manifest lists it; use another checkpoint", path);
    weft_status status = file_map(path, map, error);
    if (status != WEFT_OK)
        return status;
    if (map->size != expected->bytes)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %" PRIu64 " bytes, but its manifest says %" PRIu64 "; it is %s", path, map->size,
                         expected->bytes, map->size < expected->bytes ? "truncated" : "not the file that was written");
    if (verified)
        return WEFT_OK;
    if (map->size > 0)
        madvise((void *)(uintptr_t)map->bytes, map->size, MADV_SEQUENTIAL);
    uint8_t digest[SHA256_BYTES];
    status = sha256_of(map->bytes, map->size, digest, error);
    if (status != WEFT_OK)
        return status;
    char is[SHA256_TEXT_BYTES], should[SHA256_TEXT_BYTES];
    if (memcmp(digest, expected->sha256, sizeof digest) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' is damaged: its SHA-256 is %s, but its manifest says %s; use another checkpoint", path,
                         sha256_text(digest, is), sha256_text(expected->sha256, should));
    return WEFT_OK;
}

static weft_status checkpoint_open_files(struct checkpoint *checkpoint, bool verified, struct error *error)
{
    size_t count = checkpoint->manifest.count;
    checkpoint->files = calloc(count, sizeof *checkpoint->files);
    if (!checkpoint->files)
        return error_memory(error, count * sizeof *checkpoint->files, "a list of files");
    for (size_t i = 0; i < count; i++) {
        const struct checkpoint_record *record = &checkpoint->manifest.records[i];
        struct checkpoint_file *file = &checkpoint->files[i];
        char path[FILE_PATH_BYTES], where[FILE_PATH_BYTES + 2];
        weft_status status = file_join(path, checkpoint->directory, record->name, error);
        if (status == WEFT_OK)
            status = verify_file(path, &record->digest, verified, &file->map, error);
        if (status != WEFT_OK)
            return status;
        if (!manifest_file_has_tensors(record->name))
            continue;
        snprintf(where, sizeof where, "'%s'", path);
        status = safetensors_parse(file->map.bytes, file->map.size, where, &file->tensors, error);
        if (status != WEFT_OK)
            return status;
        checkpoint->piece_count += safetensors_count(file->tensors);
    }
    return WEFT_OK;
}

/* ---- tensors ---- */

static int by_name_and_place(const void *left, const void *right)
{
    const struct named_tensor *a = *(const struct named_tensor *const *)left,
                              *b = *(const struct named_tensor *const *)right;
    int names = strcmp(a->name, b->name);
    if (names != 0)
        return names;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    uint64_t a_held = named_tensor_held(a), b_held = named_tensor_held(b);
    return a_held < b_held ? -1 : a_held > b_held;
}

/* Check that the pieces `from` to `to` make one whole tensor. */
static weft_status check_pieces(const struct checkpoint *checkpoint, size_t from, size_t to, struct error *error)
{
    const struct named_tensor *first = checkpoint->pieces[from];
    uint64_t end = 0, elements = named_tensor_elements(first);
    for (size_t i = from; i < to; i++) {
        const struct named_tensor *piece = checkpoint->pieces[i];
        if (piece->type != first->type || !named_tensor_same_shape(piece, first))
            return error_set(error, WEFT_ERROR_DATA,
                             "the pieces of tensor '%s' in '%s' disagree about its type or shape", first->name,
                             checkpoint->directory);
        if (piece->first != end)
            return error_set(error, WEFT_ERROR_DATA,
                             "tensor '%s' in '%s' has its elements from %" PRIu64 " to %" PRIu64 " %s", first->name,
                             checkpoint->directory, piece->first < end ? piece->first : end,
                             piece->first < end ? end : piece->first, piece->first < end ? "twice" : "missing");
        end += named_tensor_held(piece);
    }
    if (end != elements)
        return error_set(error, WEFT_ERROR_DATA,
                         "tensor '%s' in '%s' ends after %" PRIu64 " of its %" PRIu64 " elements", first->name,
                         checkpoint->directory, end, elements);
    return WEFT_OK;
}

static weft_status join_pieces(struct checkpoint *checkpoint, struct error *error)
{
    size_t count = checkpoint->piece_count;
    checkpoint->pieces = calloc(count + 1, sizeof *checkpoint->pieces);
    checkpoint->tensors = calloc(count + 1, sizeof *checkpoint->tensors);
    checkpoint->first_pieces = calloc(count + 1, sizeof *checkpoint->first_pieces);
    if (!checkpoint->pieces || !checkpoint->tensors || !checkpoint->first_pieces)
        return error_memory(error, count * (sizeof *checkpoint->tensors), "a list of tensors");
    size_t used = 0;
    for (size_t i = 0; i < checkpoint->manifest.count; i++)
        for (size_t t = 0; checkpoint->files[i].tensors && t < safetensors_count(checkpoint->files[i].tensors); t++)
            checkpoint->pieces[used++] = safetensors_tensor(checkpoint->files[i].tensors, t);
    qsort(checkpoint->pieces, count, sizeof *checkpoint->pieces, by_name_and_place);
    for (size_t from = 0, to; from < count; from = to) {
        const struct named_tensor *first = checkpoint->pieces[from];
        for (to = from + 1; to < count && strcmp(checkpoint->pieces[to]->name, first->name) == 0;)
            to++;
        weft_status status = check_pieces(checkpoint, from, to, error);
        if (status != WEFT_OK)
            return status;
        struct named_tensor *tensor = &checkpoint->tensors[checkpoint->tensor_count];
        *tensor = *first;
        tensor->first = tensor->count = 0;
        tensor->data = NULL;
        checkpoint->first_pieces[checkpoint->tensor_count++] = from;
        checkpoint->first_pieces[checkpoint->tensor_count] = to;
    }
    return WEFT_OK;
}

/* ---- directories ---- */

static weft_status checkpoint_take_manifest(struct checkpoint *checkpoint, struct error *error)
{
    char path[FILE_PATH_BYTES], where[FILE_PATH_BYTES + 2], *text;
    size_t size;
    weft_status status = file_join(path, checkpoint->directory, CHECKPOINT_MANIFEST, error);
    if (status == WEFT_OK)
        status = file_read(path, MANIFEST_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    snprintf(where, sizeof where, "'%s'", path);
    status = manifest_parse(text, size, where, &checkpoint->manifest, error);
    free(text);
    return status;
}

static weft_status open_step(const char *directory, bool verified, struct checkpoint **checkpoint, struct error *error)
{
    struct checkpoint *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, sizeof *opened, "a checkpoint");
    snprintf(opened->directory, sizeof opened->directory, "%s", directory);
    weft_status status = checkpoint_take_manifest(opened, error);
    if (status == WEFT_OK)
        status = checkpoint_open_files(opened, verified, error);
    if (status == WEFT_OK)
        status = join_pieces(opened, error);
    if (status != WEFT_OK) {
        checkpoint_close(opened);
        return status;
    }
    *checkpoint = opened;
    return WEFT_OK;
}

/* The directory of the checkpoint that `directory` is or, as a run directory, has as its newest; `older` receives the step
 * before that one. */
static weft_status find_step(const char *directory, char step_directory[FILE_PATH_BYTES], char older[FILE_PATH_BYTES],
                             struct error *error)
{
    older[0] = '\0';
    weft_status status = file_join(step_directory, directory, CHECKPOINT_MANIFEST, error);
    if (status != WEFT_OK)
        return status;
    if (file_exists(step_directory)) {
        snprintf(step_directory, FILE_PATH_BYTES, "%s", directory);
        return WEFT_OK;
    }
    uint64_t steps[2] = {0};
    size_t count;
    status = checkpoint_list(directory, steps, 2, &count, error);
    if (status != WEFT_OK)
        return status;
    if (count == 0)
        return error_set(
            error, WEFT_ERROR_DATA,
            "there is no checkpoint in '%s': neither a manifest.json nor a directory like 'step-00000100' that has one",
            directory);
    if (count > 1)
        directory_of_step(directory, steps[0], older, NULL);
    return directory_of_step(directory, steps[count > 1], step_directory, error);
}

weft_status checkpoint_find(const char *directory, char found[FILE_PATH_BYTES], struct error *error)
{
    char older[FILE_PATH_BYTES];
    return find_step(directory, found, older, error);
}

/* Identifies a directory, as the name may be reused. */
static uint64_t identity(const char *directory)
{
    struct stat status;
    return stat(directory, &status) == 0 ? status.st_ino : 0;
}

weft_status checkpoint_open(const char *directory, struct checkpoint **checkpoint, struct error *error)
{
    char step_directory[FILE_PATH_BYTES], older[FILE_PATH_BYTES];
    struct error attempted = {0};
    weft_status status = WEFT_OK;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        error_clear(&attempted);
        status = find_step(directory, step_directory, older, &attempted);
        if (status != WEFT_OK)
            return error_set(error, status, "%s", attempted.text);
        uint64_t before = identity(step_directory);
        status = open_step(step_directory, false, checkpoint, &attempted);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (before != 0 && identity(step_directory) == before)
            break;
    }
    if (older[0])
        return error_set(error, status, "%s; the next older checkpoint is '%s'", attempted.text, older);
    return error_set(error, status, "%s", attempted.text);
}

static weft_status identify_step(const char *step_directory, struct checkpoint_identity *result, struct error *error)
{
    char path[FILE_PATH_BYTES], *text = NULL;
    struct stat about;
    size_t size = 0;
    weft_status status = file_join(path, step_directory, CHECKPOINT_MANIFEST, error);
    if (status == WEFT_OK && stat(path, &about) != 0)
        status = error_system(error, "cannot read '%s'", path);
    if (status == WEFT_OK)
        status = file_read(path, MANIFEST_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    *result = (struct checkpoint_identity){
        .inode = about.st_ino, .seconds = about.st_mtim.tv_sec, .nanoseconds = about.st_mtim.tv_nsec};
    status = sha256_of(text, size, result->manifest, error);
    free(text);
    return status;
}

weft_status checkpoint_identify(const struct checkpoint *checkpoint, struct checkpoint_identity *result,
                                struct error *error)
{
    return identify_step(checkpoint->directory, result, error);
}

weft_status checkpoint_open_same(const char *directory, const struct checkpoint_identity *wanted,
                                 struct checkpoint **checkpoint, struct error *error)
{
    char step_directory[FILE_PATH_BYTES];
    struct checkpoint_identity own;
    *checkpoint = NULL;
    if (checkpoint_find(directory, step_directory, NULL) != WEFT_OK ||
        identify_step(step_directory, &own, NULL) != WEFT_OK || memcmp(&own, wanted, sizeof own) != 0)
        return WEFT_OK;
    return open_step(step_directory, true, checkpoint, error);
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    for (size_t i = 0; checkpoint->files && i < checkpoint->manifest.count; i++) {
        safetensors_close(checkpoint->files[i].tensors);
        file_unmap(&checkpoint->files[i].map);
    }
    free(checkpoint->files);
    free(checkpoint->pieces);
    free(checkpoint->tensors);
    free(checkpoint->first_pieces);
    manifest_free(&checkpoint->manifest);
    free(checkpoint);
}
