/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Snapshots that come from elsewhere into a store (snapshot.h): first the list is shown, and what is missing is told;
 * then come packs of objects (platform/snapshot/pack.h), and the list again, which is kept once nothing is missing. So a store
 * never has a list whose objects it has not, and nothing is sent twice.
 *
 * Who sends is not trusted: every content is compared with its hash, and limits hold here too. What is mentioned is
 * marked as just used, so that a collector (platform/snapshot/collect.h) leaves it alone. Thread-safe.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_RECEIVE_H
#define WEFT_PLATFORM_SNAPSHOT_RECEIVE_H

#include "core/control/wire/frame.h"
#include "platform/snapshot/snapshot.h"

struct snapshot_offer {
    char id[SNAPSHOT_ID_BYTES]; /**< the SHA-256 of the list */
    uint64_t entries, bytes;    /**< of all of its files together */
    uint64_t missing;           /**< objects that are; */
    struct buffer hashes;       /**< their SHA-256, each as a text with its NUL. To be freed, whatever the outcome */
};

/**
 * Take the list of a snapshot: kept for good if nothing is missing. Errors: DATA for what is no such list; ARGUMENT for
 * one above the limits (NULL: snapshot.h's); SYSTEM.
 */
weft_status snapshot_receive_list(const char *store, const void *list, size_t size,
                                  const struct snapshot_limits *limits, struct snapshot_offer *offer,
                                  struct error *error);

/**
 * Take the objects of a pack, all or none: they are on disk when this returns. `*count` of them were new. Errors: DATA
 * for what is no pack, or an object whose content is not what its hash says.
 */
weft_status snapshot_receive_objects(const char *store, const void *pack, size_t size, uint64_t *count,
                                     struct error *error);

#endif
