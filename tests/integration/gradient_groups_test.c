/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients over the data axis: totals have the bits of a tree sum on one rank, for any number of ranks and
 * micro-batches, all ZeRO stages, f32 and bf16, groups of odd sizes, and however groups share buckets.
 */
#include "../world.h"
#include "base/random.h"
#include "training/parallel/sharding/gradient_groups.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GROUPS = 10, FROZEN = 5, BATCH_MOST = 9, STEPS = 2, TYPES = 2 };

static const size_t counts[GROUPS] = {16, 0, 4096, 3 * 4096, 1, 4096 + 32, 2 * 4096, 4097 * 16, 4095, 28 * 4096 + 16};

/* ---- what is expected ---- */

struct tables {
    struct group_range ranges[GROUPS];
    size_t elements;
    float *leaves[STEPS][BATCH_MOST]; /* the flat gradient of each micro-batch */
    float *totals[STEPS][TYPES][BATCH_MOST + 1];
};

static bool is_rounded(int type)
{
    return type == 1;
}

/* To the nearest bf16, ties to even. */
static float rounded_value(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float tree_value(const struct tables *tables, int step, int type, int first, int count, size_t element)
{
    int half = 1;
    float sum;
    if (count == 1) {
        sum = tables->leaves[step][first][element];
    } else {
        while (half * 2 < count)
            half *= 2;
        sum = tree_value(tables, step, type, first, half, element) +
              tree_value(tables, step, type, first + half, count - half, element);
    }
    return is_rounded(type) ? rounded_value(sum) : sum;
}

static float *new_array(size_t elements)
{
    float *array = calloc(elements + 1, sizeof *array);
    assert_non_null(array);
    return array;
}

/* Sums of values of very different sizes are rounded differently in every order. */
static void fill_tables(struct tables *tables)
{
    *tables = (struct tables){0};
    for (uint32_t g = 0; g < GROUPS; g++) {
        tables->ranges[g] =
            (struct group_range){.offset = tables->elements, .count = counts[g], .turn = g, .frozen = g == FROZEN};
        tables->elements += tree_blocks(counts[g]) * DEVICE_SQUARES_BLOCK;
    }
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < BATCH_MOST; m++) {
            float *leaf = tables->leaves[step][m] = new_array(tables->elements);
            for (size_t e = 0; e < tables->elements; e++) {
                const uint64_t number = ((uint64_t)step * BATCH_MOST + (uint64_t)m) * tables->elements + e;
                leaf[e] = (float)ldexp(random_uniform(1, number) - 0.5, (int)random_below(2, number, 24) - 12);
            }
        }
        for (int type = 0; type < TYPES; type++)
            for (int n = 1; n <= BATCH_MOST; n++) {
                float *total = tables->totals[step][type][n] = new_array(tables->elements);
                for (size_t e = 0; e < tables->elements; e++)
                    total[e] = tree_value(tables, step, type, 0, n, e);
            }
    }
}

static void free_tables(struct tables *tables)
{
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < BATCH_MOST; m++)
            free(tables->leaves[step][m]);
        for (int type = 0; type < TYPES; type++)
            for (int n = 1; n <= BATCH_MOST; n++)
                free(tables->totals[step][type][n]);
    }
}

/* ---- one rank ---- */

struct gradient_case {
    const struct tables *tables;
    uint32_t micro_batches, zero;
    int type;
    size_t bucket_bytes;
};

/* A rank's objects. */
struct gradient_run {
    struct gradient_case config;
    struct gradient_groups *groups;
    struct micro_batch_share share;
    int step;
    struct error error;
};

enum { BUFFERS = 2, SKIPPED = 16 }; /* elements at the beginning of a buffer that a group does not use */

/* The order of a backward pass: from last to first; and one in which neighbors are not reduced one after the other. */
static uint32_t group_in_turn(const struct gradient_run *run, uint32_t turn)
{
    return run->step % 2 == 0 ? GROUPS - 1 - turn : turn * 3 % GROUPS;
}

static void write_gradient(struct gradient_run *run, uint32_t group, uint32_t index, float *place)
{
    const struct group_range *range = &run->config.tables->ranges[group];
    const uint32_t micro_batch = run->share.first + index * run->share.stride;
    memcpy(place, run->config.tables->leaves[run->step][micro_batch] + range->offset, range->count * sizeof *place);
}

/* As a backward pass: each group is reduced after its last micro-batch. */
static weft_status sum_flat(struct gradient_run *run)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < run->share.count; i++)
        for (uint32_t turn = 0; status == WEFT_OK && turn < GROUPS; turn++) {
            const uint32_t g = group_in_turn(run, turn);
            write_gradient(run, g, i, gradient_groups_place(run->groups, g, UINT32_MAX, 0));
            gradient_groups_add(run->groups, g);
            if (i + 1 == run->share.count)
                status = gradient_groups_reduce_start(run->groups, g, UINT32_MAX, UINT32_MAX, 0, &run->error);
        }
    for (uint32_t turn = 0; status == WEFT_OK && turn < GROUPS; turn++)
        status = gradient_groups_reduce_finish(run->groups, group_in_turn(run, turn), UINT32_MAX, &run->error);
    return status;
}

/* Every gradient in the next moving buffer, which is free after the reduction that used it last. */
static weft_status sum_in_rounds(struct gradient_run *run, uint32_t ranks)
{
    const uint32_t rounds = (run->config.micro_batches + ranks - 1) / ranks, all = rounds * GROUPS;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < all + BUFFERS; i++) {
        if (i >= BUFFERS)
            status = gradient_groups_reduce_finish(run->groups, group_in_turn(run, (i - BUFFERS) % GROUPS),
                                                   (i - BUFFERS) / GROUPS, &run->error);
        if (status != WEFT_OK || i >= all)
            continue;
        const uint32_t group = group_in_turn(run, i % GROUPS), round = i / GROUPS, buffer = i % BUFFERS;
        if (round < run->share.count)
            write_gradient(run, group, round, gradient_groups_place(run->groups, group, buffer, SKIPPED));
        status = gradient_groups_reduce_start(run->groups, group, round, buffer, SKIPPED, &run->error);
    }
    return status;
}

static bool total_is_right(struct gradient_run *run, uint32_t group, uint32_t rank, uint32_t ranks)
{
    const struct tables *tables = run->config.tables;
    const struct group_range *range = &tables->ranges[group];
    struct group_slice slice, own = {.count = range->count};
    const float *total = gradient_groups_total(run->groups, group, &slice);
    const float *expected = tables->totals[run->step][run->config.type][run->config.micro_batches] + range->offset;
    if (run->config.zero)
        own = group_slice_of(range, rank, ranks);
    if (slice.first != own.first || slice.count != own.count)
        return false;
    for (size_t i = 0; range->frozen && i < slice.count; i++)
        if (total[i] != 0)
            return false;
    return range->frozen || memcmp(total, expected + slice.first, slice.count * sizeof *total) == 0;
}

/* The total of a tied tensor's other use is added to this one's. */
static bool other_total_is_added(struct gradient_run *run, uint32_t group)
{
    const struct group_range *range = &run->config.tables->ranges[group];
    struct group_slice slice;
    float *total = gradient_groups_total(run->groups, group, &slice);
    const float *other = run->config.tables->totals[run->step][run->config.type][1] + range->offset + slice.first;
    const float *own = run->config.tables->totals[run->step][run->config.type][run->config.micro_batches] +
                       range->offset + slice.first;
    gradient_groups_add_total(run->groups, group, other);
    for (size_t i = 0; i < slice.count; i++) {
        const float sum = own[i] + other[i];
        if (total[i] != (is_rounded(run->config.type) ? rounded_value(sum) : sum))
            return false;
    }
    return true;
}

static int sum_case(weft_context *context, int rank, struct device *device, const struct gradient_case *config)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(weft_world(context));
    const struct gradient_groups_config groups = {
        .context = context,
        .comm = weft_world(context),
        .device = device,
        .ranges = config->tables->ranges,
        .group_count = GROUPS,
        .elements = config->tables->elements,
        .micro_batches = config->micro_batches,
        .zero = config->zero,
        .type = is_rounded(config->type) ? WEFT_BF16 : WEFT_F32,
        .bucket_bytes = config->bucket_bytes,
        .buffers = BUFFERS,
        .buffer_elements = SKIPPED + 28 * 4096 + 16,
    };
    struct gradient_run run = {.config = *config, .share = gradient_groups_share(&groups, (uint32_t)rank, ranks)};
    CHECK(gradient_groups_open(&groups, &run.groups, &run.error) == WEFT_OK);
    for (run.step = 0; run.step < STEPS; run.step++) {
        CHECK((config->zero >= 2 ? sum_in_rounds(&run, ranks) : sum_flat(&run)) == WEFT_OK);
        for (uint32_t g = 0; g < GROUPS; g++)
            if (!total_is_right(&run, g, (uint32_t)rank, ranks)) {
                fprintf(stderr, "step %d, group %u of %zu, %u ranks, %u micro-batches, ZeRO-%u, %s, buckets of %zu\n",
                        run.step, g, counts[g], ranks, config->micro_batches, config->zero,
                        is_rounded(config->type) ? "bf16" : "f32", config->bucket_bytes);
                CHECK(!"the total has the bits of one rank");
            }
        CHECK(other_total_is_added(&run, 3));
    }
    gradient_groups_close(run.groups);
    return 0;
}

static int sum_cases(weft_context *context, int rank, void *argument)
{
    static const size_t buckets[] = {0, 40000, SIZE_MAX};
    const uint32_t ranks = (uint32_t)weft_comm_size(weft_world(context));
    struct gradient_case config = {.tables = argument};
    struct device *device;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    for (config.micro_batches = ranks; config.micro_batches <= BATCH_MOST; config.micro_batches++)
        for (config.zero = 0; config.zero <= (ranks > 1 ? 3 : 0); config.zero++)
            for (config.type = 0; config.type < TYPES; config.type++) {
                config.bucket_bytes = buckets[(config.micro_batches + (uint32_t)config.type) % ARRAY_SIZE(buckets)];
                if (sum_case(context, rank, device, &config) != 0)
                    return 1;
            }
    device->close(device);
    return 0;
}

static void totals_have_the_bits_of_one_rank(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 5, 7};
    struct tables tables;
    fill_tables(&tables);
    for (size_t i = 0; i < ARRAY_SIZE(ranks); i++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks[i]}, sum_cases, &tables), 0);
    free_tables(&tables);
}

static void ranks_may_be_on_several_nodes(void **state)
{
    static const int uneven[] = {0, 0, 0, 1}, even[] = {0, 0, 1, 1}, apart[] = {0, 1, 0, 1};
    struct tables tables;
    fill_tables(&tables);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .node_of = uneven}, sum_cases, &tables), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .node_of = even}, sum_cases, &tables), 0);
    assert_int_equal(world_run(&(struct world){.ranks = 4, .node_of = apart}, sum_cases, &tables), 0);
    free_tables(&tables);
}

/* ---- memory ---- */

static size_t memory_of(uint32_t zero, uint32_t ranks, uint32_t micro_batches, weft_type type)
{
    static const struct group_range ranges[] = {{.count = 64 * DEVICE_SQUARES_BLOCK}};
    const struct gradient_groups_config config = {.ranges = ranges,
                                                  .group_count = 1,
                                                  .elements = ranges[0].count,
                                                  .micro_batches = micro_batches,
                                                  .zero = zero,
                                                  .type = type,
                                                  .buffers = 2,
                                                  .buffer_elements = ranges[0].count};
    const struct gradient_memory memory = gradient_groups_memory(&config, 0, ranks);
    return memory.gradients + memory.partial_sums + memory.exchanges;
}

static void memory_is_what_the_header_says(void **state)
{
    const size_t all = 64 * DEVICE_SQUARES_BLOCK * sizeof(float);
    /* the flat array and partial sums, no copies */
    assert_int_equal(memory_of(0, 1, 1, WEFT_F32), all);
    assert_int_equal(memory_of(0, 1, 8, WEFT_F32), all + 3 * all);
    assert_int_equal(memory_of(0, 4, 4, WEFT_F32), all);
    assert_int_equal(memory_of(0, 4, 4, WEFT_BF16), all + all / 2);
    /* two reductions at a time, which receive a slice of the sum; in bf16 from a copy, and turned into f32 */
    assert_int_equal(memory_of(1, 4, 4, WEFT_F32), all + 2 * all / 4);
    assert_int_equal(memory_of(1, 4, 4, WEFT_BF16), all + 2 * (all / 2 + all / 8 + all / 4));
    /* or, where the ranks' runs are no subtrees, a root of each rank's or more: here 2 of rank 0, and 1 of rank 1 */
    assert_int_equal(memory_of(1, 2, 5, WEFT_F32), all + 2 * all + 2 * (2 * all + 3 * all / 2));
    /* buffers, the partial sums of a slice, and reductions, which receive a slice of a round's sum */
    assert_int_equal(memory_of(2, 4, 4, WEFT_F32), 2 * all + 2 * all / 4 + 2 * all / 4);
    assert_int_equal(memory_of(3, 4, 4, WEFT_F32), memory_of(2, 4, 4, WEFT_F32));
    /* or, in a round without all ranks, those of the others */
    assert_int_equal(memory_of(2, 4, 6, WEFT_F32), 2 * all + 2 * all / 4 + 2 * all * 3 / 4);
}

/* More than the heap has: an error, and nothing stays. */
static int open_too_large(weft_context *context, int rank, void *argument)
{
    static const struct group_range ranges[] = {{.count = (size_t)1 << 40}};
    struct device *device;
    struct gradient_groups *groups = NULL;
    struct error error = {0};
    CHECK(device_open("cpu-bf16", 1, &device, &error) == WEFT_OK);
    const struct gradient_groups_config config = {.context = context,
                                                  .comm = weft_world(context),
                                                  .device = device,
                                                  .ranges = ranges,
                                                  .group_count = 1,
                                                  .elements = ranges[0].count,
                                                  .micro_batches = 2,
                                                  .zero = 1,
                                                  .type = WEFT_BF16};
    CHECK(gradient_groups_open(&config, &groups, &error) == WEFT_ERROR_MEMORY);
    CHECK(!groups && error.text[0]);
    gradient_groups_close(groups);
    device->close(device);
    return 0;
}

static void too_little_memory_is_an_error(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, open_too_large, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_have_the_bits_of_one_rank),
        cmocka_unit_test(ranks_may_be_on_several_nodes),
        cmocka_unit_test(memory_is_what_the_header_says),
        cmocka_unit_test(too_little_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
