/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Objects of a store of snapshots (snapshot.h) on their way from one to another, many small ones at once: for each
 *
 *     "SHA256 SIZE\n" and SIZE bytes
 *
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_PACK_H
#define WEFT_PLATFORM_SNAPSHOT_PACK_H

#include "base/sha256.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_PACK_MOST ((size_t)65 << 20) /**< bytes of a pack: any one file that a snapshot may have has room */

struct snapshot_object {
    char hash[SHA256_TEXT_BYTES]; /**< what its content should have; nobody has looked yet */
    const uint8_t *bytes;         /**< in the pack */
    uint64_t size;
};

/**
 * Read "SHA256 SIZE" and the character `end` from the first of `size` bytes at `text`. Returns how many bytes that took;
 * 0 for anything else. Lists (platform/snapshot/list.h) have it, too.
 */
size_t snapshot_content_parse(const char *text, size_t size, char end, char hash[SHA256_TEXT_BYTES], uint64_t *bytes);

/** Append what stands before an object's bytes. */
void snapshot_pack_put(struct buffer *pack, const char *hash, uint64_t size);

/** Read the object at `*at`, and go on behind it; `*found` is false at the end. Errors: DATA, naming the byte. */
weft_status snapshot_pack_next(const uint8_t *pack, size_t size, size_t *at, struct snapshot_object *object,
                               bool *found, struct error *error);

#endif
