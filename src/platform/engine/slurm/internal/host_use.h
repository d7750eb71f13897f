/* SPDX-License-Identifier: Apache-2.0 */
/** What the jobs of this platform use of the nodes, to tell it from what others use. One thread. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_HOST_USE_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_HOST_USE_H

#include "base/error.h"
#include "platform/engine/slurm/commands.h"
#include "platform/engine/slurm/internal/driver.h"

/** The nodes, and what was seen of them. */
struct host_use {
    struct driver_host *hosts;
    uint32_t *own;     /**< processors of own jobs, by host */
    bool *listed;      /**< whether the last look has found it */
    uint32_t *foreign; /**< looks in a row that have found more in use than that */
    uint32_t count, room;
};

/** The nodes and their Pods, the first time; the file at `path` keeps them. Where Slurm does not answer, it has those of the
 * last time. Errors: those of slurm_nodes() and slurm_switches(); ARGUMENT: there are none. */
weft_status host_use_open(struct slurm_commands *commands, const char *path, struct host_use *use, struct error *error);
void host_use_close(struct host_use *use);

/** Begin to count own jobs; one of them. The nodes of one that holds a `pod` are all its own. */
void host_use_clear(struct host_use *use);
void host_use_count(struct host_use *use, const struct slurm_job *job, bool pod);

/** Look at the nodes again. Those that are new are left out until the next start. */
weft_status host_use_look(struct slurm_commands *commands, struct host_use *use, struct error *error);

#endif
