/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Taking over a job whose launcher was lost, started with LAUNCHER_LOSS_CONTINUE: this process becomes its launcher.
 *
 *     status = attach_begin("job", &attach, error);
 *     if (status == WEFT_OK)
 *         status = launch_run(&attach.config, &result, error);
 *     attach_end(&attach);
 *
 * The job goes on as it was started: output, verdict, restarts, weft scale, the command for hosts, the exit code. It gets
 * no standard input. Hosts that cannot be reached are lost. Until launch_run() nothing has changed for the job; if no host
 * is reached, launch_run() fails with STATE.
 */
#ifndef WEFT_LAUNCH_TAKEOVER_ATTACH_H
#define WEFT_LAUNCH_TAKEOVER_ATTACH_H

#include "base/error.h"
#include "launch/launch.h"

struct attach {
    struct job_directory directory;
    struct launch_config config;
    struct job_record *record;
};

/**
 * Take the lock of the job's directory `path` and read what the lost launcher has left there. attach_end() frees, also after
 * an error. Errors: STATE if the launcher lives, or no job waits for one; ARGUMENT if it is not the directory of a job of this
 * user; DATA if the record is damaged; SYSTEM, MEMORY.
 */
weft_status attach_begin(const char *path, struct attach *attach, struct error *error);
void attach_end(struct attach *attach);

/** The value of a variable of the job's ranks; NULL: it has none. */
const char *attach_variable(const struct attach *attach, const char *name);

/** For a new job in `directory`. Errors: STATE if one is there that could be taken over. */
weft_status attach_check_free(const struct job_directory *directory, struct error *error);

#endif
