/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/named_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MOST 40 /* the kernel's own limit */

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Resolve the symbolic links of `path` in place; the final target need not exist. */
static weft_status follow_links(char path[FILE_PATH_BYTES], struct error *error)
{
    char target[FILE_PATH_BYTES], joined[FILE_PATH_BYTES];
    for (int links = 0; links < LINKS_MOST; links++) {
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size < 0)
            return WEFT_OK;
        target[size] = '\0';
        const int directory_bytes = *target == '/' ? 0 : (int)(file_name(path) - path);
        if (snprintf(joined, sizeof joined, "%.*s%s", directory_bytes, path, target) >= (int)sizeof joined)
            return error_set(error, WEFT_ERROR_ARGUMENT, "the target of the link '%.200s...' has too long a name",
                             path);
        memcpy(path, joined, sizeof joined);
    }
    errno = ELOOP;
    return error_system(error, "cannot follow the link '%s'", path);
}

/* The descriptor of this process that `path` names, standard output or standard error; -1 if it is neither. */
static int standard_of(const char *path)
{
    struct stat there, ours;
    if (strcmp(path, "-") == 0)
        return STDOUT_FILENO;
    if (stat(path, &there) != 0)
        return -1;
    for (int standard = STDOUT_FILENO; standard <= STDERR_FILENO; standard++)
        if (fstat(standard, &ours) == 0 && same(&ours, &there))
            return standard;
    return -1;
}

/* Whether `path` is written to directly: it is not a regular file, or not the one at `file`. */
static bool is_kept(const char *path, const char *file)
{
    struct stat there, other;
    return stat(path, &there) == 0 && (!S_ISREG(there.st_mode) || stat(file, &other) != 0 || !same(&other, &there));
}

bool named_output_is_standard(const char *path)
{
    return standard_of(path) == STDOUT_FILENO;
}

weft_status named_output_open(struct named_output *output, const char *path, struct error *error)
{
    const int standard = standard_of(path);
    memset(output, 0, sizeof *output);
    output->writer.descriptor = -1;
    if (snprintf(output->path, sizeof output->path, "%s", path) >= (int)sizeof output->path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is longer than %d bytes", path,
                         FILE_PATH_BYTES - 1);
    memcpy(output->file, output->path, sizeof output->file);
    weft_status status = follow_links(output->file, error);
    int descriptor = -1;
    if (status == WEFT_OK && standard >= 0) {
        fflush(stdout); /* earlier output comes first */
        descriptor = fcntl(standard, F_DUPFD_CLOEXEC, 0);
    } else if (status == WEFT_OK && is_kept(path, output->file)) {
        descriptor = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    } else if (status == WEFT_OK) {
        status = file_writer_open_beside(&output->writer, output->file, 0, error);
        if (status == WEFT_OK)
            descriptor = fcntl(output->writer.descriptor, F_DUPFD_CLOEXEC, 0);
    }
    if (status != WEFT_OK)
        return status;
    if (descriptor >= 0 && (output->stream = fdopen(descriptor, "w")))
        return WEFT_OK;
    status = error_system(error, "cannot write to '%s'", path);
    if (descriptor >= 0)
        close(descriptor);
    file_writer_discard(&output->writer);
    return status;
}

weft_status named_output_close(struct named_output *output, struct error *error)
{
    bool failed = ferror(output->stream) || fflush(output->stream) != 0;
    const int cause = errno;
    failed |= fclose(output->stream) != 0;
    output->stream = NULL;
    if (failed) {
        errno = cause;
        weft_status status = error_system(error, "cannot write to '%s'", output->path);
        file_writer_discard(&output->writer);
        return status;
    }
    return output->writer.descriptor < 0 ? WEFT_OK : file_writer_close_as(&output->writer, output->file, error);
}

void named_output_discard(struct named_output *output)
{
    if (output->stream)
        fclose(output->stream);
    output->stream = NULL;
    file_writer_discard(&output->writer);
}

weft_status named_output_write(const char *path, const void *content, size_t size, struct error *error)
{
    struct named_output output;
    weft_status status = named_output_open(&output, path, error);
    if (status != WEFT_OK)
        return status;
    fwrite(content, 1, size, output.stream);
    return named_output_close(&output, error);
}
