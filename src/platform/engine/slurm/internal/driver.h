/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The thread that runs Slurm's commands: it submits, looks at the queue, cancels, and looks at the nodes. Slurm may take
 * seconds to answer, so nobody waits for it; what was asked for last is done when it answers again.
 *
 * The functions may be called by any thread.
 */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_DRIVER_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_DRIVER_H

#include "platform/agent/journal/journal.h"
#include "platform/engine/slurm/commands.h"

#define DRIVER_NAME_BYTES    256
#define DRIVER_COMMENT_BYTES 160

struct driver;

/** A node of the cluster. */
struct driver_host {
    char name[DRIVER_NAME_BYTES], pod[DRIVER_NAME_BYTES];
    char reason[DRIVER_NAME_BYTES]; /**< why it is not up; "" */
    bool up;
    uint32_t cpus, gpus;
    uint64_t memory;
};

/** What becomes of an attempt, as far as Slurm is concerned; called by the driver's thread, without its lock. */
struct driver_calls {
    /** Whether the processes of all, or of any, of its nodes have begun, and whether all have ended. */
    void (*state)(void *context, const struct attempt *attempt, bool *all_begun, bool *any_begun, bool *ended);
    /** Slurm has not begun it, and will not: nodes that have not begun are over. */
    void (*give_up)(void *context, const struct attempt *attempt, bool blames_host, const char *reason);
    void *context;
};

struct driver_config {
    struct slurm_commands *commands; /**< the driver closes them */
    const char *platform;
    struct driver_calls calls;
};

/** Look at the nodes, and start the thread. Errors: those of slurm_nodes(). */
weft_status driver_open(const struct driver_config *config, struct driver **driver, struct error *error);
void driver_close(struct driver *driver);

/** Have a job for an attempt; nothing happens if there is one. Everything is copied; `submission->name` and `comment` are
 * filled in, the comment with `mark`. Errors: MEMORY. */
weft_status driver_submit(struct driver *driver, const struct attempt *attempt, const char *mark,
                          const struct slurm_submission *submission, struct error *error);

/** Its job is to end. */
void driver_cancel(struct driver *driver, const struct attempt *attempt);

/** The nodes as they were seen last; the caller frees the list. NULL: memory ran out. */
struct driver_host *driver_hosts(struct driver *driver, uint32_t *count);

/** Why Slurm does not answer: "" if it does. */
void driver_trouble(struct driver *driver, char text[ERROR_TEXT_BYTES]);

#endif
