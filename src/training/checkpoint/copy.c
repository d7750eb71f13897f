/* SPDX-License-Identifier: Apache-2.0 */
/* Copying a checkpoint to a second directory, and verifying the copy. */
#include "training/checkpoint/copy.h"
#include "training/checkpoint/directory.h"
#include "training/checkpoint/manifest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((uint64_t)1 << 20)

/* What is done with each piece of a file that is read. */
struct piece_user {
    struct file_writer *writer; /* append it there ... */
    struct sha256 *hash;        /* ... or hash it */
};

static weft_status copying_canceled(const char *path, struct error *error)
{
    return error_set(error, WEFT_ERROR_ABORTED, "copying '%s' was canceled", path);
}

/* Read the file at `path` from its beginning to its end. */
static weft_status read_pieces(const char *path, const struct piece_user *user, const atomic_bool *stop,
                               struct error *error)
{
    int descriptor = -1;
    uint64_t size = 0;
    char *piece = malloc(PIECE_BYTES);
    weft_status status =
        piece ? file_open(path, &descriptor, &size, error) : error_memory(error, PIECE_BYTES, "copying a checkpoint");
    if (status == WEFT_OK && user->hash)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED); /* read the disk, not memory */
    for (uint64_t done = 0; status == WEFT_OK && done < size; done += PIECE_BYTES) {
        const uint64_t bytes = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
        status = atomic_load(stop) ? copying_canceled(path, error)
                                   : file_read_at(descriptor, path, size, done, piece, bytes, error);
        if (status == WEFT_OK && user->hash)
            sha256_update(user->hash, piece, bytes);
        else if (status == WEFT_OK)
            status = file_writer_append(user->writer, piece, bytes, error);
    }
    if (descriptor >= 0 && user->hash)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED); /* training may need the memory */
    file_close(descriptor);
    free(piece);
    return status;
}

static weft_status write_copy(const char *from, const char *to, uint64_t bytes, const atomic_bool *stop,
                              struct error *error)
{
    struct file_writer writer;
    weft_status status = file_writer_open(&writer, to, bytes, error);
    if (status != WEFT_OK)
        return status;
    file_writer_bypass_cache(&writer);
    status = read_pieces(from, &(struct piece_user){.writer = &writer}, stop, error);
    if (status != WEFT_OK) {
        file_writer_discard(&writer);
        return status;
    }
    return file_writer_close(&writer, error);
}

static weft_status verify_copy(const char *from, const char *to, const struct file_digest *digest,
                               const atomic_bool *stop, struct error *error)
{
    struct sha256 hash;
    uint8_t found[SHA256_BYTES];
    char is[SHA256_TEXT_BYTES], should[SHA256_TEXT_BYTES];
    weft_status status = sha256_begin(&hash, error);
    if (status != WEFT_OK)
        return status;
    status = read_pieces(to, &(struct piece_user){.hash = &hash}, stop, error);
    const weft_status ended = sha256_end(&hash, status == WEFT_OK ? found : NULL, status == WEFT_OK ? error : NULL);
    if (status != WEFT_OK || ended != WEFT_OK)
        return status != WEFT_OK ? status : ended;
    if (memcmp(found, digest->sha256, sizeof found) == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "'%s', read again after it was copied from '%s', has the SHA-256 %s and not the manifest's %s; "
                     "one of the two disks or the memory is faulty",
                     to, from, sha256_text(found, is), sha256_text(digest->sha256, should));
}

/* The path of a file in the checkpoint, and in its copy while that is being written. */
static weft_status both_paths(const char *run, const char *copy, uint64_t step, const char *name,
                              char from[FILE_PATH_BYTES], char to[FILE_PATH_BYTES], struct error *error)
{
    char directory[FILE_PATH_BYTES];
    weft_status status = directory_of_step(run, step, directory, error);
    if (status == WEFT_OK)
        status = file_join(from, directory, name, error);
    if (status == WEFT_OK)
        status = directory_of_partial(copy, step, directory, error);
    return status == WEFT_OK ? file_join(to, directory, name, error) : status;
}

weft_status checkpoint_copy_file(const char *run, const char *copy, uint64_t step,
                                 const struct checkpoint_record *record, const atomic_bool *stop, struct error *error)
{
    char from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
    weft_status status = both_paths(run, copy, step, record->name, from, to, error);
    if (status == WEFT_OK)
        status = write_copy(from, to, record->digest.bytes, stop, error);
    if (status != WEFT_OK)
        return status;
    status = verify_copy(from, to, &record->digest, stop, error);
    if (status != WEFT_OK)
        unlink(to);
    return status;
}

/* Files that another rank has copied are there with their sizes: it has verified them. */
static weft_status copy_missing(const char *run, const char *copy, const struct manifest *manifest,
                                const atomic_bool *stop, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < manifest->count && status == WEFT_OK; i++) {
        const struct checkpoint_record *record = &manifest->records[i];
        char from[FILE_PATH_BYTES], to[FILE_PATH_BYTES];
        struct stat found;
        status = both_paths(run, copy, manifest->state.step, record->name, from, to, error);
        if (status != WEFT_OK || (stat(to, &found) == 0 && (uint64_t)found.st_size == record->digest.bytes))
            continue;
        status = checkpoint_copy_file(run, copy, manifest->state.step, record, stop, error);
    }
    return status;
}

weft_status checkpoint_copy_complete(const char *run, const char *copy, uint64_t step, unsigned keep,
                                     const atomic_bool *stop, struct error *error)
{
    char from[FILE_PATH_BYTES], to[FILE_PATH_BYTES], where[FILE_PATH_BYTES + 2], *text = NULL;
    size_t size = 0;
    struct manifest manifest = {0};
    weft_status status = both_paths(run, copy, step, CHECKPOINT_MANIFEST, from, to, error);
    if (status == WEFT_OK)
        status = file_read(from, MANIFEST_MOST, &text, &size, error);
    snprintf(where, sizeof where, "'%s'", from);
    if (status == WEFT_OK)
        status = manifest_parse(text, size, where, &manifest, error);
    if (status == WEFT_OK)
        status = copy_missing(run, copy, &manifest, stop, error);
    if (status == WEFT_OK)
        status = file_write(to, text, size, error);
    if (status == WEFT_OK)
        status = directory_publish(copy, step, error);
    if (status == WEFT_OK && directory_is_best(run, step))
        status = directory_mark_best(copy, step, error);
    if (status == WEFT_OK && keep)
        status = directory_prune(copy, step, keep, UINT64_MAX, error);
    manifest_free(&manifest);
    free(text);
    return status;
}
