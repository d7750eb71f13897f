/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The process on a host that has a node of an attempt for a server elsewhere (remote.h). It connects, gets the order, has
 * the node run as the local engine does (an agent that outlives it), passes on its records, and obeys. It stays as long as
 * the node and until the server has all records; after a broken connection it connects again.
 *
 * Before that, it sees to what the node needs (internal/host_files.h): the run's files, where hosts share no storage; otherwise
 * that the server's are there. It reports a node that it cannot start, and the server ends that.
 *
 * It kills the node if the server says that the attempt is over, or if the shared fence of the run (RUNS/.fences/RUN/fence,
 * with RUNS on storage that hosts share) names a newer attempt: this reaches hosts that cannot reach the server.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_HOST_H
#define WEFT_PLATFORM_ENGINE_REMOTE_HOST_H

#include "platform/agent/journal/journal.h"

#include <stdint.h>

struct remote_host_config {
    const char *server; /**< "HOST:PORT" */
    const char *print;  /**< the SHA-256 of its certificate */
    const char *token;  /**< of the attempt */
    struct attempt attempt;
    const char *host;      /**< this host's name, as the server calls it */
    const char *directory; /**< for files of nodes: an absolute path on a disk of this host, created if missing */
    char *const *agent;    /**< as in struct engine_local_config */
    char *const *reach;    /**< likewise */
};

/** Returns the exit code of the process: 0 when the node has ended and the server knows, whatever became of it; 1 after a
 * message on standard error. */
int remote_host_run(const struct remote_host_config *config);

#endif
