/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying between buffers that are shared with other processes: as memcpy, but the caller says when to store past the
 * caches.
 *
 * Stores take lines that other cores have read without fetching them first. Non-temporal stores win beyond the
 * last-level cache (by up to 40 %) and lose by a factor below it, so a transfer decides once, by its whole size,
 * however it is cut into pieces. Thread-safe, a copy_crossing apart.
 *
 * ## To another core
 *
 * To store into lines that another core holds means to take them from it first. Within a shared last-level cache that
 * is cheap; across, it is not, and then it is faster to store past the caches, and let the other read from memory what
 * it would have had to fetch across as well. Measured, 32 KiB, write then read there, us:
 *
 *                            through the caches    past them
 *     one last-level cache      3.4 + 1.1          0.9 + 3.0
 *     two                      14.1 + 3.6          0.8 + 3.5
 *
 * Which it is depends on where the system has put both ranks, and changes with that; so it is learnt from what copies
 * take, and looked at again every now and then.
 */
#ifndef WEFT_TRANSPORT_COPY_H
#define WEFT_TRANSPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

/** What touches at least so many bytes, all buffers together, should be streamed here: it does not fit the last-level
 * cache. Ask once and keep it. */
uint64_t copy_streaming_threshold(void);

/** target = source, `bytes` bytes; they do not overlap. Streamed stores are fenced before return. */
void copy_bytes(void *target, const void *source, uint64_t bytes, bool streaming);

/** What one rank has learnt of its stores to other cores. All zero to begin with; for one thread at a time. */
struct copy_crossing {
    double cost;     /**< ns per KiB, through the caches */
    uint32_t copies; /**< so far */
    bool past;       /**< the caches */
};

/** As copy_bytes(), to where another core has read or will read. copy_fence() before it is published. */
void copy_across(struct copy_crossing *crossing, void *target, const void *source, uint64_t bytes);

/** Stores past the caches become visible before those that follow. */
void copy_fence(void);

/** Bytes after which a line that another core has read is in its private caches no more, if it reads as many others
 * meanwhile. */
uint64_t copy_forgotten_after(void);

#endif
