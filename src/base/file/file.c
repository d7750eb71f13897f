/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

weft_status file_join(char path[FILE_PATH_BYTES], const char *directory, const char *name, struct error *error)
{
    size_t length = strlen(directory);
    const char *slash = length && directory[length - 1] == '/' ? "" : "/";
    int written = snprintf(path, FILE_PATH_BYTES, "%s%s%s", directory, slash, name);
    if (written < 0 || written >= FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path of '%.200s' in '%.200s...' is longer than %d bytes",
                         name, directory, FILE_PATH_BYTES - 1);
    return WEFT_OK;
}

weft_status file_state_directory(char path[FILE_PATH_BYTES], const char *name, struct error *error)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const bool chosen = state && *state == '/';
    if (!chosen && !(home && *home == '/'))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "neither XDG_STATE_HOME nor HOME is an absolute path, so there is no place for Weft's %s",
                         name);
    char directory[FILE_PATH_BYTES];
    weft_status status =
        chosen ? file_join(directory, state, "weft", error) : file_join(directory, home, ".local/state/weft", error);
    return status == WEFT_OK ? file_join(path, directory, name, error) : status;
}

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool file_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

bool file_is_same(const char *path, const char *other)
{
    struct stat first, second;
    return stat(path, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool file_is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* read(2) until `size` bytes, the end, or an error (-1). */
static ssize_t read_fully(int descriptor, char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(descriptor, bytes + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/*
 * Read all of `descriptor` into a buffer that grows: the size of a pipe or of a file in /proc is not known in advance.
 */
static weft_status read_whole(int descriptor, const char *path, size_t most, size_t guess, char **content, size_t *size,
                              struct error *error)
{
    size_t room = (guess < most ? guess : most) + 1, used = 0;
    char *buffer = malloc(room + 1);
    if (!buffer)
        return error_memory(error, room + 1, path);
    for (;;) {
        ssize_t got = read_fully(descriptor, buffer + used, room - used);
        if (got < 0) {
            error_system(error, "cannot read '%s'", path);
            free(buffer);
            return WEFT_ERROR_SYSTEM;
        }
        used += (size_t)got;
        if (used > most) {
            free(buffer);
            return error_set(error, WEFT_ERROR_DATA, "'%s' is larger than the %zu bytes it may have", path, most);
        }
        if (used < room)
            break;
        room *= 2;
        char *larger = realloc(buffer, room + 1);
        if (!larger) {
            free(buffer);
            return error_memory(error, room + 1, path);
        }
        buffer = larger;
    }
    buffer[used] = '\0';
    *content = buffer;
    *size = used;
    return WEFT_OK;
}

weft_status file_read(const char *path, size_t most, char **content, size_t *size, struct error *error)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return error_system(error, "cannot open '%s'", path);
    struct stat status;
    size_t guess = fstat(descriptor, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 4096;
    weft_status result = read_whole(descriptor, path, most, guess, content, size, error);
    close(descriptor);
    return result;
}

ssize_t file_read_small(int directory, const char *path, char *text, size_t size)
{
    *text = '\0';
    int descriptor = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return -1;
    ssize_t length = read_fully(descriptor, text, size - 1);
    int reason = errno;
    close(descriptor);
    errno = reason;
    text[length > 0 ? length : 0] = '\0';
    return length;
}

void file_close(int descriptor)
{
    const int reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    errno = reason;
}

DIR *file_listing_open(int parent, const char *path, int flags)
{
    const int descriptor = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    DIR *listing = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!listing)
        file_close(descriptor);
    return listing;
}

const char *file_listing_next(DIR *listing)
{
    if (!listing)
        return NULL;
    errno = 0;
    struct dirent *entry = readdir(listing);
    while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        entry = readdir(listing);
    return entry ? entry->d_name : NULL;
}

void file_listing_close(DIR *listing)
{
    const int reason = errno;
    if (listing)
        closedir(listing);
    errno = reason;
}

weft_status file_open(const char *path, int *descriptor, uint64_t *size, struct error *error)
{
    struct stat status;
    const int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return error_system(error, "cannot open '%s'", path);
    weft_status result = WEFT_OK;
    if (fstat(opened, &status) != 0)
        result = error_system(error, "cannot look at '%s'", path);
    else if (!S_ISREG(status.st_mode))
        result = error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is %s, not a file%s", path,
                           S_ISDIR(status.st_mode)    ? "a directory"
                           : S_ISFIFO(status.st_mode) ? "a pipe"
                                                      : "a device",
                           S_ISFIFO(status.st_mode) ? "; write its content to a file first" : "");
    if (result != WEFT_OK) {
        close(opened);
        return result;
    }
    *descriptor = opened;
    *size = (uint64_t)status.st_size;
    return WEFT_OK;
}

weft_status file_read_at(int descriptor, const char *path, uint64_t opened_size, uint64_t offset, void *bytes,
                         uint64_t size, struct error *error)
{
    uint64_t done = 0;
    while (done < size) {
        ssize_t n = pread(descriptor, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(error, "cannot read '%s' at byte %" PRIu64, path, offset + done);
        if (n == 0) {
            struct stat now;
            const uint64_t left = fstat(descriptor, &now) == 0 ? (uint64_t)now.st_size : offset + done;
            return error_set(error, WEFT_ERROR_DATA,
                             "'%s' ends after %" PRIu64 " bytes, but had %" PRIu64
                             " when it was opened: it was truncated meanwhile; restore it and start again",
                             path, left, opened_size);
        }
        done += (uint64_t)n;
    }
    return WEFT_OK;
}

weft_status file_map(const char *path, struct file_map *map, struct error *error)
{
    int descriptor = -1;
    uint64_t size = 0;
    void *bytes = NULL;
    weft_status status = file_open(path, &descriptor, &size, error);
    if (status != WEFT_OK)
        return status;
    if (size > 0 && (bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0)) == MAP_FAILED)
        status = error_system(error, "cannot map the %" PRIu64 " bytes of '%s'", size, path);
    close(descriptor);
    if (status == WEFT_OK)
        *map = (struct file_map){bytes, size};
    return status;
}

void file_map_let_go(const void *bytes, uint64_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)bytes;
    const uintptr_t first = (begin + page - 1) / page * page, end = (begin + size) / page * page;
    if (first < end) /* whole pages; the advice may be ignored */
        madvise((void *)first, end - first, MADV_DONTNEED);
}

void file_unmap(struct file_map *map)
{
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    map->bytes = NULL;
    map->size = 0;
}

weft_status file_make_directory(const char *path, struct error *error)
{
    char part[FILE_PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the name of the directory to make is empty");
    if (length >= sizeof part)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is longer than %d bytes", path,
                         FILE_PATH_BYTES - 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return error_system(error, "cannot make the directory '%s'", part);
    }
    if (!file_is_directory(path))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "cannot make the directory '%s': a file of that name is in its place", path);
    return WEFT_OK;
}

weft_status file_make_directory_of(const char *path, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    size_t length = (size_t)(file_name(path) - path);
    if (length <= 1)
        return WEFT_OK;
    if (length >= sizeof directory)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
    snprintf(directory, sizeof directory, "%.*s", (int)length - 1, path);
    return file_make_directory(directory, error);
}

weft_status file_sync_directory(const char *path, struct error *error)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return error_system(error, "cannot open the directory '%s'", path);
    weft_status result = WEFT_OK;
    /* Some network file systems cannot sync a directory and say EINVAL; their renames are durable at once or not at all.
     */
    if (fsync(descriptor) != 0 && errno != EINVAL)
        result = error_system(error, "cannot sync the directory '%s'", path);
    close(descriptor);
    return result;
}
