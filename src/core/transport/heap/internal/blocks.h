/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The heap's metadata (heap.h): every byte below `reached` belongs to one block, free or allocated. Blocks are linked
 * in address order, so that adjacent free ones are always merged. Free blocks are in bins by size (four bins per power
 * of two), found through a bitmap; allocated blocks are in a hash table by address. Memory above `reached` was never
 * used. After M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004, with the
 * headers moved out.
 *
 * Sizes, offsets and alignments are multiples of HEAP_GRANULE. The caller locks.
 */
#ifndef WEFT_CORE_TRANSPORT_HEAP_INTERNAL_BLOCKS_H
#define WEFT_CORE_TRANSPORT_HEAP_INTERNAL_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_GRANULE 128u

#define HEAP_BINS      256u
#define HEAP_BIN_WORDS (HEAP_BINS / 64)

struct heap_block {
    uint64_t offset, bytes;
    bool is_free;
    uint64_t cold;                      /**< trailing bytes with pages that may be untouched; the caller's to clear */
    const void *owner;                  /**< of an allocated block; NULL: none. The caller's */
    struct heap_block *before, *after;  /**< in address order */
    struct heap_block *next, *previous; /* in the bin, the hash chain (next only) or the spare list (next only) */
};

struct heap_blocks {
    uint64_t reached;        /**< bytes below this have been allocated at some time */
    uint64_t in_use;         /**< bytes handed out */
    struct heap_block *last; /**< the block that ends at `reached` */
    struct heap_block *bins[HEAP_BINS];
    uint64_t bin_used[HEAP_BIN_WORDS];
    struct heap_block **handed_out; /* hash table by offset */
    uint64_t handed_out_count, handed_out_size;
    struct heap_block *spare; /* block records for the next use */
};

/** Start with an unused heap. False: out of memory. */
bool heap_blocks_open(struct heap_blocks *blocks);
void heap_blocks_close(struct heap_blocks *blocks);

/** Reserve records for allocating or growing by one block, which then cannot fail half-way. False: out of memory. */
bool heap_blocks_reserve(struct heap_blocks *blocks);

/** Allocate a block with the alignment, cold or not, from free blocks below `reached`; NULL if there is none. */
struct heap_block *heap_blocks_take(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment);

/**
 * The offset of a block of `bytes` with the alignment that would extend above `reached`, together with the free block
 * that may be just below it.
 */
uint64_t heap_blocks_above(const struct heap_blocks *blocks, uint64_t alignment);

/** Allocate that block, whose end is cold; its first `*dirty` bytes were used before. */
struct heap_block *heap_blocks_grow(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment, uint64_t *dirty);

/** Register an allocated block; find one by its offset, or NULL; free it. */
void heap_blocks_hand_out(struct heap_blocks *blocks, struct heap_block *block);
struct heap_block *heap_blocks_find(const struct heap_blocks *blocks, uint64_t offset);
void heap_blocks_free(struct heap_blocks *blocks, struct heap_block *block);

/** `value` rounded up to the alignment, a power of two. */
static inline uint64_t heap_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif
