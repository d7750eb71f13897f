/* SPDX-License-Identifier: Apache-2.0 */
/* weft/report.h: lines into a buffer; a thread that writes it when its first line has waited long enough. */
#include "weft/report.h"

#include "base/error.h"
#include "base/file/file.h"
#include "base/format/json.h"
#include "base/thread.h"
#include "core/collective/communicator/context.h"
#include "core/control/wire/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES 4096      /* PIPE_BUF: writes up to this size to a pipe are atomic */
#define WAIT_NS      100000000 /* the longest that a line stays in the buffer */

struct weft_reporter {
    int descriptor;
    bool pipe;
    int64_t rank;       /* launcher_rank() */
    locale_t numbers;   /* whose decimal separator is a point */
    struct error error; /* not yet reported */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t writer;
    bool ending;
    struct json_writer line; /* being written; its memory is used again */
    size_t used, lines;
    uint64_t due; /* of the first line in the buffer */
    char buffer[BUFFER_BYTES];
    char path[FILE_PATH_BYTES];
};

/* ---- writing ---- */

/* A pipe without a reader must not end the program by SIGPIPE. */
static ssize_t write_quietly(const weft_reporter *reporter, const char *bytes, size_t size)
{
    sigset_t broken, before, pending;
    const struct timespec now = {0};
    if (!reporter->pipe)
        return write(reporter->descriptor, bytes, size);
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    const ssize_t written = write(reporter->descriptor, bytes, size);
    const int code = errno;
    if (written < 0 && code == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&broken, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return written;
}

/* With the lock. Lines that cannot be written are dropped, so that the buffer does not grow. */
static void write_buffer(weft_reporter *reporter)
{
    size_t written = 0;
    while (written < reporter->used) {
        const ssize_t n = write_quietly(reporter, reporter->buffer + written, reporter->used - written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (errno == EAGAIN)
                error_set(&reporter->error, WEFT_ERROR_SYSTEM,
                          "metrics are lost: the reader of the pipe '%s' does not keep up", reporter->path);
            else
                error_system(&reporter->error, "metrics are lost: cannot write to '%s'", reporter->path);
            break;
        }
        written += (size_t)n;
    }
    /* A full disk cut a line off: begin the next one on a new line. */
    const bool torn = written > 0 && written < reporter->used && reporter->buffer[written - 1] != '\n';
    reporter->used = reporter->lines = 0;
    if (torn)
        reporter->buffer[reporter->used++] = '\n';
}

static void *write_in_time(void *argument)
{
    weft_reporter *reporter = argument;
    pthread_mutex_lock(&reporter->lock);
    while (!reporter->ending) {
        if (reporter->lines == 0)
            pthread_cond_wait(&reporter->changed, &reporter->lock);
        else if (clock_now() >= reporter->due)
            write_buffer(reporter);
        else
            thread_wait_until(&reporter->changed, &reporter->lock, reporter->due);
    }
    pthread_mutex_unlock(&reporter->lock);
    return NULL;
}

/* With the lock: the first failure since the last report. */
static weft_status reporter_tell(weft_reporter *reporter)
{
    const weft_status status = reporter->error.status;
    if (status != WEFT_OK)
        context_note_thread(&reporter->error);
    error_clear(&reporter->error);
    return status;
}

/* ---- opening ---- */

static weft_status reporter_open_file(weft_reporter *reporter, const char *path, struct error *error)
{
    struct stat file;
    char name[64];
    weft_status status = WEFT_OK;
    if (file_is_directory(path)) {
        snprintf(name, sizeof name, "rank-%" PRId64 ".jsonl", reporter->rank > 0 ? reporter->rank : 0);
        status = file_join(reporter->path, path, name, error);
    } else if (strlen(path) >= sizeof reporter->path) {
        status = error_set(error, WEFT_ERROR_ARGUMENT, "the file for metrics has too long a name: '%.100s...'", path);
    } else {
        strcpy(reporter->path, path);
    }
    if (status != WEFT_OK)
        return status;
    /* Non-blocking: the pipe may have no reader, yet or any more. */
    reporter->descriptor =
        open(reporter->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (reporter->descriptor < 0 && errno == ENXIO)
        return error_set(error, WEFT_ERROR_SYSTEM, "cannot report metrics to '%s': no process reads this pipe",
                         reporter->path);
    if (reporter->descriptor < 0 || fstat(reporter->descriptor, &file) != 0)
        return error_system(error, "cannot report metrics to '%s'", reporter->path);
    reporter->pipe = !S_ISREG(file.st_mode);
    return WEFT_OK;
}

/* Signals belong to the program: this thread blocks them all. */
static int start_writer(weft_reporter *reporter)
{
    thread_condition_init(&reporter->lock, &reporter->changed);
    const int code = thread_start(&reporter->writer, write_in_time, reporter);
    if (code != 0) {
        pthread_cond_destroy(&reporter->changed);
        pthread_mutex_destroy(&reporter->lock);
    }
    return code;
}

static weft_status open_reporter(weft_reporter *reporter, const char *path, struct error *error)
{
    reporter->descriptor = -1;
    reporter->rank = launcher_rank();
    weft_status status = reporter_open_file(reporter, path, error);
    if (status != WEFT_OK)
        return status;
    reporter->numbers = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!reporter->numbers)
        return error_memory(error, 0, "a locale for metrics");
    errno = start_writer(reporter);
    return errno == 0 ? WEFT_OK : error_system(error, "cannot start a thread that writes metrics");
}

static void reporter_release(weft_reporter *reporter)
{
    if (reporter->descriptor >= 0)
        close(reporter->descriptor);
    if (reporter->numbers)
        freelocale(reporter->numbers);
    json_end(&reporter->line);
    free(reporter);
}

weft_status weft_reporter_open(const char *path, weft_reporter **reporter)
{
    struct error error;
    error_clear(&error);
    path = path ? path : getenv("WEFT_METRICS");
    if (!path || !*path) {
        *reporter = NULL;
        return WEFT_OK;
    }
    weft_reporter *opened = calloc(1, sizeof *opened);
    const weft_status status =
        opened ? open_reporter(opened, path, &error) : error_memory(&error, sizeof *opened, "a reporter of metrics");
    if (status != WEFT_OK) {
        if (opened)
            reporter_release(opened);
        context_note_thread(&error);
        return status;
    }
    *reporter = opened;
    return WEFT_OK;
}

/* ---- lines ---- */

/* 17 digits restore every double exactly, and every float converted to double. */
static void reporter_put_value(weft_reporter *reporter, const char *key, double value)
{
    char digits[32];
    const locale_t before = uselocale(reporter->numbers);
    snprintf(digits, sizeof digits, "%.17g", value);
    uselocale(before);
    json_put_raw(&reporter->line, key,
                 isnan(value)   ? "NaN"
                 : isinf(value) ? (value < 0 ? "-Infinity" : "Infinity")
                                : digits);
}

/* Begin a line with the step (NULL: none), the time and the rank. With the lock, as all of these. */
static void reporter_line_begin(weft_reporter *reporter, const int64_t *step)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_restart(&reporter->line);
    json_open_object(&reporter->line, NULL);
    if (step)
        json_put_integer(&reporter->line, "step", *step);
    json_put_microseconds(&reporter->line, "time", (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    if (reporter->rank >= 0)
        json_put_integer(&reporter->line, "rank", reporter->rank);
}

/* Put the line into the buffer. */
static weft_status reporter_line_end(weft_reporter *reporter)
{
    json_close(&reporter->line);
    const char *line = json_text(&reporter->line);
    const size_t length = json_size(&reporter->line);
    if (!line) {
        error_memory(&reporter->error, length, "a line of metrics");
        return reporter_tell(reporter);
    }
    if (reporter->used + length >= BUFFER_BYTES)
        write_buffer(reporter);
    if (reporter->lines++ == 0) {
        reporter->due = clock_now() + WAIT_NS;
        pthread_cond_signal(&reporter->changed);
    }
    memcpy(reporter->buffer + reporter->used, line, length);
    reporter->used += length;
    reporter->buffer[reporter->used++] = '\n';
    return reporter_tell(reporter);
}

static weft_status reporter_check_name(const char *name)
{
    struct error error;
    const size_t length = name ? strnlen(name, WEFT_REPORT_NAME_MOST + 1) : 0;
    if (length >= 1 && length <= WEFT_REPORT_NAME_MOST)
        return WEFT_OK;
    error_clear(&error);
    error_set(&error, WEFT_ERROR_ARGUMENT, "a metric's name has %s; it may have 1 to %d bytes",
              length ? "more" : "no letters", WEFT_REPORT_NAME_MOST);
    context_note_thread(&error);
    return WEFT_ERROR_ARGUMENT;
}

weft_status weft_report(weft_reporter *reporter, const char *name, int64_t step, double value)
{
    if (!reporter)
        return WEFT_OK;
    weft_status status = reporter_check_name(name);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_lock(&reporter->lock);
    reporter_line_begin(reporter, &step);
    reporter_put_value(reporter, name, value);
    status = reporter_line_end(reporter);
    pthread_mutex_unlock(&reporter->lock);
    return status;
}

weft_status weft_report_progress(weft_reporter *reporter, double done, double total, double seconds_left)
{
    struct error error;
    if (!reporter)
        return WEFT_OK;
    if (!(done >= 0 && done <= total && total > 0 && isfinite(total))) {
        error_clear(&error);
        error_set(&error, WEFT_ERROR_ARGUMENT,
                  "progress is %g of %g; it must be 0 or more, at most its total, and finite", done, total);
        context_note_thread(&error);
        return WEFT_ERROR_ARGUMENT;
    }
    pthread_mutex_lock(&reporter->lock);
    reporter_line_begin(reporter, NULL);
    reporter_put_value(reporter, "progress", done);
    reporter_put_value(reporter, "of", total);
    if (seconds_left >= 0 && isfinite(seconds_left))
        reporter_put_value(reporter, "seconds_left", seconds_left);
    const weft_status status = reporter_line_end(reporter);
    pthread_mutex_unlock(&reporter->lock);
    return status;
}

weft_status weft_reporter_flush(weft_reporter *reporter)
{
    if (!reporter)
        return WEFT_OK;
    pthread_mutex_lock(&reporter->lock);
    write_buffer(reporter);
    const weft_status status = reporter_tell(reporter);
    pthread_mutex_unlock(&reporter->lock);
    return status;
}

weft_status weft_reporter_close(weft_reporter *reporter)
{
    if (!reporter)
        return WEFT_OK;
    pthread_mutex_lock(&reporter->lock);
    reporter->ending = true;
    write_buffer(reporter);
    const weft_status status = reporter_tell(reporter);
    pthread_cond_signal(&reporter->changed);
    pthread_mutex_unlock(&reporter->lock);
    pthread_join(reporter->writer, NULL);
    pthread_cond_destroy(&reporter->changed);
    pthread_mutex_destroy(&reporter->lock);
    reporter_release(reporter);
    return status;
}
