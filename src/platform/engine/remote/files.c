/* SPDX-License-Identifier: Apache-2.0 */
/* The files of runs, where hosts have nothing of this machine's disk: which ones an attempt needs, and pieces of them. */
#include "platform/engine/remote/internal/state.h"
#include "platform/snapshot/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_SNAPSHOT "-"

static weft_status files_path(const struct remote *remote, const struct attempt *attempt, char path[FILE_PATH_BYTES],
                              struct error *error)
{
    char directory[FILE_PATH_BYTES];
    weft_status status = node_directory(directory, remote->directory, attempt, ATTEMPT_NODES_MOST, error);
    return status == WEFT_OK ? file_join(path, directory, "files", error) : status;
}

weft_status remote_files_save(const struct remote *remote, const struct engine_order *order, struct error *error)
{
    char path[FILE_PATH_BYTES], text[FILE_PATH_BYTES + SNAPSHOT_ID_BYTES + 8];
    const struct engine_files *files = order->files;
    if (!files)
        return WEFT_OK;
    const int size =
        snprintf(text, sizeof text, "%s\n%s\n", *files->snapshot ? files->snapshot : NO_SNAPSHOT, files->store);
    if (files->store[0] != '/' || strchr(files->store, '\n') || strlen(files->snapshot) >= SNAPSHOT_ID_BYTES ||
        size >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.200s' is no directory that can have snapshots", files->store);
    weft_status status = files_path(remote, &order->attempt, path, error);
    if (status == WEFT_OK)
        status = file_make_directory_of(path, error);
    return status == WEFT_OK ? file_write(path, text, (size_t)size, error) : status;
}

weft_status remote_files_load(const struct remote *remote, const struct attempt *attempt, struct remote_files *files,
                              struct error *error)
{
    char path[FILE_PATH_BYTES], *text, *rest;
    size_t size;
    *files = (struct remote_files){.storage = *remote->shared ? REMOTE_SHARED : REMOTE_OWN};
    snprintf(files->text, sizeof files->text, "%s", remote->shared);
    weft_status status = files_path(remote, attempt, path, error);
    if (status != WEFT_OK || !file_exists(path))
        return status;
    status = file_read(path, FILE_PATH_BYTES, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    rest = text;
    const char *snapshot = strsep(&rest, "\n"), *store = strsep(&rest, "\n");
    if (!store || store[0] != '/' || strlen(snapshot) >= SNAPSHOT_ID_BYTES) {
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged", path);
    } else {
        files->storage = REMOTE_SENT;
        snprintf(files->text, sizeof files->text, "%s", strcmp(snapshot, NO_SNAPSHOT) == 0 ? "" : snapshot);
        snprintf(files->store, sizeof files->store, "%s", store);
    }
    free(text);
    return status;
}

/* The file that is wanted. An object is found by its content's hash alone, which who does not have it does not know. */
static weft_status wanted_path(const struct remote_files *files, const char *hash, char path[FILE_PATH_BYTES],
                               struct error *error)
{
    if (files->storage != REMOTE_SENT || !*files->text)
        return error_set(error, WEFT_ERROR_STATE, "the attempt has no snapshot");
    if (!*hash)
        return snapshot_list_path(path, files->store, files->text, error);
    if (strlen(hash) != SHA256_TEXT_BYTES - 1 || strspn(hash, "0123456789abcdef") != SHA256_TEXT_BYTES - 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "that is the name of no object");
    return snapshot_object_path(path, files->store, hash, hash + 2, error);
}

static weft_status read_piece(const char *path, uint64_t offset, struct buffer *bytes, uint64_t *size,
                              struct error *error)
{
    int file;
    weft_status status = file_open(path, &file, size, error);
    if (status != WEFT_OK)
        return status;
    const uint64_t left = offset < *size ? *size - offset : 0;
    const size_t piece = left < REMOTE_FILE_PIECE ? (size_t)left : REMOTE_FILE_PIECE;
    uint8_t *place = buffer_reserve(bytes, piece);
    if (piece && !place)
        status = error_memory(error, piece, "a piece of a file");
    else if (piece)
        status = file_read_at(file, path, *size, offset, place, piece, error);
    if (status == WEFT_OK)
        bytes->end += piece;
    file_close(file);
    return status;
}

void remote_files_answer(const struct remote_files *files, struct reader *want, struct buffer *piece)
{
    char path[FILE_PATH_BYTES], hash[SHA256_TEXT_BYTES + 1];
    struct buffer bytes = {0};
    struct error error = {0};
    uint64_t size = 0;
    const uint64_t offset = reader_u64(want);
    reader_text(want, hash, sizeof hash);
    weft_status status = wanted_path(files, hash, path, &error);
    if (status == WEFT_OK)
        status = read_piece(path, offset, &bytes, &size, &error);
    buffer_put_text(piece, status == WEFT_OK ? "" : error.text);
    buffer_put_u64(piece, size);
    buffer_put(piece, buffer_begin(&bytes), status == WEFT_OK ? buffer_size(&bytes) : 0);
    buffer_free(&bytes);
}
