/* SPDX-License-Identifier: Apache-2.0 */
/** What nobody needs any more leaves a store of snapshots (snapshot.h). */
#ifndef WEFT_PLATFORM_SNAPSHOT_COLLECT_H
#define WEFT_PLATFORM_SNAPSHOT_COLLECT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot_collected {
    uint64_t snapshots, objects; /**< that were removed */
    uint64_t bytes;              /**< of these objects */
};

/**
 * Remove the snapshots that were not used since `before` (milliseconds since 1970) and that `named` says false of, and
 * then the objects that no snapshot has, as far as they too were not used since. What is being taken, received or
 * checked out is younger than any sensible `before`. `named` may be NULL: no snapshot is named by anything. A store
 * that is not there is empty. Errors: SYSTEM; DATA where a list is damaged: then no object is removed, because one may
 * be its.
 */
weft_status snapshot_collect(const char *store, int64_t before, bool (*named)(void *context, const char *id),
                             void *context, struct snapshot_collected *collected, struct error *error);

#endif
