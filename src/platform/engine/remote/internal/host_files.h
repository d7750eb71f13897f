/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the process on a host (host.c) sees to before it starts a node: that the shared directory is shared, or else that the
 * files of the run are here. Then they are
 *
 *     DIRECTORY/snapshots/            a store (platform/snapshot/snapshot.h), for all runs of one user on this host
 *     DIRECTORY/runs/RUN/work         the snapshot; where the command runs
 *     DIRECTORY/runs/RUN/checkpoints  WEFT_CHECKPOINT_DIR
 *
 * A run's directories stay from one attempt to the next on the same host. Nothing removes them. Of the store, what was not used
 * for HOST_FILES_DAYS is removed.
 *
 * A thread of its own reads and writes; the connection stays the loop's. What is fetched is in memory one pack of
 * HOST_FILES_PACK bytes at a time, or one larger file (at most 64 MiB), and is compared with its hashes. The functions belong to
 * the loop's thread.
 */
#ifndef WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_FILES_H
#define WEFT_PLATFORM_ENGINE_REMOTE_INTERNAL_HOST_FILES_H

#include "base/file/file.h"
#include "core/control/wire/frame.h"
#include "platform/agent/journal/journal.h"
#include "platform/engine/remote/internal/frames.h"

#include <event2/event.h>

#define HOST_FILES_PACK ((size_t)8 << 20)
#define HOST_FILES_DAYS 30

struct host_files;

struct host_files_config {
    const char *directory, *host; /**< of the host, and its name */
    struct attempt attempt;
    enum remote_storage storage;
    const char *text; /**< as in REMOTE_ORDER */
    const char
        *fences; /**< where the fence of the run is, for REMOTE_SHARED; "": it has none, and nothing is looked at */
    /** Send REMOTE_WANT. The answers are for host_files_part(), in the same order. */
    void (*want)(void *context, uint64_t offset, const char *hash);
    /** It is over; status WEFT_OK: the node can be started. The files may be freed now. */
    void (*done)(void *context, const struct error *failure);
    void *context;
};

/** Begin; texts are copied. Errors: MEMORY, SYSTEM. */
weft_status host_files_start(struct event_base *base, const struct host_files_config *config, struct host_files **files,
                             struct error *error);

/** The server has given the order on this connection: from now on it answers. The connection is gone: it does not. */
void host_files_connect(struct host_files *files);
void host_files_disconnect(struct host_files *files);

/** REMOTE_PART has come. */
void host_files_part(struct host_files *files, struct reader *reader);

/** Where the run's directories are, for REMOTE_SENT. Errors: ARGUMENT. */
weft_status host_files_paths(const char *directory, const char *run, char work[FILE_PATH_BYTES],
                             char checkpoints[FILE_PATH_BYTES], struct error *error);

/** Give up, wait for the thread, and free. NULL is allowed. */
void host_files_free(struct host_files *files);

#endif
