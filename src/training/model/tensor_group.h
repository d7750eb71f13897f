/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The ranks of a tensor axis, as layers see them: which part of a layer is theirs, and the collectives between its
 * products. Models know nothing of communicators; the executor (training/parallel/execute/) implements them.
 */
#ifndef WEFT_TRAINING_MODEL_TENSOR_GROUP_H
#define WEFT_TRAINING_MODEL_TENSOR_GROUP_H

#include "training/tensor/device.h"

/** Arrays are on the device. The functions wait for its kernels, and return when the result is there. They cannot fail
 * by themselves: their owner keeps a failure, after which results are undefined, and asks for it after a pass. */
struct tensor_group {
    size_t ranks, rank;
    /** Rows between layers are divided, too: each rank has as many neighboring rows of a micro-batch ("sequence
     * parallelism", Korthikanti et al. 2022). Norms and dropout compute these rows only. */
    bool divides_rows;
    void *context;

    /** `bytes` of zeroed memory that kernels can use and the ranks can read from each other, so that collectives copy
     * less. It returns NULL when none is left; a model then takes the device's memory, as without these functions (NULL). */
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);

    /** array = its sum over the ranks, the same bits on each, added in an order that depends on `ranks` alone. */
    void (*sum)(void *context, weft_type type, size_t count, void *array);

    /** The same for the rank's own part alone: `array` has `count` elements for each rank; those of others become
     * undefined. */
    void (*sum_part)(void *context, weft_type type, size_t count, void *array);

    /** `array` has `bytes` bytes of each rank, in order; this rank's are there, the others' are fetched. */
    void (*gather)(void *context, size_t bytes, void *array);
};

/** n r / R, rounded down: where the part of rank r of R begins. */
static inline size_t tensor_part_begin(size_t n, size_t ranks, size_t rank)
{
    return n / ranks * rank + n % ranks * rank / ranks;
}

static inline size_t tensor_part_count(size_t n, size_t ranks, size_t rank)
{
    return tensor_part_begin(n, ranks, rank + 1) - tensor_part_begin(n, ranks, rank);
}

/** Of the largest part. */
static inline size_t tensor_part_largest(size_t n, size_t ranks)
{
    return (n + ranks - 1) / ranks;
}

#endif
