/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The stores of snapshots, one for each project, so that nobody can have what another project holds by its hash; and
 * what is no longer needed in them.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_SNAPSHOT_STORES_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_SNAPSHOT_STORES_H

#include "base/file/file.h"
#include "platform/controller/controller.h"
#include "platform/snapshot/collect.h"

/** DIRECTORY/snapshots/PROJECT; that is a name. */
weft_status snapshot_store_of(const struct controller_directories *directories, const char *project,
                              char path[FILE_PATH_BYTES], struct error *error);

/**
 * Where `owner`, a user, finds the snapshot `id`: the project's store, or the one in it that nobody else has (files
 * that only their owner may read). Errors: ARGUMENT where nobody has it; STATE where it is another user's, naming its
 * files. `parent`: the run that one is made from, for the message, or 0.
 */
weft_status snapshot_stores_find(const struct controller_directories *directories, const char *project,
                                 const char *owner, const char *id, int64_t parent, char path[FILE_PATH_BYTES],
                                 struct error *error);

/**
 * Take out of all stores the snapshots that no run names and that were not used since `before` (milliseconds since
 * 1970). `registry` is a reader of the caller's own. What is wrong with one store does not keep others from it; the
 * last such error is returned.
 */
weft_status snapshot_stores_collect(const struct controller_directories *directories, struct database *registry,
                                    int64_t before, struct snapshot_collected *collected, struct error *error);

#endif
