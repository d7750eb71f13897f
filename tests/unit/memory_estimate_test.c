/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes need is what their ranks need, for all that is estimated once for many of them. */
#include "training/train/loop/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 8
#define NODES 2

static const uint32_t nodes[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
static const struct memory_ranks all_ranks = {.count = RANKS, .nodes = nodes};

/* A run, and the places of its ranks. */
struct estimated_run {
    struct train_config config;
    struct model_description *description;
    struct parallel_choice choice;
    uint32_t points[RANKS * MESH_AXES];
};

static void open_run(struct estimated_run *run, const char *mesh, int zero, int64_t batch)
{
    *run = (struct estimated_run){
        .config = {.mesh = mesh,
                   .zero = zero,
                   .batch = batch,
                   .micro_batch = 1,
                   .sequence = 128,
                   .schedule = STEP_1F1B,
                   .optimizer = {.kind = OPTIMIZER_ADAMW},
                   .gradients = WEFT_F32,
                   .bucket_bytes = 1 << 20},
    };
    assert_int_equal(model_shape_find("gpt-base", &run->config.shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&run->config.shape, &run->description, NULL), WEFT_OK);
    assert_int_equal(parallel_choice_of(&run->config, run->description, RANKS, &run->choice, NULL), WEFT_OK);
    assert_int_equal(parallel_choice_place(&run->config, run->description, nodes, &run->choice, NULL), WEFT_OK);
    assert_int_equal(mesh_place(&run->choice.mesh, &run->choice.placement, nodes, run->points, NULL), WEFT_OK);
}

static void close_run(struct estimated_run *run)
{
    model_description_free(run->description);
}

static struct memory_estimate estimate_of(const struct estimated_run *run, uint32_t rank)
{
    struct memory_estimate estimate;
    assert_int_equal(memory_estimate_of(&run->config, run->description, &run->choice, &all_ranks, rank,
                                        run->points + rank * MESH_AXES, &estimate, NULL),
                     WEFT_OK);
    return estimate;
}

/* By how much ranks may differ whose slices differ by a block of each group, in at most eight arrays. */
static uint64_t blocks_of(const struct estimated_run *run)
{
    return run->description->group_count * DEVICE_SQUARES_BLOCK * sizeof(float) * 8;
}

/* With runs of 3, 5, 6 or 7 micro-batches, some ranks have more partial sums than the first two. */
static void nodes_need_what_their_ranks_need(void **state)
{
    static const int64_t batches[] = {8, 16, 24, 27, 40, 48, 56, 60};
    for (size_t i = 0; i < ARRAY_SIZE(batches); i++)
        for (int zero = 0; zero <= 3; zero++) {
            struct estimated_run run;
            uint64_t needs[NODES], sums[NODES] = {0};
            open_run(&run, "data=8", zero, batches[i]);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                const struct memory_estimate estimate = estimate_of(&run, rank);
                sums[nodes[rank]] += memory_estimate_total(&estimate);
            }
            assert_int_equal(memory_needs_of_nodes(&run.config, run.description, &run.choice, &all_ranks, needs, NULL),
                             WEFT_OK);
            for (uint32_t node = 0; node < NODES; node++) {
                assert_true(needs[node] + (zero ? RANKS * blocks_of(&run) : 0) >= sums[node]);
                assert_true(needs[node] <= sums[node] + sums[node] / 10); /* the last slices may be shorter */
            }
            close_run(&run);
        }
}

static void data_ranks_with_equal_sums_are_alike(void **state)
{
    static const uint32_t shares[RANKS] = {4, 4, 4, 4, 2, 2, 2, 2};
    static const struct {
        int zero;
        int64_t batch;
        const uint32_t *shares;
        uint32_t alike[RANKS];
    } cases[] = {
        {0, 32, NULL, {0, 1, 1, 1, 1, 1, 1, 1}}, /* subtrees */
        {1, 24, NULL, {0, 1, 2, 1, 2, 1, 2, 1}}, /* runs of three begin with a pair, or end with one */
        {2, 26, NULL, {0, 1, 2, 2, 2, 2, 2, 2}}, /* four micro-batches, or three */
        {1, 24, shares, {0, 1, 1, 1, 4, 4, 4, 4}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct estimated_run run;
        uint32_t alike[RANKS];
        open_run(&run, "data=8", cases[i].zero, cases[i].batch);
        run.choice.shares = cases[i].shares;
        memory_alike_data_ranks(&run.choice, alike);
        for (uint32_t d = 0; d < RANKS; d++)
            assert_int_equal(alike[d], cases[i].alike[d]);
        close_run(&run);
    }
}

/* The part of a rank: its weights and both of AdamW's moments. */
static uint64_t part_of(const struct memory_estimate *estimate)
{
    return estimate->training.optimizer / 2 * 3;
}

/* Two copies of its own part, and room for two of any other rank's: pipeline ranks differ in size, and a parameter server has
 * all. */
static void copies_have_room_for_the_largest_part(void **state)
{
    static const struct {
        const char *mesh;
        int zero;
        bool central;
    } cases[] = {{"data=8", 1, false}, {"data=8", 1, true}, {"pipeline=4,data=2", 2, false}, {"pipeline=8", 0, false}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct estimated_run run;
        struct memory_estimate estimates[RANKS];
        uint64_t largest = 0, smallest = UINT64_MAX;
        open_run(&run, cases[i].mesh, cases[i].zero, 32);
        run.config.min_ranks = 1;
        run.config.copy_every = 1;
        run.choice.central = cases[i].central;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            estimates[rank] = estimate_of(&run, rank);
            const uint64_t part = part_of(&estimates[rank]);
            largest = part > largest ? part : largest;
            smallest = part < smallest ? part : smallest;
        }
        assert_true(largest > smallest);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            const uint64_t expected = 2 * (part_of(&estimates[rank]) + largest);
            assert_true(estimates[rank].copies <= expected && estimates[rank].copies + blocks_of(&run) >= expected);
        }
        close_run(&run);
    }
}

/* Between nodes, a rank has room for the parts of all ranks in two reduce-scatters at a time. */
static void scratch_of_reduce_scatters_is_counted(void **state)
{
    static const uint32_t apart[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7}, together[RANKS] = {0};
    static const struct {
        const uint32_t *nodes;
        int zero;
        int64_t batch;
        uint64_t each; /* of a reduce-scatter */
    } cases[] = {
        {together, 1, 32, 0},    {apart, 0, 32, 0},       {apart, 1, 24, 0}, /* roots go to owners */
        {apart, 1, 32, 2 << 20},                                             /* a segment of 256 KiB from each rank */
        {apart, 2, 24, 2 << 20}, {nodes, 3, 32, 2 << 20}, /* the sums of a node, and those from both nodes, of two segments at a time */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct estimated_run run;
        struct memory_estimate estimate, without;
        const struct memory_ranks ranks = {.count = RANKS, .nodes = cases[i].nodes};
        open_run(&run, "data=8", cases[i].zero, cases[i].batch);
        assert_int_equal(
            memory_estimate_of(&run.config, run.description, &run.choice, &ranks, 1, run.points, &estimate, NULL),
            WEFT_OK);
        run.choice.zero = 0;
        assert_int_equal(
            memory_estimate_of(&run.config, run.description, &run.choice, &ranks, 1, run.points, &without, NULL),
            WEFT_OK);
        assert_int_equal(estimate.rest - without.rest, cases[i].each ? 2 * cases[i].each - MEMORY_OF_SUMS : 0);
        close_run(&run);
    }
}

/* Each rank holds the texts that it samples from. */
static void data_in_memory_is_counted(void **state)
{
    struct estimated_run run;
    struct memory_estimate without, with;
    struct memory_ranks ranks = all_ranks;
    char text[MEMORY_TEXT_BYTES];
    open_run(&run, "data=8", 0, 8);
    without = estimate_of(&run, 0);
    ranks.data = (uint64_t)5 << 20;
    assert_int_equal(memory_estimate_of(&run.config, run.description, &run.choice, &ranks, 0, run.points, &with, NULL),
                     WEFT_OK);
    assert_int_equal(memory_estimate_total(&with) - memory_estimate_total(&without), ranks.data);
    assert_non_null(strstr(memory_estimate_describe(&with, text), "data 5"));
    close_run(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_need_what_their_ranks_need),
        cmocka_unit_test(data_ranks_with_equal_sums_are_alike),
        cmocka_unit_test(copies_have_room_for_the_largest_part),
        cmocka_unit_test(scratch_of_reduce_scatters_is_counted),
        cmocka_unit_test(data_in_memory_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
