/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The books of the heap (heap.h): every byte below `touched` belongs to one block, free or handed out; blocks know
 * their neighbours in address order, so that free ones are always joined. Free blocks hang in bins by size (four bins
 * to a power of two), found through a bitmap; blocks handed out hang in a hash table by address. What lies above
 * `touched` was never used. After M. Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems",
 * ECRTS 2004, with the headers moved out.
 *
 * Sizes, offsets and alignments are multiples of HEAP_GRANULE. The caller has a lock for them.
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
    const void *owner;                  /**< of one handed out; NULL: nobody is named. The caller's */
    struct heap_block *before, *after;  /**< in address order */
    struct heap_block *next, *previous; /* in the bin, the hash chain (next only) or the spare list (next only) */
};

struct heap_blocks {
    uint64_t touched;        /**< bytes below this have been handed out once */
    uint64_t in_use;         /**< bytes handed out */
    struct heap_block *last; /**< the block that ends at `touched` */
    struct heap_block *bins[HEAP_BINS];
    uint64_t bin_used[HEAP_BIN_WORDS];
    struct heap_block **handed_out; /* hash table by offset */
    uint64_t handed_out_count, handed_out_size;
    struct heap_block *spare; /* block records for the next use */
};

/** Begin with a heap of which nothing was used. False: no memory. */
bool heap_blocks_open(struct heap_blocks *blocks);
void heap_blocks_close(struct heap_blocks *blocks);

/** Have records in reserve for one block to be taken or grown, which then cannot fail half-way. False: no memory. */
bool heap_blocks_reserve(struct heap_blocks *blocks);

/** Take a block of `bytes` at the alignment out of what is free below `touched`, or NULL: there is none. */
struct heap_block *heap_blocks_take(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment);

/** Where a block of `bytes` at the alignment would begin that is taken from above `touched`, together with the free
 * block that may lie just below it. */
uint64_t heap_blocks_above(const struct heap_blocks *blocks, uint64_t alignment);

/** Take that one; its first `*dirty` bytes were used before. */
struct heap_block *heap_blocks_grow(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment, uint64_t *dirty);

/** Enter a block that was taken as handed out; find one by its offset, or NULL; take it back and free it. */
void heap_blocks_hand_out(struct heap_blocks *blocks, struct heap_block *block);
struct heap_block *heap_blocks_find(const struct heap_blocks *blocks, uint64_t offset);
void heap_blocks_free(struct heap_blocks *blocks, struct heap_block *block);

/** `value` rounded up to the alignment, a power of two. */
static inline uint64_t heap_align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif
