/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying between buffers that are shared with other processes: as memcpy, but the caller says when to store past the
 * caches.
 *
 * Stores take lines that other cores have read without fetching them first. Non-temporal stores win beyond the
 * last-level cache (by up to 40 %) and lose by a factor below it, so a transfer decides once, by its whole size,
 * however it is cut into pieces. Thread-safe.
 */
#ifndef WEFT_CORE_TRANSPORT_COPY_H
#define WEFT_CORE_TRANSPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

/** What touches at least so many bytes, all buffers together, should be streamed here: it does not fit the last-level
 * cache. Ask once and keep it. */
uint64_t copy_streaming_threshold(void);

/** target = source, `bytes` bytes; they do not overlap. Streamed stores are fenced before return. */
void copy_bytes(void *target, const void *source, uint64_t bytes, bool streaming);

/** Stores past the caches become visible before those that follow. */
void copy_fence(void);

/** Bytes after which a line that another core has read is in its private caches no more, if it reads as many others
 * meanwhile. */
uint64_t copy_forgotten_after(void);

#endif
