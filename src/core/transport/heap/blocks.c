/* SPDX-License-Identifier: Apache-2.0 */
#include "core/transport/heap/internal/blocks.h"

#include <stdlib.h>

#define NOWHERE       UINT64_MAX
#define TABLE_BEGIN   256u
#define RECORDS_TAKEN 3u /* by one allocation, at most */

/* ---- bins and the table ---- */

/* The bin whose blocks all have at least the size that begins it: bin 4 k + q begins at (4 + q) 2^(k - 2) granules. */
static unsigned bin_of(uint64_t bytes)
{
    uint64_t granules = bytes / HEAP_GRANULE;
    if (granules < 4)
        return (unsigned)granules;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(granules);
    return 4 * (exponent - 1) + (unsigned)((granules >> (exponent - 2)) & 3);
}

static void bin_insert(struct heap_blocks *blocks, struct heap_block *block)
{
    unsigned bin = bin_of(block->bytes);
    block->is_free = true;
    block->previous = NULL;
    block->next = blocks->bins[bin];
    if (block->next)
        block->next->previous = block;
    blocks->bins[bin] = block;
    blocks->bin_used[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(struct heap_blocks *blocks, struct heap_block *block)
{
    unsigned bin = bin_of(block->bytes);
    if (block->previous)
        block->previous->next = block->next;
    else
        blocks->bins[bin] = block->next;
    if (block->next)
        block->next->previous = block->previous;
    if (!blocks->bins[bin])
        blocks->bin_used[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    block->is_free = false;
}

static uint64_t slot_of(const struct heap_blocks *blocks, uint64_t offset)
{
    return (offset / HEAP_GRANULE * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (blocks->handed_out_size - 1);
}

static void table_insert(struct heap_blocks *blocks, struct heap_block *block)
{
    struct heap_block **slot = &blocks->handed_out[slot_of(blocks, block->offset)];
    block->next = *slot;
    *slot = block;
    blocks->handed_out_count++;
    blocks->in_use += block->bytes;
}

static void table_remove(struct heap_blocks *blocks, struct heap_block *block)
{
    struct heap_block **link = &blocks->handed_out[slot_of(blocks, block->offset)];
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    blocks->handed_out_count--;
    blocks->in_use -= block->bytes;
    block->owner = NULL;
}

/* Keep chains short; a table that cannot grow only becomes slower. */
static void table_grow(struct heap_blocks *blocks)
{
    if (blocks->handed_out_count < blocks->handed_out_size)
        return;
    uint64_t old_size = blocks->handed_out_size;
    struct heap_block **old = blocks->handed_out, **table = calloc(4 * old_size, sizeof *table);
    if (!table)
        return;
    blocks->handed_out = table;
    blocks->handed_out_size = 4 * old_size;
    for (uint64_t i = 0; i < old_size; i++)
        for (struct heap_block *block = old[i], *next; block; block = next) {
            next = block->next;
            struct heap_block **slot = &table[slot_of(blocks, block->offset)];
            block->next = *slot;
            *slot = block;
        }
    free(old);
}

static void record_give_back(struct heap_blocks *blocks, struct heap_block *block)
{
    block->next = blocks->spare;
    blocks->spare = block;
}

bool heap_blocks_reserve(struct heap_blocks *blocks)
{
    unsigned have = 0;
    for (struct heap_block *block = blocks->spare; block && have < RECORDS_TAKEN; block = block->next)
        have++;
    for (; have < RECORDS_TAKEN; have++) {
        struct heap_block *block = malloc(sizeof *block);
        if (!block)
            return false;
        record_give_back(blocks, block);
    }
    return true;
}

static struct heap_block *blocks_record_take(struct heap_blocks *blocks, uint64_t offset, uint64_t bytes)
{
    struct heap_block *block = blocks->spare;
    blocks->spare = block->next;
    *block = (struct heap_block){.offset = offset, .bytes = bytes};
    return block;
}

/* ---- splitting and joining ---- */

/* Cut `block` at `bytes` from its beginning; the rest becomes a block after it, returned. Neither is in a bin. */
static struct heap_block *block_cut(struct heap_blocks *blocks, struct heap_block *block, uint64_t bytes)
{
    struct heap_block *rest = blocks_record_take(blocks, block->offset + bytes, block->bytes - bytes);
    block->bytes = bytes;
    rest->cold = block->cold < rest->bytes ? block->cold : rest->bytes;
    block->cold -= rest->cold;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    else
        blocks->last = rest;
    block->after = rest;
    return rest;
}

/* Join `block` with the one after it. */
static void block_join(struct heap_blocks *blocks, struct heap_block *block)
{
    struct heap_block *gone = block->after;
    block->bytes += gone->bytes;
    block->cold = block->cold ? block->cold + gone->bytes : gone->cold;
    block->after = gone->after;
    if (block->after)
        block->after->before = block;
    else
        blocks->last = block;
    record_give_back(blocks, gone);
}

static void block_release(struct heap_blocks *blocks, struct heap_block *block)
{
    if (block->after && block->after->is_free) {
        bin_remove(blocks, block->after);
        block_join(blocks, block);
    }
    if (block->before && block->before->is_free) {
        block = block->before;
        bin_remove(blocks, block);
        block_join(blocks, block);
    }
    bin_insert(blocks, block);
}

/* The offset in `block` at which `bytes` fit with the alignment, or NOWHERE. */
static uint64_t block_place(const struct heap_block *block, uint64_t bytes, uint64_t alignment)
{
    uint64_t offset = heap_align_up(block->offset, alignment);
    return offset + bytes <= block->offset + block->bytes ? offset : NOWHERE;
}

/* The smallest free block of the first bin that has one in which `bytes` fit. */
static struct heap_block *find_free(const struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment)
{
    unsigned bin = bin_of(bytes);
    for (unsigned word = bin / 64; word < HEAP_BIN_WORDS; word++) {
        uint64_t used = blocks->bin_used[word];
        if (word == bin / 64)
            used &= ~UINT64_C(0) << bin % 64;
        for (; used; used &= used - 1) {
            struct heap_block *best = NULL;
            for (struct heap_block *block = blocks->bins[word * 64 + (unsigned)__builtin_ctzll(used)]; block;
                 block = block->next)
                if (block_place(block, bytes, alignment) != NOWHERE && (!best || block->bytes < best->bytes)) {
                    best = block;
                    if (best->bytes == bytes)
                        break;
                }
            if (best)
                return best;
        }
    }
    return NULL;
}

struct heap_block *heap_blocks_take(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment)
{
    struct heap_block *block = find_free(blocks, bytes, alignment);
    if (!block)
        return NULL;
    uint64_t offset = block_place(block, bytes, alignment);
    bin_remove(blocks, block);
    if (offset > block->offset) {
        struct heap_block *front = block;
        block = block_cut(blocks, front, offset - front->offset);
        bin_insert(blocks, front);
    }
    if (block->bytes > bytes)
        bin_insert(blocks, block_cut(blocks, block, bytes));
    return block;
}

/* ---- from above ---- */

static struct heap_block *free_below(const struct heap_blocks *blocks)
{
    return blocks->last && blocks->last->is_free ? blocks->last : NULL;
}

static uint64_t above(const struct heap_blocks *blocks)
{
    return free_below(blocks) ? free_below(blocks)->offset : blocks->reached;
}

uint64_t heap_blocks_above(const struct heap_blocks *blocks, uint64_t alignment)
{
    return heap_align_up(above(blocks), alignment);
}

struct heap_block *heap_blocks_grow(struct heap_blocks *blocks, uint64_t bytes, uint64_t alignment, uint64_t *dirty)
{
    struct heap_block *below = free_below(blocks);
    uint64_t begin = above(blocks), offset = heap_blocks_above(blocks, alignment), end = offset + bytes;
    if (below) {
        bin_remove(blocks, below);
        below->bytes = end - begin;
    } else {
        struct heap_block *fresh = blocks_record_take(blocks, begin, end - begin);
        fresh->before = blocks->last;
        if (fresh->before)
            fresh->before->after = fresh;
        blocks->last = fresh;
        below = fresh;
    }
    below->cold += end - blocks->reached;
    *dirty = blocks->reached > offset ? blocks->reached - offset : 0;
    blocks->reached = end;
    if (offset == begin)
        return below;
    struct heap_block *block = block_cut(blocks, below, offset - begin);
    bin_insert(blocks, below);
    return block;
}

/* ---- handed out ---- */

void heap_blocks_hand_out(struct heap_blocks *blocks, struct heap_block *block)
{
    table_grow(blocks);
    table_insert(blocks, block);
}

struct heap_block *heap_blocks_find(const struct heap_blocks *blocks, uint64_t offset)
{
    struct heap_block *block = blocks->handed_out[slot_of(blocks, offset)];
    while (block && block->offset != offset)
        block = block->next;
    return block;
}

void heap_blocks_free(struct heap_blocks *blocks, struct heap_block *block)
{
    table_remove(blocks, block);
    block_release(blocks, block);
}

/* ---- opening and closing ---- */

bool heap_blocks_open(struct heap_blocks *blocks)
{
    *blocks = (struct heap_blocks){.handed_out = calloc(TABLE_BEGIN, sizeof(struct heap_block *)),
                                   .handed_out_size = TABLE_BEGIN};
    return blocks->handed_out != NULL;
}

void heap_blocks_close(struct heap_blocks *blocks)
{
    for (struct heap_block *block = blocks->last, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    for (struct heap_block *block = blocks->spare, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(blocks->handed_out);
}
