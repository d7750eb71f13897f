/* SPDX-License-Identifier: Apache-2.0 */
/** The engine's state, for slurm.c, job.c and pods.c. It belongs to the engine's thread, but for what driver.h and remote.h
 * say of theirs. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_STATE_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_STATE_H

#include "base/file/file.h"
#include "platform/agent/order.h"
#include "platform/engine/remote/remote.h"
#include "platform/engine/slurm/internal/driver.h"

#define SLURM_MARK_BYTES 17 /**< of a mark with its NUL: digits of the token, in a job's comment */

struct pods;

struct engine_slurm {
    struct engine engine; /* first */
    struct remote *remote;
    struct driver *driver;
    struct pods *pods; /* NULL: each attempt has a job of its own */
    char directory[FILE_PATH_BYTES], scratch[FILE_PATH_BYTES], weft[FILE_PATH_BYTES];
    char platform[NODE_PLATFORM_BYTES], server[300];
    char user[64]; /* whose jobs are those without a user; "": not known */
    bool shared;
};

/** How far an attempt is, from what its hosts have said. Thread-safe. */
struct driver_state slurm_state(struct engine_slurm *slurm, const struct attempt *attempt);

/** End its nodes that have not begun. Thread-safe; errors are printed. */
void slurm_give_up(struct engine_slurm *slurm, const struct attempt *attempt, enum remote_end how, const char *reason);

#endif
