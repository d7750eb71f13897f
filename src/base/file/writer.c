/* SPDX-License-Identifier: Apache-2.0 */
/* Files written from front to back, through the page cache or past it. */
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BLOCK_BYTES     ((size_t)1 << 20) /* of a write past the page cache */
#define BLOCK_ALIGNMENT ((size_t)4096)    /* which suffices for all common disks */

/* The message for a write, sync or close that failed with errno. */
static weft_status write_failed(const struct file_writer *writer, struct error *error)
{
    if (errno != ENOSPC && errno != EDQUOT)
        return error_system(error, "cannot write '%s' after %" PRIu64 " bytes", writer->path, writer->written);
    const char *what = errno == ENOSPC ? "the disk is full" : "the disk quota is used up";
    if (writer->expected > writer->written)
        return error_set(error, WEFT_ERROR_SYSTEM,
                         "cannot write '%s': %s after %" PRIu64 " of %" PRIu64 " bytes; free %" PRIu64
                         " bytes more or choose another directory",
                         writer->path, what, writer->written, writer->expected, writer->expected - writer->written);
    return error_set(error, WEFT_ERROR_SYSTEM,
                     "cannot write '%s': %s after %" PRIu64 " bytes; free space or choose another directory",
                     writer->path, what, writer->written);
}

static weft_status writer_create(struct file_writer *writer, const char *path, uint64_t expected, int flags,
                                 struct error *error)
{
    writer->descriptor = -1;
    writer->written = 0;
    writer->expected = expected;
    writer->block = NULL;
    writer->held = 0;
    if (snprintf(writer->path, sizeof writer->path, "%s", path) >= (int)sizeof writer->path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is longer than %d bytes", path,
                         FILE_PATH_BYTES - 1);
    writer->descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (writer->descriptor < 0)
        return errno == ENOSPC || errno == EDQUOT ? write_failed(writer, error)
                                                  : error_system(error, "cannot create '%s'", path);
    return WEFT_OK;
}

weft_status file_writer_open(struct file_writer *writer, const char *path, uint64_t expected, struct error *error)
{
    return writer_create(writer, path, expected, O_TRUNC, error);
}

static void writer_use_cache(const struct file_writer *writer)
{
    const int flags = fcntl(writer->descriptor, F_GETFL);
    if (flags >= 0 && flags & O_DIRECT)
        fcntl(writer->descriptor, F_SETFL, flags & ~O_DIRECT);
}

void file_writer_bypass_cache(struct file_writer *writer)
{
    const int flags = fcntl(writer->descriptor, F_GETFL);
    if (flags < 0 || fcntl(writer->descriptor, F_SETFL, flags | O_DIRECT) != 0)
        return; /* not on this file system */
    writer->block = aligned_alloc(BLOCK_ALIGNMENT, BLOCK_BYTES);
    if (!writer->block)
        writer_use_cache(writer);
}

static weft_status writer_put(struct file_writer *writer, const void *bytes, size_t size, struct error *error)
{
    const char *next = bytes;
    while (size > 0) {
        ssize_t put = write(writer->descriptor, next, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EINVAL && writer->block && fcntl(writer->descriptor, F_GETFL) & O_DIRECT) {
            writer_use_cache(writer); /* larger blocks than ours */
            continue;
        }
        if (put < 0)
            return write_failed(writer, error);
        next += put;
        size -= (size_t)put;
        writer->written += (uint64_t)put;
    }
    return WEFT_OK;
}

weft_status file_writer_append(struct file_writer *writer, const void *bytes, size_t size, struct error *error)
{
    const char *next = bytes;
    weft_status status = WEFT_OK;
    if (!writer->block)
        return writer_put(writer, bytes, size, error);
    while (size > 0 && status == WEFT_OK) {
        const size_t room = BLOCK_BYTES - writer->held, taken = size < room ? size : room;
        memcpy(writer->block + writer->held, next, taken);
        next += taken;
        size -= taken;
        writer->held += taken;
        if (writer->held < BLOCK_BYTES)
            break;
        writer->held = 0;
        status = writer_put(writer, writer->block, BLOCK_BYTES, error);
    }
    return status;
}

/* The end of the file, which is no whole block, goes through the cache. */
static weft_status writer_put_end(struct file_writer *writer, struct error *error)
{
    if (!writer->block)
        return WEFT_OK;
    writer_use_cache(writer);
    const weft_status status = writer_put(writer, writer->block, writer->held, error);
    free(writer->block);
    writer->block = NULL;
    return status;
}

weft_status file_writer_close(struct file_writer *writer, struct error *error)
{
    weft_status result = writer_put_end(writer, error);
    if (result == WEFT_OK && fsync(writer->descriptor) != 0)
        result = write_failed(writer, error);
    if (close(writer->descriptor) != 0 && result == WEFT_OK)
        result = write_failed(writer, error);
    writer->descriptor = -1;
    if (result != WEFT_OK)
        unlink(writer->path);
    return result;
}

void file_writer_discard(struct file_writer *writer)
{
    if (writer->descriptor < 0)
        return;
    free(writer->block);
    writer->block = NULL;
    close(writer->descriptor);
    writer->descriptor = -1;
    unlink(writer->path);
}

weft_status file_writer_open_beside(struct file_writer *writer, const char *path, uint64_t expected,
                                    struct error *error)
{
    int directory_bytes = (int)(file_name(path) - path);
    for (int attempt = 0; attempt < 100; attempt++) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            return error_system(error, "cannot draw a random name beside '%s'", path);
        char partial[FILE_PATH_BYTES];
        if (snprintf(partial, sizeof partial, "%.*s.%s.partial-%08" PRIx32, directory_bytes, path, file_name(path),
                     random) >= (int)sizeof partial)
            return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
        struct error attempted = {0};
        weft_status result = writer_create(writer, partial, expected, O_EXCL, &attempted);
        if (result == WEFT_OK)
            return WEFT_OK;
        if (errno != EEXIST)
            return error_set(error, result, "%s", attempted.text);
    }
    return error_set(error, WEFT_ERROR_SYSTEM, "cannot find a free temporary name beside '%s'", path);
}

/* The directory that `path` is in. */
static void directory_of(const char *path, char directory[FILE_PATH_BYTES])
{
    size_t length = (size_t)(file_name(path) - path);
    if (length == 0) {
        memcpy(directory, ".", 2);
        return;
    }
    memcpy(directory, path, length);
    directory[length > 1 ? length - 1 : 1] = '\0';
}

weft_status file_writer_close_as(struct file_writer *writer, const char *path, struct error *error)
{
    weft_status result = file_writer_close(writer, error);
    if (result != WEFT_OK)
        return result;
    if (rename(writer->path, path) != 0) {
        error_system(error, "cannot rename '%s' to '%s'", writer->path, path);
        unlink(writer->path);
        return WEFT_ERROR_SYSTEM;
    }
    char directory[FILE_PATH_BYTES];
    directory_of(path, directory);
    return file_sync_directory(directory, error);
}

weft_status file_write(const char *path, const void *content, size_t size, struct error *error)
{
    struct file_writer writer = {.descriptor = -1};
    weft_status result = file_writer_open_beside(&writer, path, size, error);
    if (result != WEFT_OK)
        return result;
    result = file_writer_append(&writer, content, size, error);
    if (result != WEFT_OK) {
        file_writer_discard(&writer);
        return result;
    }
    return file_writer_close_as(&writer, path, error);
}
