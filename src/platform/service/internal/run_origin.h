/* SPDX-License-Identifier: Apache-2.0 */
/** What a run begins from: code that was uploaded, and a checkpoint of the run that it was forked from. */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_RUN_ORIGIN_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_RUN_ORIGIN_H

#include "platform/controller/controller.h"
#include "platform/registry/run_specification.h"
#include "platform/runs/checkpoints.h"
#include "platform/snapshot/snapshot.h"

/**
 * See that the code that a specification names is there, and that a checkpoint is a parent's, before the run is queued.
 * Errors: ARGUMENT, with a message for the user.
 */
weft_status run_origin_check(const struct controller_directories *directories,
                             const struct run_specification *specification, struct error *error);

/**
 * The checkpoint of `parent` by its own name ("best" may mean another one later). For a thread of its own: it looks
 * through a directory that belongs to a program. Errors: ARGUMENT, with a message for the user.
 */
weft_status run_origin_find(const struct controller_directories *directories, int64_t parent, const char *checkpoint,
                            char found[RUN_CHECKPOINT_NAME_BYTES], struct error *error);

/**
 * Keep the working directory of `owner`'s run as it is now, with all that was changed in it by hand, as a snapshot of
 * the project for `user`; its id is "" where the run has no directory. For a thread of its own: it reads and writes
 * files. Errors: those of snapshot_take(); STATE where `user` is another one and it has files that only the owner
 * may read.
 */
weft_status run_origin_take(const struct controller_directories *directories, const char *project, int64_t run,
                            const char *owner, const char *user, struct snapshot *taken, struct error *error);

#endif
