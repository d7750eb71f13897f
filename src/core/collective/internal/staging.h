/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Staging: the memory of a communicator, in this rank's heap, where ordinary buffers meet local ranks. What they shall
 * read is copied into it, and so is what this rank has for their outputs.
 *
 * It is a ring. Each operation takes the next piece of it, which nobody else takes until the operation after the next:
 * whoever begins that one has seen that all local ranks have begun the one between, so they are done with the first
 * (shared_lines.h). The ring is much larger than small operations need, because a line that another core still holds in
 * its private cache costs five times as much to store into as one that it has dropped: 32 KiB handed over take 4.7 us
 * where the same lines come again at once, and 1.9 us where they come again after twice the size of that cache.
 *
 * Not thread-safe: for whoever holds the context's progress_lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_STAGING_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_STAGING_H

#include "core/transport/heap/heap.h"

struct staging {
    char *ring;
    uint64_t bytes;      /**< of the ring; 0: there is none yet */
    uint64_t first, end; /**< the piece of the last operation */
    void *outgrown;      /**< the ring before this one, which local ranks may still be reading */
};

/**
 * Take `bytes` for an operation that begins; *place is aligned to a cache line. A ring that must grow gets `usual`
 * bytes or what three such operations need. All local ranks have begun the shared-memory operation before it. Errors: MEMORY, and
 * nothing is taken.
 */
weft_status staging_take(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes, char **place,
                         struct error *error);

/** Give all back; nobody reads it any more. */
void staging_free(struct staging *staging, struct heap *heap);

#endif
