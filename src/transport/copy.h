/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copying between buffers that are shared with other processes: as memcpy, but the caller says when to store past the caches.
 *
 * Non-temporal stores win beyond the last-level cache (by up to 40 %) and lose by a factor below it, so a transfer decides once,
 * by its whole size, however it is cut into pieces. Thread-safe.
 */
#ifndef WEFT_TRANSPORT_COPY_H
#define WEFT_TRANSPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

/** Whether a transfer of `bytes` in all should be streamed on this machine: both copies of it do not fit its last-level cache. */
bool copy_streams(uint64_t bytes);

/** target = source, `bytes` bytes; they do not overlap. Streamed stores are fenced before return. */
void copy_bytes(void *target, const void *source, uint64_t bytes, bool streaming);

#endif
