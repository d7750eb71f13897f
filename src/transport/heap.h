/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The heap: one large sparse memfd per process, mapped once here and once by each local peer process.
 *
 * weft_alloc() hands out of it, and so do communicators for their control lines and staging. What is handed out is
 * zeroed and already touched (first touch is slow); what is given back is kept for the next. Thread-safe.
 */
#ifndef WEFT_TRANSPORT_HEAP_H
#define WEFT_TRANSPORT_HEAP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct heap;

#define HEAP_NOWHERE UINT64_MAX

/** Open a heap that may hand out up to `bytes` (0: from the machine's limits, checked up front and told in a sentence). */
weft_status heap_open(uint64_t bytes, struct heap **heap, struct error *error);
void heap_close(struct heap *heap);

/** 64-byte aligned (page aligned from a page on), zeroed, touched. */
weft_status heap_alloc(struct heap *heap, uint64_t bytes, void **pointer, struct error *error);
void heap_free(struct heap *heap, void *pointer);

/** Where [pointer, pointer + bytes) lies in the heap, or HEAP_NOWHERE when any of it lies outside. A few instructions. */
uint64_t heap_offset(const struct heap *heap, const void *pointer, uint64_t bytes);

/** The heap's first byte here, its mapped size, its descriptor (owned by the heap) and its random identity. */
char *heap_base(const struct heap *heap);
uint64_t heap_size(const struct heap *heap);
int heap_descriptor(const struct heap *heap);
uint64_t heap_identity(const struct heap *heap);

#endif
