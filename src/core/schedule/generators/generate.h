/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Generators: from a shape, the schedule of one rank.
 *
 * A generator writes one rank's list without building the others'; all inputs are agreed by all ranks, so schedules agree
 * and schedule.hash proves it. Thread-safe.
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
    /** NULL when it can serve this shape; otherwise a static clause that says why not ("needs all ranks on one node").
     */
    const char *(*refuses)(const struct schedule_shape *shape);
    /** Writes the steps of builder->schedule->rank (see core/schedule/generators/builder.h); called through schedule_generate(). */
    void (*write)(struct builder *builder);
};

/** All algorithms of a collective, in order of documentation; *count of them. Static tables. */
const struct algorithm *algorithms_of(enum collective collective, size_t *count);

/** Find by name; NULL with a message that lists what there is and names the nearest. */
const struct algorithm *algorithm_find(enum collective collective, const char *name, struct error *error);

/** Why `algorithm` will not serve `shape` (not canonical on a reproducible communicator included), or NULL when it
 * will. */
const char *algorithm_refuses(const struct algorithm *algorithm, const struct schedule_shape *shape);

/**
 * Why `algorithm` is not to be chosen for `shape` unless somebody asks for it by name, or NULL when it may be: its sums
 * are not canonical. The exception are hierarchies over nodes (or leaves, or pods) whose sizes are not equal powers of
 * two: there the fewest bytes come first.
 */
const char *algorithm_only_on_request(const struct algorithm *algorithm, const struct schedule_shape *shape);

/**
 * Generate the schedule of `rank` by `algorithm`; WEFT_ERROR_ARGUMENT with its reason when it refuses the shape. A
 * communicator of one rank gets the same few local steps from every algorithm.
 */
weft_status schedule_generate(const struct algorithm *algorithm, const struct schedule_shape *shape, uint32_t rank,
                              struct schedule **schedule, struct error *error);

#endif
