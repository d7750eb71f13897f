/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Slices: how a group of parameters is divided over the ranks of the data axis.
 *
 * A slice is whole blocks of DEVICE_SQUARES_BLOCK elements (the group's last block may be shorter), so the sums of
 * squares of its blocks are those of the whole group. Where there are at least GROUP_EVEN_BLOCKS blocks for each rank,
 * slices are even: equal but for the last ones, which may be shorter or empty, so that a reduce-scatter of equal blocks
 * serves them. With fewer blocks that would leave the last ranks little: slices differ by at most one block then, and
 * which ranks have one more rotates from group to group, so that the ranks' totals are balanced, too.
 */
#ifndef WEFT_TRAINING_PARALLEL_SHARDING_SLICES_H
#define WEFT_TRAINING_PARALLEL_SHARDING_SLICES_H

#include "training/tensor/tree.h"

/** Elements [first, first + count) of a group. */
struct group_slice {
    size_t first, count;
};

/** A group, as an object of this directory needs it: a range of the flat array. */
struct group_range {
    size_t offset, count; /**< elements; `count` 0: it is not on this rank */
    uint32_t turn;        /**< which ranks have a block more; ranges with the same size and turn have the same slices */
    bool frozen;          /**< none of it is trained: its gradient is not summed */
    bool total_only;      /**< nothing is added to its gradient here: the total comes from another rank */
    bool central;         /**< rank 0 has all of it: a parameter server */
};

#define GROUP_EVEN_BLOCKS 4

/** How many of the first `places` in turn have a block more, of `more` in each turn of `ranks`. */
static inline size_t group_longer_slices(size_t places, size_t more, uint32_t ranks)
{
    const size_t rest = places % ranks;
    return places / ranks * more + (rest < more ? rest : more);
}

/** Elements of an even slice of the group; 0: its slices are not even. */
static inline size_t group_even_slice(const struct group_range *range, uint32_t ranks)
{
    const size_t blocks = tree_blocks(range->count);
    return range->central || blocks < GROUP_EVEN_BLOCKS * (size_t)ranks
               ? 0
               : (blocks + ranks - 1) / ranks * DEVICE_SQUARES_BLOCK;
}

/** The slice of rank `rank` of `ranks`. */
static inline struct group_slice group_slice_of(const struct group_range *range, uint32_t rank, uint32_t ranks)
{
    const size_t count = range->count, blocks = tree_blocks(count), each = blocks / ranks, more = blocks % ranks,
                 turn = range->turn % ranks, longer = group_longer_slices(turn, more, ranks),
                 begin = rank * each + group_longer_slices(turn + rank, more, ranks) - longer,
                 end = (rank + 1) * each + group_longer_slices(turn + rank + 1, more, ranks) - longer,
                 even = group_even_slice(range, ranks), first = even ? rank * even : begin * DEVICE_SQUARES_BLOCK,
                 last = even ? first + even : end * DEVICE_SQUARES_BLOCK;
    if (range->central)
        return rank ? (struct group_slice){.first = count} : (struct group_slice){.count = count};
    if (first >= count)
        return (struct group_slice){.first = count};
    return (struct group_slice){.first = first, .count = (last < count ? last : count) - first};
}

#endif
