/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sweep: all shapes that are worth proving an algorithm on, for a number of ranks.
 *
 * Ranks are placed on one node, on nodes of 1, 2, 3, 4 and 8 ranks, on nodes of growing size, and round-robin on
 * several nodes; algorithms that use leaves and pods get nodes of several kinds under leaves, and leaves in pods, of
 * equal and growing size. Blocks are small (one iteration) and large (several); roots are the first, the last and some
 * between. An algorithm that ignores nodes is proved once for all placements.
 *
 * Above SWEEP_ALL_RANKS a sample: fewer placements, one root; above SWEEP_LONG_RANKS small blocks only.
 */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_SWEEP_H
#define WEFT_CORE_SCHEDULE_VERIFY_SWEEP_H

#include "core/schedule/generators/generate.h"

#define SWEEP_ALL_RANKS  64
#define SWEEP_LONG_RANKS 512

/** Called with each shape; `nodes` in it is valid during the call. A status other than WEFT_OK ends the sweep.
 */
typedef weft_status sweep_visit(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                                struct error *error);

/** Visit every shape over `ranks` ranks that `algorithm` of `collective` does not refuse. Thread-safe. */
weft_status sweep_shapes(enum collective collective, const struct algorithm *algorithm, uint32_t ranks,
                         sweep_visit *visit, void *context, struct error *error);

/**
 * Generate and verify one shape: a sweep_visit. `context` is a uint64_t that counts the sets of schedules proved, or
 * NULL.
 */
weft_status sweep_verify(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                         struct error *error);

/** All shapes of one algorithm over one number of ranks. */
struct sweep_job {
    enum collective collective;
    const struct algorithm *algorithm;
    uint32_t ranks;
    uint64_t count; /**< a counter for the visit */
    double seconds; /**< that it took */
};

/** The jobs of every algorithm of every collective over ranks[0..count); *jobs is the caller's to free(). */
weft_status sweep_all(const uint32_t *ranks, size_t count, struct sweep_job **jobs, size_t *job_count,
                      struct error *error);

/**
 * Do the jobs, those over the most ranks first, on `threads` threads. `visit` gets &job->count of the job as its
 * context. The first error ends the sweep.
 */
weft_status sweep_run(struct sweep_job *jobs, size_t count, uint32_t threads, sweep_visit *visit, struct error *error);

/** Generate the schedules of all ranks; *schedules is an array of shape->ranks, to be freed by sweep_free(). */
weft_status sweep_generate(const struct algorithm *algorithm, const struct schedule_shape *shape,
                           struct schedule ***schedules, struct error *error);
void sweep_free(struct schedule **schedules, uint32_t ranks);

#endif
