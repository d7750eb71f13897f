/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying between buffers that are shared with other processes: like memcpy, but the caller decides when to use
 * non-temporal stores.
 *
 * Ordinary stores here do not first fetch lines that other cores have read. Non-temporal stores win beyond the
 * last-level cache (by up to 40 %) and lose by a factor below it, so a transfer decides once, by its whole size, even
 * if it is done in pieces. Thread-safe.
 */
#ifndef WEFT_CORE_TRANSPORT_COPY_H
#define WEFT_CORE_TRANSPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Operations that touch at least this many bytes, all buffers together, should use non-temporal stores: they exceed the
 * last-level cache. Call once and keep the result.
 */
uint64_t copy_streaming_threshold(void);

/** target = source, `bytes` bytes; they do not overlap. Streamed stores are fenced before return. */
void copy_bytes(void *target, const void *source, uint64_t bytes, bool streaming);

/** Make non-temporal stores visible before later stores. */
void copy_fence(void);

/** Bytes that another core must read before a line that it has read is evicted from its private caches. */
uint64_t copy_forgotten_after(void);

#endif
