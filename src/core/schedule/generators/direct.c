/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct: local ranks read one another's input in place; each does its share of the work and stores the result in its
 * final place.
 *
 * Every schedule here has the same three phases, each published by one signal at most:
 *
 *     give expose the data that others will read, and signal it;
 *     work await the others' signals, read and sum, and signal it;
 *     end await that signal: exposed data may be overwritten again, and spread data is delivered.
 *
 * Over one segment the phases follow one another in one lane. Over several segments each has a lane of its own, so that
 * the next segment is given while this one is worked on. `give` waits until `end` of two segments ago has freed its
 * staging, where there is any. That one wait guards all staging: a rank that has given segment s has delivered s - 2,
 * and work on s awaits all ranks that give.
 */
#include "core/schedule/generators/internal/generators.h"

/*
 * Where all ranks give, work and end alike, short segments gain nothing: every rank is busy all the time, and each
 * segment costs two rounds of signals. Segments are as long as staging allows for the number of ranks.
 */
static uint64_t segment_for_all(const struct builder *builder)
{
    uint64_t bytes = ((uint64_t)16 << 20) / builder->schedule->ranks & ~(uint64_t)4095;
    return bytes < SHM_SEGMENT ? SHM_SEGMENT : bytes > 4 * SHM_SEGMENT ? 4 * SHM_SEGMENT : bytes;
}

/*
 * Where one rank gives and the others take, shorter segments let more of the copies into and out of staging overlap,
 * but each costs the takers a signal. Measured in broadcasts of 256 KiB to 8 MiB: with ordinary buffers, segments of 64
 * to 128 KiB take two thirds of the time of 256 KiB; with registered ones they take 5% longer.
 */
#define ROOTED_SEGMENT (SHM_SEGMENT / 2)

/* The lanes of the three phases, and how their signals are counted. */
struct acts {
    struct builder *builder;
    uint32_t give, work, end; /* lanes */
    uint32_t all;             /* the group of all ranks */
    uint16_t stride;          /* signals of a lane in one segment: 2 when give and work share one, else 1 */
};

static struct acts acts_begin(struct builder *builder, uint64_t segment)
{
    bool segmented = segment && builder_segment(builder, segment, 2);
    return (struct acts){.builder = builder,
                         .give = 0,
                         .work = segmented ? 1 : 0,
                         .end = segmented ? 2 : 0,
                         .all = builder_group_of_all(builder),
                         .stride = segmented ? 1 : 2};
}

/* A rank that only gives, or only works: it makes one signal per segment in lane 0. */
static struct acts acts_rooted(struct builder *builder, uint64_t segment)
{
    struct acts acts = acts_begin(builder, segment);
    acts.work = 0;
    acts.end = acts.stride == 1 ? 1 : 0;
    acts.stride = 1;
    return acts;
}

static void direct_expose(const struct acts *acts, uint32_t first, uint32_t chunks)
{
    if (chunks)
        builder_add(acts->builder, acts->give,
                    (struct step){.kind = STEP_EXPOSE,
                                  .source = BUFFER_INPUT,
                                  .source_chunk = first,
                                  .chunks = (uint16_t)chunks,
                                  .value = first % acts->builder->schedule->parts});
}

/* Give all chunks but `own`, which no other rank reads (NONE: give all). */
#define NONE UINT32_MAX
static void direct_give(const struct acts *acts, uint32_t chunks, uint32_t own)
{
    if (acts->end != acts->give)
        builder_hold_staging(acts->builder, acts->give, builder_all(acts->end, acts->builder->schedule->slots));
    if (own == NONE) {
        direct_expose(acts, 0, chunks);
    } else {
        direct_expose(acts, 0, own);
        direct_expose(acts, own + 1, chunks - own - 1);
    }
    builder_add(acts->builder, acts->give, (struct step){.kind = STEP_SIGNAL, .peer = acts->all});
}

static void await_lane(const struct acts *acts, uint32_t lane, uint32_t group, uint32_t awaited, uint32_t value)
{
    builder_add(
        acts->builder, lane,
        (struct step){
            .kind = STEP_AWAIT, .peer = group, .operands = (uint16_t)awaited, .stride = acts->stride, .value = value});
}

/* All others have given. (This rank's own input needs no signal: it reads that in place.) */
static void await_given(const struct acts *acts)
{
    await_lane(acts, acts->work, acts->all, acts->give, 1);
}

static void worked(const struct acts *acts)
{
    builder_add(acts->builder, acts->work, (struct step){.kind = STEP_SIGNAL, .peer = acts->all});
}

/* All others have worked. */
static void await_worked(const struct acts *acts)
{
    await_lane(acts, acts->end, acts->all, acts->work, acts->stride);
}

static void direct_read_from(const struct acts *acts, uint32_t lane, uint32_t peer, uint32_t chunk, uint8_t target,
                             uint32_t target_chunk)
{
    builder_add(acts->builder, lane,
                (struct step){.kind = STEP_READ,
                              .peer = peer,
                              .source = BUFFER_INPUT,
                              .source_chunk = chunk,
                              .target = target,
                              .target_chunk = target_chunk,
                              .chunks = 1});
}

static void direct_copy_own(const struct acts *acts, uint32_t lane, uint8_t source, uint32_t chunk,
                            uint32_t target_chunk)
{
    builder_add(acts->builder, lane,
                (struct step){.kind = STEP_COPY,
                              .source = source,
                              .source_chunk = chunk,
                              .target = BUFFER_OUTPUT,
                              .target_chunk = target_chunk,
                              .chunks = 1});
}

/* Each rank sums one part of all inputs, and stores it into the outputs of `group`. */
static void reduce_spread(const struct acts *acts, uint32_t group)
{
    uint32_t me = acts->builder->schedule->rank;
    builder_add(acts->builder, acts->work,
                (struct step){.kind = STEP_REDUCE_SPREAD,
                              .flags = STEP_FINISHES,
                              .peer = acts->all,
                              .operands = (uint16_t)group,
                              .source = BUFFER_INPUT,
                              .source_chunk = me,
                              .target = BUFFER_OUTPUT,
                              .target_chunk = me,
                              .chunks = 1,
                              .value = me});
}

static void deliver_others(const struct acts *acts)
{
    uint32_t n = acts->builder->schedule->ranks, me = acts->builder->schedule->rank;
    for (uint32_t k = 1; k < n; k++)
        builder_add(acts->builder, acts->end,
                    (struct step){.kind = STEP_DELIVER,
                                  .peer = (me + k) % n,
                                  .target = BUFFER_OUTPUT,
                                  .target_chunk = (me + k) % n,
                                  .chunks = 1,
                                  .value = (me + k) % n});
}

void write_direct_allreduce(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks;
    builder->schedule->parts = n;
    struct acts acts = acts_begin(builder, segment_for_all(builder));
    direct_give(&acts, n, builder->schedule->rank);
    await_given(&acts);
    reduce_spread(&acts, acts.all);
    worked(&acts);
    await_worked(&acts);
    deliver_others(&acts);
}

void write_direct_reduce(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, root = builder->schedule->root;
    builder->schedule->parts = n;
    struct acts acts = acts_begin(builder, segment_for_all(builder));
    direct_give(&acts, n, builder->schedule->rank);
    await_given(&acts);
    reduce_spread(&acts, builder_group(builder, &root, 1));
    worked(&acts);
    await_worked(&acts);
    if (builder->schedule->rank == root)
        deliver_others(&acts);
}

void write_direct_reduce_scatter(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, me = builder->schedule->rank;
    struct acts acts = acts_begin(builder, segment_of_many(builder->schedule->ranks, 4 * SHM_SEGMENT));
    direct_give(&acts, n, me);
    await_given(&acts);
    builder_add(builder, acts.work,
                (struct step){.kind = STEP_GATHER_REDUCE,
                              .flags = STEP_FINISHES,
                              .peer = acts.all,
                              .source = BUFFER_INPUT,
                              .source_chunk = me,
                              .target = BUFFER_OUTPUT,
                              .chunks = 1});
    worked(&acts);
    await_worked(&acts);
}

void write_direct_allgather(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, me = builder->schedule->rank;
    struct acts acts = acts_begin(builder, segment_for_all(builder));
    direct_give(&acts, 1, NONE);
    direct_copy_own(&acts, acts.work, BUFFER_INPUT, 0, me);
    await_given(&acts);
    for (uint32_t k = 1; k < n; k++)
        direct_read_from(&acts, acts.work, (me + k) % n, 0, BUFFER_OUTPUT, (me + k) % n);
    worked(&acts);
    await_worked(&acts);
}

/* In place, others still read the input that is overwritten: the sum waits in scratch until all have worked. */
void write_direct_scan(struct builder *builder)
{
    const struct schedule *schedule = builder->schedule;
    uint32_t summed = collective_summed(schedule->collective, schedule->rank, schedule->ranks);
    struct acts acts = acts_begin(builder, segment_for_all(builder));
    if (summed)
        builder_scratch(builder, 1);
    direct_give(&acts, schedule->rank + 1 < schedule->ranks, NONE); /* nobody reads the last rank's */
    if (summed && acts.end != acts.work)                            /* scratch is copied from there */
        builder_hold(builder, acts.work, builder_all(acts.end, schedule->slots));
    await_given(&acts);
    if (summed)
        builder_add(builder, acts.work,
                    (struct step){.kind = STEP_GATHER_REDUCE,
                                  .flags = STEP_FINISHES,
                                  .peer = builder_group_of_first(builder, summed),
                                  .source = BUFFER_INPUT,
                                  .target = BUFFER_SCRATCH,
                                  .chunks = 1});
    worked(&acts);
    await_worked(&acts);
    if (!summed)
        return;
    if (acts.end != acts.work)
        builder_hold(builder, acts.end, builder_all(acts.work, 0));
    direct_copy_own(&acts, acts.end, BUFFER_SCRATCH, 0, 0);
}

/* In place, others still read the input that is overwritten: incoming blocks wait in scratch until all have worked. */
void write_direct_alltoall(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, me = builder->schedule->rank;
    bool in_place = builder->shape->in_place;
    struct acts acts = acts_begin(builder, segment_of_many(builder->schedule->ranks, 4 * SHM_SEGMENT));
    if (in_place)
        builder_scratch(builder, n);
    direct_give(&acts, n, me);
    if (!in_place)
        direct_copy_own(&acts, acts.work, BUFFER_INPUT, me, me);
    if (in_place && acts.end != acts.work) /* scratch is copied from there */
        builder_hold(builder, acts.work, builder_all(acts.end, builder->schedule->slots));
    await_given(&acts);
    for (uint32_t k = 1; k < n; k++)
        direct_read_from(&acts, acts.work, (me + k) % n, me, in_place ? BUFFER_SCRATCH : BUFFER_OUTPUT, (me + k) % n);
    worked(&acts);
    await_worked(&acts);
    if (!in_place)
        return;
    if (acts.end != acts.work)
        builder_hold(builder, acts.end, builder_all(acts.work, 0));
    for (uint32_t k = 1; k < n; k++)
        direct_copy_own(&acts, acts.end, BUFFER_SCRATCH, (me + k) % n, (me + k) % n);
}

/* In rooted collectives, the root gives and the others work, or the other way round: one signal each. */

void write_direct_broadcast(struct builder *builder)
{
    uint32_t root = builder->schedule->root;
    struct acts acts = acts_rooted(builder, ROOTED_SEGMENT);
    if (builder->schedule->rank == root) {
        direct_give(&acts, 1, NONE);
        await_lane(&acts, acts.end, acts.all, 0, 1);
        return;
    }
    await_lane(&acts, acts.work, builder_group(builder, &root, 1), 0, 1);
    direct_read_from(&acts, acts.work, root, 0, BUFFER_OUTPUT, 0);
    worked(&acts);
}

void write_direct_scatter(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, me = builder->schedule->rank, root = builder->schedule->root;
    struct acts acts = acts_rooted(builder, segment_of_many(builder->schedule->ranks, 4 * SHM_SEGMENT));
    if (me == root) {
        direct_give(&acts, n, me);
        direct_copy_own(&acts, acts.end, BUFFER_INPUT, me, 0);
        await_lane(&acts, acts.end, acts.all, 0, 1);
        return;
    }
    await_lane(&acts, acts.work, builder_group(builder, &root, 1), 0, 1);
    direct_read_from(&acts, acts.work, root, me, BUFFER_OUTPUT, 0);
    worked(&acts);
}

void write_direct_gather(struct builder *builder)
{
    uint32_t n = builder->schedule->ranks, me = builder->schedule->rank, root = builder->schedule->root;
    struct acts acts = acts_rooted(builder, ROOTED_SEGMENT);
    if (me != root) {
        direct_give(&acts, 1, NONE);
        await_lane(&acts, acts.end, builder_group(builder, &root, 1), 0, 1);
        return;
    }
    direct_copy_own(&acts, acts.work, BUFFER_INPUT, 0, me);
    await_lane(&acts, acts.work, acts.all, 0, 1);
    for (uint32_t k = 1; k < n; k++)
        direct_read_from(&acts, acts.work, (me + k) % n, 0, BUFFER_OUTPUT, (me + k) % n);
    worked(&acts);
}

void write_direct_barrier(struct builder *builder)
{
    struct acts acts = acts_rooted(builder, 0);
    worked(&acts);
    await_lane(&acts, 0, acts.all, 0, 1);
}
