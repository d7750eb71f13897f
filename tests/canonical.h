/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether sums are canonical: values whose sum depends on the order of additions, and their sum in the one order that
 * Weft promises, over the ranks of a world that may have lost some (each contributes by the number it had at first).
 */
#ifndef WEFT_TESTS_CANONICAL_H
#define WEFT_TESTS_CANONICAL_H

#include <weft/weft.h>

#include <stdlib.h>

/** What rank `first` contributes. */
static inline float canonical_value(int first, int i)
{
    return (float)(1 + first * 7919 % 97) * 1.0e-3f + (float)(i % 13) * 1.0e4f / (float)(first + 1);
}

/** The left-full binary tree over `count` ranks. */
static inline float canonical_sum(const int *first, int count, int i)
{
    if (count == 1)
        return canonical_value(first[0], i);
    int left = 1;
    while (left * 2 < count)
        left *= 2;
    return canonical_sum(first, left, i) + canonical_sum(first + left, count - left, i);
}

/** Sum `count` floats over `world` in `buffer`; *wrong is how many are not canonical. */
static inline weft_status canonical_check(weft_comm *world, float *buffer, int count, int *wrong)
{
    int size = weft_comm_size(world), *first = malloc((size_t)size * sizeof *first);
    *wrong = 0;
    for (int r = 0; r < size; r++)
        first[r] = weft_comm_first_rank(world, r);
    for (int i = 0; i < count; i++)
        buffer[i] = canonical_value(first[weft_comm_rank(world)], i);
    weft_status status = weft_allreduce(buffer, buffer, (size_t)count, WEFT_F32, WEFT_SUM, world);
    for (int i = 0; status == WEFT_OK && i < count; i++)
        *wrong += buffer[i] != canonical_sum(first, size, i);
    free(first);
    return status;
}

#endif
