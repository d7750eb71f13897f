/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The thread that runs Slurm's commands: it submits, looks at the queue, cancels, and looks at the nodes. Slurm may take
 * seconds to answer, so nobody waits for it; what was asked for last is done when it answers again.
 *
 * The functions may be called by any thread.
 */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_DRIVER_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_DRIVER_H

#include "base/string_list.h"
#include "platform/agent/journal/journal.h"
#include "platform/engine/remote/remote.h"
#include "platform/engine/slurm/commands.h"

#define DRIVER_NAME_BYTES    256
#define DRIVER_COMMENT_BYTES 160
#define DRIVER_POD           "pod-" /**< runs of this name hold Pods (pods.h): their jobs may wait for any time */

struct driver;

/** A node of the cluster. */
struct driver_host {
    char name[DRIVER_NAME_BYTES], pod[DRIVER_NAME_BYTES];
    char reason[DRIVER_NAME_BYTES]; /**< why it is not up; "" */
    bool up;
    uint32_t cpus, gpus;
    uint64_t memory;
};

/** How far an attempt is. */
struct driver_state {
    bool known;                /**< false: that could not be found out, for now */
    bool all_begun, any_begun; /**< processes have begun on all, or on any, of its nodes */
    bool ended;                /**< all nodes have */
};

/** Called by the driver's thread, without its lock. */
struct driver_calls {
    struct driver_state (*state)(void *context, const struct attempt *attempt);
    /** Slurm does not begin it: nodes that have not begun are over. Repeated until state() says that it has ended. */
    void (*give_up)(void *context, const struct attempt *attempt, enum remote_end how, const char *reason);
    void *context;
};

struct driver_config {
    struct slurm_commands *commands; /**< the driver closes them */
    const char *platform;
    const char *user;  /**< whose jobs are those of submissions without a user, by squeue; NULL: not known */
    const char *hosts; /**< file that keeps the nodes as they were seen last */
    struct driver_calls calls;
};

/** Look at the nodes. Where Slurm does not answer, they are those of the last time, and all are down. Errors: those of
 * slurm_nodes(), if there was no last time. */
weft_status driver_open(const struct driver_config *config, struct driver **driver, struct error *error);

/** Start the thread: all attempts of before are known now, and jobs of others are canceled. Errors: SYSTEM. */
weft_status driver_start(struct driver *driver, struct error *error);
void driver_close(struct driver *driver);

/** What is known of an attempt's job. */
enum driver_begin {
    DRIVER_NEW,         /**< there is none */
    DRIVER_LOOKS_FIRST, /**< there may be one in the queue; if not, it is submitted */
    DRIVER_HAS_BEGUN,   /**< all nodes have begun: there may be one, and it is not submitted again */
};

/** Have a job for an attempt; nothing happens if there is one. Everything is copied; the job's comment has the `mark`.
 * `submission` NULL: it is not known any more, so the job is not submitted again. Errors: MEMORY. */
weft_status driver_submit(struct driver *driver, const struct attempt *attempt, const char *mark,
                          const struct slurm_submission *submission, enum driver_begin begin, struct error *error);

/** Its job is to end. */
void driver_cancel(struct driver *driver, const struct attempt *attempt);

/** Append the nodes that the job of a Pod (DRIVER_POD) had when it was seen last: a job goes on without those that fail. None: it is not
 * known. Errors: MEMORY. */
weft_status driver_nodes(struct driver *driver, const struct attempt *attempt, struct string_list *nodes,
                         struct error *error);

/** The nodes as they were seen last; the caller frees the list. NULL: memory ran out. */
struct driver_host *driver_hosts(struct driver *driver, uint32_t *count);

#endif
