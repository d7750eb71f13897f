/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The table of loops that reduction_kernels.c fills, once for each instruction set it is compiled for. Only reduction.c
 * uses it.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_REDUCTION_KERNELS_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_REDUCTION_KERNELS_H

#include "core/collective/internal/reduction.h"

enum reduction_op {
    REDUCTION_SUM,
    REDUCTION_PRODUCT,
    REDUCTION_MIN,
    REDUCTION_MAX,
    REDUCTION_BITWISE_AND, /* these and the following: NULL for floating-point types */
    REDUCTION_BITWISE_OR,
    REDUCTION_BITWISE_XOR,
    REDUCTION_LOGICAL_AND,
    REDUCTION_LOGICAL_OR,
    REDUCTION_LOGICAL_XOR,
};
#define REDUCTION_OPS 10

/** target[i] = the canonical tree over element `offset` bytes + i of a fixed number of sources. */
typedef void reduction_loop(void *target, const void *const *sources, uint64_t offset, uint64_t count);

struct reduction_loops {
    reduction_loop *two, *three, *four, *eight;
};

struct reduction {
    const char *name;
    struct reduction_loops loops[WEFT_TYPES][REDUCTION_OPS];
    void (*divide[WEFT_TYPES])(void *target, uint64_t count, uint64_t divisor); /**< NULL for WEFT_BOOL */
    void (*multiply[WEFT_TYPES])(void *target, uint64_t count, double factor);  /**< NULL for integers */
    void (*truth[WEFT_TYPES])(void *target, uint64_t count); /**< 1 for anything but 0; NULL for floats */
    /** Copy past the caches; copy_fence() before the data is published. */
    void (*stream)(void *target, const void *source, uint64_t bytes);
};

extern const struct reduction reduction_portable;
#if defined(__x86_64__)
extern const struct reduction reduction_v3;
extern const struct reduction reduction_v4;
#endif

#endif
