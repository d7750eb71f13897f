/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Staging: a communicator's memory in this rank's heap, through which ordinary buffers are exchanged with local ranks.
 * Data for them to read is copied into it, and so are this rank's results for their outputs.
 *
 * It is a ring. Each operation takes the next piece, which is not reused until the operation after the next. A rank
 * that begins that one has seen that all local ranks have begun the one in between, so they are done with the first
 * (shared_lines.h). The ring is much larger than small operations need, because storing into a line that another core
 * still holds in its private cache costs five times as much as into one that it has evicted: handing over 32 KiB takes
 * 4.7 us when the same lines are reused at once, and 1.9 us when they are reused after twice the size of that cache.
 *
 * Not thread-safe: guarded by the context's progress lock.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_STAGING_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_STAGING_H

#include "core/transport/heap/heap.h"

struct staging {
    char *ring;
    uint64_t bytes;      /**< of the ring; 0: not allocated yet */
    uint64_t first, end; /**< the piece of the last operation */
    void *outgrown;      /**< the previous ring, which local ranks may still be reading */
};

/**
 * Take `bytes` for an operation that begins; *place is cache-line aligned. A ring that must grow gets `usual` bytes, or
 * enough for three such operations. All local ranks must have begun the shared-memory operation before it. Errors:
 * MEMORY; nothing is taken.
 */
weft_status staging_take(struct staging *staging, struct heap *heap, uint64_t usual, uint64_t bytes, char **place,
                         struct error *error);

/** Free everything. No rank may read it any more. */
void staging_free(struct staging *staging, struct heap *heap);

#endif
