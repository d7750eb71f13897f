/* SPDX-License-Identifier: Apache-2.0 */
/** Removes unused snapshots and objects from a store (platform/snapshot/snapshot.h). Thread-safe. */
#ifndef WEFT_PLATFORM_SNAPSHOT_COLLECT_H
#define WEFT_PLATFORM_SNAPSHOT_COLLECT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot_collected {
    uint64_t snapshots, objects; /**< how many were removed */
    uint64_t bytes;              /**< of the removed objects */
};

/**
 * Remove the snapshots that were not used since `before` (milliseconds since 1970) and for which `named` returns false;
 * then the objects that no remaining snapshot lists and that were not used since `before`. Choose `before` old enough
 * that it keeps what is being taken, received or checked out. `named` NULL: no snapshot is in use. A missing store is
 * empty. Errors: SYSTEM; DATA for a damaged list: then no object is removed, because the list may need it.
 */
weft_status snapshot_collect(const char *store, int64_t before, bool (*named)(void *context, const char *id),
                             void *context, struct snapshot_collected *collected, struct error *error);

#endif
