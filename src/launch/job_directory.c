/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/job_directory.h"

#include "base/clock.h"
#include "base/file/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_SECONDS 30 /* for the launcher: it may be starting */

/* ---- which directory ---- */

bool job_directory_is(const char *path)
{
    char events[FILE_PATH_BYTES];
    return file_join(events, path, JOB_DIRECTORY_EVENTS, NULL) == WEFT_OK && file_exists(events);
}

static bool directory_is_empty(int descriptor)
{
    bool empty = true;
    DIR *list = fdopendir(dup(descriptor));
    const struct dirent *entry;
    while (list && (entry = readdir(list)))
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (list)
        closedir(list);
    return list && empty;
}

static weft_status directory_check(const char *path, int descriptor, struct error *error)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return error_system(error, "cannot read the job directory '%s'", path);
    if (status.st_uid != geteuid())
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the job directory '%s' belongs to another user; choose another one", path);
    if (faccessat(descriptor, JOB_DIRECTORY_EVENTS, F_OK, 0) != 0 && !directory_is_empty(descriptor))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not a job directory: it holds other files; name one that is empty or does not exist",
                         path);
    if (fchmod(descriptor, 0700) != 0)
        return error_system(error, "cannot make the job directory '%s' private", path);
    return WEFT_OK;
}

/* ---- the socket ---- */

/* A socket in the directory, whose path may be longer than an address takes. */
static struct sockaddr_un socket_address(int directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" JOB_DIRECTORY_SOCKET, directory);
    return address;
}

static weft_status directory_listen(struct job_directory *directory, struct error *error)
{
    const struct sockaddr_un address = socket_address(directory->directory);
    (void)unlinkat(directory->directory, JOB_DIRECTORY_SOCKET, 0); /* of a launcher that was killed */
    directory->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (directory->listener < 0 || bind(directory->listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(directory->listener, 4) != 0)
        return error_system(error, "cannot listen in the job directory '%s'", directory->path);
    return WEFT_OK;
}

weft_status job_directory_request(const char *path, const char *line, char *answer, size_t room, struct error *error)
{
    if (!job_directory_is(path))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not a job directory; name the one that weft run --job-dir was given", path);
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    const int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_un address = socket_address(directory);
    weft_status status = WEFT_OK;
    size_t used = 0;
    ssize_t n = 0;
    if (directory < 0 || descriptor < 0)
        status = error_system(error, "cannot open the job directory '%s'", path);
    else if (connect(descriptor, (const struct sockaddr *)&address, sizeof address) != 0)
        status = errno == ENOENT || errno == ECONNREFUSED
                     ? error_set(error, WEFT_ERROR_STATE, "no job runs in '%s'", path)
                     : error_system(error, "cannot reach the launcher of the job in '%s'", path);
    else if (setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
             send(descriptor, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        status = error_system(error, "cannot ask the launcher of the job in '%s'", path);
    while (status == WEFT_OK && used + 1 < room && (n = recv(descriptor, answer + used, room - 1 - used, 0)) > 0)
        used += (size_t)n;
    answer[used] = '\0';
    if (status == WEFT_OK && used == 0)
        status = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)
                     ? error_set(error, WEFT_ERROR_TIMEOUT,
                                 "the launcher of the job in '%s' has not answered within %d s; is it stopped?", path,
                                 ANSWER_SECONDS)
                     : error_set(error, WEFT_ERROR_STATE, "the job in '%s' has ended", path);
    if (descriptor >= 0)
        close(descriptor);
    if (directory >= 0)
        close(directory);
    return status;
}

/* ---- opening and closing ---- */

/* A job that was killed may have left half a line. False, with errno: it cannot be ended. */
static bool directory_end_line(int events)
{
    struct stat status;
    char last = '\n';
    if (fstat(events, &status) != 0 || (status.st_size > 0 && pread(events, &last, 1, status.st_size - 1) != 1))
        return false;
    return last == '\n' || write(events, "\n", 1) == 1;
}

/* `use`: as lock_take() wants it. */
static weft_status directory_open_files(struct job_directory *directory, const char *path, const char *use,
                                        struct error *error)
{
    char lock[FILE_PATH_BYTES];
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || !realpath(path, directory->path))
        return error_system(error, "cannot make the job directory '%s'", path);
    directory->directory = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->directory < 0)
        return error_system(error, "cannot open the job directory '%s'", path);
    weft_status status = directory_check(path, directory->directory, error);
    if (status == WEFT_OK)
        status = file_join(lock, directory->path, "lock", error);
    if (status == WEFT_OK)
        status = lock_take(lock, 0600, use, &directory->lock, error);
    if (status != WEFT_OK)
        return status;
    directory->events =
        openat(directory->directory, JOB_DIRECTORY_EVENTS, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (directory->events < 0 || !directory_end_line(directory->events))
        return error_system(error, "cannot write events in '%s'", path);
    return WEFT_OK;
}

static weft_status directory_open_as(const char *path, const char *use, struct job_directory *directory,
                                     struct error *error)
{
    *directory = (struct job_directory){.directory = -1, .lock = -1, .events = -1, .listener = -1};
    directory->began = clock_now();
    weft_status status = directory_open_files(directory, path, use, error);
    if (status == WEFT_OK)
        status = directory_listen(directory, error);
    if (status != WEFT_OK)
        job_directory_close(directory);
    return status;
}

weft_status job_directory_open(const char *path, struct job_directory *directory, struct error *error)
{
    return directory_open_as(path, "running a job in this job directory", directory, error);
}

weft_status job_directory_attach(const char *path, struct job_directory *directory, struct error *error)
{
    if (!job_directory_is(path))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is not a job directory; name the one that weft run --job-dir was given", path);
    return directory_open_as(path, "the launcher of this job, and a job has only one at a time", directory, error);
}

weft_status job_directory_join(const char *path, struct job_directory *directory, struct error *error)
{
    *directory = (struct job_directory){.directory = -1, .lock = -1, .events = -1, .listener = -1};
    directory->began = clock_now();
    weft_status status = WEFT_OK;
    if (!job_directory_is(path) || !realpath(path, directory->path))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is not a job directory", path);
    directory->directory = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->directory < 0)
        return error_system(error, "cannot open the job directory '%s'", path);
    status = directory_check(path, directory->directory, error);
    if (status == WEFT_OK &&
        (directory->events = openat(directory->directory, JOB_DIRECTORY_EVENTS, O_RDWR | O_APPEND | O_CLOEXEC)) < 0)
        status = error_system(error, "cannot write events in '%s'", path);
    if (status != WEFT_OK)
        job_directory_close(directory);
    return status;
}

void job_directory_close(struct job_directory *directory)
{
    if (!directory)
        return;
    if (directory->listener >= 0)
        (void)unlinkat(directory->directory, JOB_DIRECTORY_SOCKET, 0);
    int *const descriptors[] = {&directory->listener, &directory->events, &directory->lock, &directory->directory};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
}

/* ---- events ---- */

void job_directory_event_begin(const struct job_directory *directory, struct json_writer *line, const char *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_begin_line(line);
    json_put_text(line, "event", event);
    json_put_number(line, "time", round(((double)now.tv_sec + (double)now.tv_nsec * 1e-9) * 1e3) / 1e3);
    json_put_number(line, "elapsed", directory ? round((double)(clock_now() - directory->began) * 1e-6) / 1e3 : 0);
}

/* One write: lines of several processes do not mix. */
void job_directory_event_end(const struct job_directory *directory, struct json_writer *line)
{
    json_close(line);
    const char *text = json_text(line);
    char *whole = NULL;
    const int length = directory && text ? asprintf(&whole, "%s\n", text) : -1;
    if (length > 0 && write(directory->events, whole, (size_t)length) != length)
        fprintf(stderr, "weft run: an event cannot be written to %s: %s\n", directory->path, strerror(errno));
    if (length > 0)
        free(whole);
    json_end(line);
}
