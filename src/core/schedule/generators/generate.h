/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Generators: from a shape, the schedule of one rank.
 *
 * A generator writes one rank's list without building the others'; all inputs are agreed by all ranks, so schedules
 * agree and schedule.hash proves it. Thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_GENERATORS_GENERATE_H
#define WEFT_CORE_SCHEDULE_GENERATORS_GENERATE_H

#include "core/schedule/format/shape.h"

struct builder;

/** One algorithm: a named generator. */
struct algorithm {
    const char *name;
    const char *summary; /**< one line for people */
    /** Whether sums by it keep the canonical order on this shape (schedule.canonical says the same). */
    bool (*canonical)(const struct schedule_shape *shape);
    /**
     * NULL when it supports this shape; otherwise a static clause with the reason ("it needs all ranks on one node").
     */
    const char *(*refuses)(const struct schedule_shape *shape);
    /**
     * Writes the steps of builder->schedule->rank (see core/schedule/generators/builder.h); called through
     * schedule_generate().
     */
    void (*write)(struct builder *builder);
};

/** All algorithms of a collective, in documentation order; *count of them. Static tables. */
const struct algorithm *algorithms_of(enum collective collective, size_t *count);

/** Find by name; NULL with a message that lists the algorithms and names the nearest. */
const struct algorithm *algorithm_find(enum collective collective, const char *name, struct error *error);

/**
 * Why `algorithm` does not support `shape` (for example, not canonical on a reproducible communicator), or NULL when it
 * does.
 */
const char *algorithm_refuses(const struct algorithm *algorithm, const struct schedule_shape *shape);

/**
 * Why `algorithm` is used for `shape` only on request, or NULL if it may be chosen: its sums are not canonical.
 * Hierarchies over nodes (or leaves, or pods) whose sizes are not equal powers of two are an exception: there, fewest
 * bytes take precedence.
 */
const char *algorithm_only_on_request(const struct algorithm *algorithm, const struct schedule_shape *shape);

/**
 * Generate the schedule of `rank` by `algorithm`; WEFT_ERROR_ARGUMENT with its reason when it refuses the shape. A
 * communicator of one rank gets the same few local steps from every algorithm.
 */
weft_status schedule_generate(const struct algorithm *algorithm, const struct schedule_shape *shape, uint32_t rank,
                              struct schedule **schedule, struct error *error);

/** The same for many ranks of a shape: what holds for all of them is checked once, by generator_open(). */
struct schedule_generator {
    const struct algorithm *algorithm;
    const struct schedule_shape *shape;
    bool canonical;
};
weft_status generator_open(struct schedule_generator *generator, const struct algorithm *algorithm,
                           const struct schedule_shape *shape, struct error *error);
weft_status generator_write(const struct schedule_generator *generator, uint32_t rank, struct schedule **schedule,
                            struct error *error);

/**
 * Bytes of scratch that a reduce-scatter in the canonical order takes on a rank while it runs, at most: of blocks of
 * `block_bytes`, by ranks that are spread evenly over nodes. Pairwise it needs a segment from each rank, so that many ranks
 * on nodes of their own need many MiB; where nodes have several ranks, a power of two, it is two-level and needs less. On one
 * node: none.
 */
uint64_t reduce_scatter_scratch(uint32_t ranks, uint32_t nodes, uint64_t block_bytes);

#endif
