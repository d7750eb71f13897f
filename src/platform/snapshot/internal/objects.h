/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The contents of files that a snapshot being taken (snapshot.h) puts into its store. New ones have names of their own
 * until they are all safe on disk. A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_INTERNAL_OBJECTS_H
#define WEFT_PLATFORM_SNAPSHOT_INTERNAL_OBJECTS_H

#include "core/control/wire/frame.h"
#include "platform/snapshot/list.h"

#define SNAPSHOT_PIECE_BYTES ((size_t)256 << 10)

struct snapshot_objects {
    const char *store;
    const char *named;     /**< the directory of the tree as it stands before a slash, for messages */
    char token[24];        /**< in the names of what is not finished */
    struct buffer pending; /**< hashes of new objects, as strings with their NUL: written, but under other names yet */
    uint8_t *piece;        /**< SNAPSHOT_PIECE_BYTES to read into */
    uint64_t new_bytes;    /**< of new objects */
};

/** Errors: MEMORY, SYSTEM. */
weft_status snapshot_objects_begin(struct snapshot_objects *objects, const char *store, const char *named,
                                   struct error *error);

/** Hash `file`, of which `most` bytes are read at most, and one more: a file that grows is not followed for ever. */
weft_status snapshot_objects_hash(struct snapshot_objects *objects, int file, const char *path, uint64_t most,
                                  char hash[SHA256_TEXT_BYTES], uint64_t *size, struct error *error);

/** Put the content of `file`, which was hashed, into the store; `*same` tells whether it was that still. */
weft_status snapshot_objects_keep(struct snapshot_objects *objects, int file, const char *path,
                                  const struct snapshot_entry *entry, bool *same, struct error *error);

/** Give new objects their names, once their content is safe on disk. */
weft_status snapshot_objects_name(struct snapshot_objects *objects, struct error *error);

/** Free what it holds; `drop`: remove what was not named, too. */
void snapshot_objects_end(struct snapshot_objects *objects, bool drop);

#endif
