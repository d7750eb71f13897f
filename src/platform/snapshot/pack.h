/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Packs: the format in which objects are sent from one store of snapshots (snapshot.h) to another. For each object:
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

#define SNAPSHOT_PACK_MOST ((size_t)65 << 20) /**< bytes of a pack; the largest file of a snapshot fits */

struct snapshot_object {
    char hash[SHA256_TEXT_BYTES]; /**< as sent; not yet compared with the content */
    const uint8_t *bytes;         /**< points into the pack */
    uint64_t size;
};

/**
 * Read "SHA256 SIZE" and the character `end` from the first of `size` bytes at `text`. Returns how many bytes that
 * took; 0 for anything else. Lists (platform/snapshot/list.h) have it, too.
 */
size_t snapshot_content_parse(const char *text, size_t size, char end, char hash[SHA256_TEXT_BYTES], uint64_t *bytes);

/** Append the header of an object; the caller appends its bytes. */
void snapshot_pack_put(struct buffer *pack, const char *hash, uint64_t size);

/**
 * Read the object at `*at` and move past it; `*found` is false at the end. Errors: DATA; the message names the byte.
 */
weft_status snapshot_pack_next(const uint8_t *pack, size_t size, size_t *at, struct snapshot_object *object,
                               bool *found, struct error *error);

#endif
