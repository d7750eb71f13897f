/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Receiving a snapshot from another machine. The sender offers the list and learns which objects are missing; it sends
 * them in packs (platform/snapshot/pack.h), and offers the list again, which is stored once nothing is missing. So a
 * store has the objects of each of its lists, and nothing is sent twice.
 *
 * The sender is not trusted: contents are compared with their hashes, and the limits are enforced. Objects that a list
 * names are marked as used, so that snapshot_collect() keeps them. Thread-safe.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_RECEIVE_H
#define WEFT_PLATFORM_SNAPSHOT_RECEIVE_H

#include "core/control/wire/frame.h"
#include "platform/snapshot/snapshot.h"

struct snapshot_offer {
    char id[SNAPSHOT_ID_BYTES]; /**< the SHA-256 of the list */
    uint64_t entries, bytes;    /**< bytes: all files together */
    uint64_t missing;           /**< objects that the store lacks */
    struct buffer hashes; /**< their SHA-256, as strings with their NUL; the caller frees it, also after an error */
};

/**
 * Take the list of a snapshot; it is stored if no object is missing. `limits` NULL: the defaults. Errors: DATA for an
 * invalid list; ARGUMENT for one above the limits; SYSTEM.
 */
weft_status snapshot_receive_list(const char *store, const void *list, size_t size,
                                  const struct snapshot_limits *limits, struct snapshot_offer *offer,
                                  struct error *error);

/**
 * Store the objects of a pack, all or none; they are safe on disk when this returns. `*count` of them were new. Errors:
 * DATA for an invalid pack or an object that does not have its hash; SYSTEM.
 */
weft_status snapshot_receive_objects(const char *store, const void *pack, size_t size, uint64_t *count,
                                     struct error *error);

#endif
