/* SPDX-License-Identifier: Apache-2.0 */
/**
 * New objects on their way into a store of snapshots (snapshot.h), from a tree or from the network. They are written
 * under temporary names and get their own once all of them are safe on disk. A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_INTERNAL_OBJECTS_H
#define WEFT_PLATFORM_SNAPSHOT_INTERNAL_OBJECTS_H

#include "base/buffer.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct snapshot_objects {
    const char *store;
    char token[24];        /**< part of the temporary names */
    struct buffer pending; /**< hashes of the objects that were written, as strings with their NUL */
    uint64_t count, bytes; /**< objects that the store did not have, and their bytes */
};

/** Begin, and make the store if it is missing. Errors: SYSTEM. */
weft_status snapshot_objects_begin(struct snapshot_objects *objects, const char *store, struct error *error);

/**
 * Add the object whose content is `size` bytes with the SHA-256 `hash`. One that the store has is marked as used
 * (snapshot_object_find()). Errors: SYSTEM, MEMORY.
 */
weft_status snapshot_objects_put(struct snapshot_objects *objects, const char *hash, const void *bytes, size_t size,
                                 struct error *error);

/** Sync the new objects and give them their names. Errors: SYSTEM. */
weft_status snapshot_objects_commit(struct snapshot_objects *objects, struct error *error);

/** Remove what was not committed, and free what the struct owns. */
void snapshot_objects_end(struct snapshot_objects *objects);

#endif
