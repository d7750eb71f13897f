/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The heap: one large sparse memfd per process, mapped once here and once by each local peer process.
 *
 * weft_alloc() hands out of it, and so do communicators for their control lines and staging. What is handed out is
 * zeroed and already touched (first touch is slow); what is given back is kept, touched, for the next. The books are
 * kept outside of the shared memory, so that no peer can spoil them. A peer can spoil what is handed out: ranks of one
 * job trust each other.
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

/** Where the heap lies: fixed for its life, read by everyone, written by heap_open() alone. */
struct heap {
    char *base;        /**< the first byte here, page aligned */
    uint64_t size;     /**< mapped bytes, a multiple of the page */
    uint64_t identity; /**< random, never 0; equal in two ranks: they are threads of one process */
    int descriptor;    /**< the memfd; owned by the heap */
    struct heap_books *books;
};

/**
 * The bytes of a heap whose user named none: the memory that this process may have. A limited address space, without
 * some for libraries and stacks, is divided evenly: a part for the heap of each of the `processes` on this machine that
 * map each other's, and one for all else. It is an eighth at least.
 */
uint64_t heap_default_bytes(uint32_t processes);

#define HEAP_SHARERS_MOST 7

/**
 * Open a heap that may hand out up to `bytes`. 0: heap_default_bytes() of many processes. WEFT_ERROR_MEMORY says which
 * limit is too small and how to raise it.
 */
weft_status heap_open(uint64_t bytes, struct heap **heap, struct error *error);

/** Unmap it and the peers' heaps attached to it; every pointer into it is dead. NULL is allowed. */
void heap_close(struct heap *heap);

/**
 * `bytes` of memory, aligned to 128 bytes (processors fetch cache lines in pairs; page aligned from a page on), zeroed,
 * touched. 0 bytes get a place of their own, too. WEFT_ERROR_MEMORY names the limit that was met: the heap's own size,
 * or memory that the machine has left.
 */
weft_status heap_alloc(struct heap *heap, uint64_t bytes, void **pointer, struct error *error);

/** Take back what heap_alloc() returned; NULL is allowed. False, and nothing done, for a pointer that is not such a
 * one. */
bool heap_free(struct heap *heap, void *pointer);

/** Say to whom a pointer that heap_alloc() returned belongs, and take back all that belongs to one. */
void heap_assign(struct heap *heap, void *pointer, const void *owner);
void heap_free_assigned(struct heap *heap, const void *owner);

/** Bytes now handed out (rounded up to 128 each), and bytes ever touched. */
uint64_t heap_in_use(const struct heap *heap);
uint64_t heap_touched(const struct heap *heap);

/** Where [pointer, pointer + bytes) lies in the heap, or HEAP_NOWHERE when any of it lies outside. */
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
 * Map a peer process's heap, of which `descriptor` (stays the caller's) was received, or find the mapping that another
 * rank of this process has made already. *base is valid until as many heap_detach() as attaches have been made.
 */
weft_status heap_attach(struct heap *heap, int descriptor, uint64_t identity, uint64_t bytes, char **base,
                        struct error *error);
void heap_detach(struct heap *heap, uint64_t identity);

#endif
