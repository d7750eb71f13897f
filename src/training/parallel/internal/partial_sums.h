/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sums of arrays that arrive one by one, in the canonical tree over their order of arrival.
 *
 * Works like binary counting: level l, when it is filled, holds the sum of an aligned run of 2^l contributions. A new
 * contribution is added to the filled levels from 0 up to the first empty one, which takes the result. The *last*
 * contribution is added to all filled levels in that order, which completes T(0, n) for any n. Every addition is
 * elementwise, so the last one may be done range by range, as ranges become ready.
 *
 * Sums may be rounded to bf16 at every addition, as the contributions are then to be, too: they stay f32 arrays, of
 * values that bf16 has.
 *
 * Memory: one array a level, floor(log2(n - 1)) + 1 of them for n contributions; none for n = 1.
 */
#ifndef WEFT_TRAINING_PARALLEL_INTERNAL_PARTIAL_SUMS_H
#define WEFT_TRAINING_PARALLEL_INTERNAL_PARTIAL_SUMS_H

#include "training/tensor/device.h"

#define PARTIAL_SUM_LEVELS 32

/** Elements [first, first + count) of an array of floats, rounded in place. */
typedef void (*partial_sums_round)(void *context, float *array, size_t first, size_t count);

struct partial_sums {
    struct device *device;
    size_t elements;
    uint32_t contributions; /**< that make a whole sum */
    uint32_t added;         /**< so far; bit l set: level l is filled */
    uint32_t levels;
    void *arrays[PARTIAL_SUM_LEVELS];
    partial_sums_round round; /**< what is done to every sum; NULL: nothing. Set after opening, with its context */
    void *context;
};

/** Make room for sums of `contributions` arrays of `elements` elements of the device's type. */
weft_status partial_sums_open(struct partial_sums *sums, struct device *device, size_t elements, uint32_t contributions,
                              struct error *error);
void partial_sums_close(struct partial_sums *sums);

/** Begin a new sum. */
static inline void partial_sums_begin(struct partial_sums *sums)
{
    sums->added = 0;
}

/** Take in a contribution that is not the last; `array` may be overwritten and is the caller's again afterwards. */
void partial_sums_add(struct partial_sums *sums, void *array);

/** Whether the next contribution completes the sum. */
static inline bool partial_sums_last_is_next(const struct partial_sums *sums)
{
    return sums->added + 1 == sums->contributions;
}

/** Add all that has been taken in to elements [first, first + count) of the last contribution, in place. */
void partial_sums_complete(const struct partial_sums *sums, void *array, size_t first, size_t count);

#endif
