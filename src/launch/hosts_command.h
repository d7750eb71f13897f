/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command that prints the hosts that there are (weft run --hosts-command): run by a shell, with nothing on its standard
 * input, for ten seconds at most. One that fails or takes longer gives no list. Not thread-safe.
 *
 *     hosts_command_ask -> hosts_command_take, when its descriptor is readable or its deadline has come, until it is over
 */
#ifndef WEFT_LAUNCH_HOSTS_COMMAND_H
#define WEFT_LAUNCH_HOSTS_COMMAND_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hosts_command {
    const char *command;
    pid_t process;     /**< 0: it does not run */
    int descriptor;    /**< its output; -1: it does not run */
    uint64_t deadline; /**< when it is killed */
    struct buffer text;
};

/** Start `command` (borrowed). Errors: SYSTEM. */
weft_status hosts_command_ask(struct hosts_command *ask, const char *command, struct error *error);

/**
 * Take what it has printed, without waiting. *text: all of it once the command has ended well, malloc'ed, the caller's; NULL: it
 * runs. Errors: DATA if it has failed or printed too much; TIMEOUT: it was killed. After an error it no longer runs.
 */
weft_status hosts_command_take(struct hosts_command *ask, char **text, struct error *error);

/** Kill it if it runs. Allowed on a zeroed struct. */
void hosts_command_end(struct hosts_command *ask);

/** Both, and wait. */
weft_status hosts_command_run(const char *command, char **text, struct error *error);

#endif
