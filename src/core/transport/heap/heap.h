/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The heap: one large sparse memfd per process, mapped once here and once by each local peer process.
 *
 * weft_alloc() allocates from it, and so do communicators, for their control lines and staging. Allocations are zeroed
 * and already touched (first touch is slow); freed memory stays touched for reuse. The allocator's metadata is outside
 * the shared memory, so peers cannot corrupt it. They can corrupt allocations: ranks of one job trust each other.
 *
 * Nothing is left behind by a process that dies: a memfd has no name and vanishes with its last user.
 *
 * All functions are safe from any thread, except that heap_close() must be the last.
 */
#ifndef WEFT_CORE_TRANSPORT_HEAP_HEAP_H
#define WEFT_CORE_TRANSPORT_HEAP_HEAP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define HEAP_NOWHERE UINT64_MAX

/** The heap's mapping: constant for its lifetime, written only by heap_open(). */
struct heap {
    char *base;        /**< the first byte here, page aligned */
    uint64_t size;     /**< mapped bytes, a multiple of the page */
    uint64_t identity; /**< random, never 0; equal in two ranks: they are threads of one process */
    int descriptor;    /**< the memfd; owned by the heap */
    struct heap_books *books;
};

/**
 * The default size of a heap: the memory that this process may use. A limited address space, minus some for libraries
 * and stacks, is divided evenly: a share for the heap of each of the `processes` on this machine that map each other's,
 * and one for everything else. It is at least an eighth.
 */
uint64_t heap_default_bytes(uint32_t processes);

#define HEAP_SHARERS_MOST 7

/**
 * Open a heap for allocations of up to `bytes`. 0: heap_default_bytes() of many processes. The message of
 * WEFT_ERROR_MEMORY names the limit that is too small and how to raise it.
 */
weft_status heap_open(uint64_t bytes, struct heap **heap, struct error *error);

/** Unmap it and the peers' heaps attached to it; every pointer into it is dead. NULL is allowed. */
void heap_close(struct heap *heap);

/**
 * `bytes` of memory, aligned to 128 bytes (processors fetch cache lines in pairs; page aligned from a page on), zeroed,
 * touched. 0 bytes get a unique address, too. WEFT_ERROR_MEMORY names the limit that was reached: the heap's size, or
 * the machine's free memory.
 */
weft_status heap_alloc(struct heap *heap, uint64_t bytes, void **pointer, struct error *error);

/** Free memory from heap_alloc(); NULL is allowed. False, and nothing done, for any other pointer. */
bool heap_free(struct heap *heap, void *pointer);

/** Set the owner of memory from heap_alloc(), and free all memory of an owner. */
void heap_assign(struct heap *heap, void *pointer, const void *owner);
void heap_free_assigned(struct heap *heap, const void *owner);

/** Bytes allocated (rounded up to 128 each), and bytes from the beginning that have ever been handed out. */
uint64_t heap_in_use(const struct heap *heap);
uint64_t heap_touched(const struct heap *heap);

/** The offset of [pointer, pointer + bytes) in the heap, or HEAP_NOWHERE when any of it is outside. */
static inline uint64_t heap_offset(const struct heap *heap, const void *pointer, uint64_t bytes)
{
    uint64_t offset = (uint64_t)((uintptr_t)pointer - (uintptr_t)heap->base);
    return offset < heap->size && bytes <= heap->size - offset ? offset : HEAP_NOWHERE;
}

static inline char *heap_base(const struct heap *heap)
{
    return heap->base;
}

static inline uint64_t heap_size(const struct heap *heap)
{
    return heap->size;
}

static inline int heap_descriptor(const struct heap *heap)
{
    return heap->descriptor;
}

static inline uint64_t heap_identity(const struct heap *heap)
{
    return heap->identity;
}

/**
 * Map a peer process's heap through `descriptor` (stays the caller's), or reuse the mapping made by another rank of
 * this process. *base is valid until heap_detach() has been called as often as heap_attach().
 */
weft_status heap_attach(struct heap *heap, int descriptor, uint64_t identity, uint64_t bytes, char **base,
                        struct error *error);
void heap_detach(struct heap *heap, uint64_t identity);

#endif
