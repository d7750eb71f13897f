/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Slices: how a group of parameters is divided over the ranks of the data axis.
 *
 * A slice is whole blocks of DEVICE_SQUARES_BLOCK elements (the group's last block may be shorter), so the sums of
 * squares of its blocks are those of the whole group. Slices of a group differ by at most one block. Which ranks have
 * one more rotates from group to group, so that the ranks' totals are balanced, too.
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
    bool central;         /**< rank 0 has all of it: a parameter server */
};

/** The slice of rank `rank` of `ranks`. */
static inline struct group_slice group_slice_of(const struct group_range *range, uint32_t rank, uint32_t ranks)
{
    const size_t count = range->count, blocks = tree_blocks(count), each = blocks / ranks, more = blocks % ranks;
    size_t first = 0, mine = 0;
    if (range->central)
        return rank ? (struct group_slice){.first = count} : (struct group_slice){.count = count};
    for (uint32_t r = 0; r <= rank; r++) {
        first += mine;
        mine = (each + ((r + range->turn) % ranks < more)) * DEVICE_SQUARES_BLOCK;
    }
    if (first > count)
        first = count;
    return (struct group_slice){.first = first, .count = mine < count - first ? mine : count - first};
}

#endif
