/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The directory of a job (weft run --job-dir): its events, for weft inspect, and the socket at which the launcher takes
 * requests of weft scale.
 *
 *     events.jsonl   a JSON object a line: "event", "time" (seconds since 1970), ... (docs/tutorials/failures.md)
 *     control        a UNIX socket
 *     lock           held by the launcher as long as the job runs
 *     job            what another launcher needs to take the job over (job_record.h); mode 0600
 *     output-HOST    output of HOST's ranks while they had no launcher (vacancy.h); mode 0600
 *
 * The directory has mode 0700. Events are appended whole, by the launcher and by weft train, and stay: a later job may use
 * the directory, and continues the file. Not thread-safe.
 */
#ifndef WEFT_LAUNCH_JOB_DIRECTORY_H
#define WEFT_LAUNCH_JOB_DIRECTORY_H

#include "base/error.h"
#include "base/file/file.h"
#include "base/format/json_put.h"

#include <stdbool.h>
#include <stdint.h>

#define JOB_DIRECTORY_EVENTS "events.jsonl"
#define JOB_DIRECTORY_SOCKET "control"
#define JOB_DIRECTORY_RECORD "job"

struct job_directory {
    char path[FILE_PATH_BYTES]; /**< absolute */
    int directory, lock, events, listener;
    uint64_t began; /**< clock_now() */
};

/**
 * Make the directory, or take an empty one or that of a job which has ended, and listen at its socket. job_directory_close()
 * frees. Errors: STATE if the job of another launcher runs there; ARGUMENT if it holds other files, or is another user's;
 * SYSTEM.
 */
weft_status job_directory_open(const char *path, struct job_directory *directory, struct error *error);

/**
 * As job_directory_open(), for a launcher that takes over the job there. Errors: also ARGUMENT if it is not a job's directory.
 */
weft_status job_directory_attach(const char *path, struct job_directory *directory, struct error *error);

/**
 * For events of a helper of the job that runs there, on any host that has the directory: neither lock nor socket.
 * job_directory_close() frees. Errors: ARGUMENT if it is not such a directory, or another user's; SYSTEM.
 */
weft_status job_directory_join(const char *path, struct job_directory *directory, struct error *error);

/** Also removes the socket. Allowed on NULL. */
void job_directory_close(struct job_directory *directory);

/** Begin an event that happens now, put members with JSON_PUT(), and append it. `directory` may be NULL: nothing is written.
 * An event that cannot be written is lost. */
void job_directory_event_begin(const struct job_directory *directory, struct json_writer *line, const char *event);
void job_directory_event_end(const struct job_directory *directory, struct json_writer *line);

/** Append an event with these members. */
#define JOB_DIRECTORY_EVENT(directory, event, ...)                                                                     \
    do {                                                                                                               \
        struct json_writer job_directory_line;                                                                         \
        job_directory_event_begin(directory, &job_directory_line, event);                                              \
        JSON_PUT(&job_directory_line, __VA_ARGS__);                                                                    \
        job_directory_event_end(directory, &job_directory_line);                                                       \
    } while (0)

/** Whether `path` is the directory of a job, running or not. */
bool job_directory_is(const char *path);

/**
 * Send a line to the launcher of the job in `path` and read its answer into `answer`. Errors: STATE if no job runs there;
 * ARGUMENT if it is not such a directory; SYSTEM, TIMEOUT.
 */
weft_status job_directory_request(const char *path, const char *line, char *answer, size_t room, struct error *error);

#endif
