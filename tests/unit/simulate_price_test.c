/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of collectives of groups of ranks. */
#include "core/schedule/simulate/simulate_price.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RANKS 32 /* on 8 nodes of 4, under 2 leaves of 4 */

static const struct simulated_cluster cluster = {
    .near = {.latency = 1e-6, .overhead = 5e-7, .bandwidth = 1e11},
    .far = {.latency = 1e-5, .overhead = 1e-6, .bandwidth = 1e10},
    .above = {{.latency = 1.5e-5, .overhead = 1e-6, .bandwidth = 4e10}},
    .copy_bandwidth = 1e11,
    .memory_bandwidth = 1e11,
};

static uint32_t nodes[RANKS], leaves[RANKS / 4];

static struct schedule_shape world(void)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        nodes[rank] = rank / 4;
    for (uint32_t node = 0; node < RANKS / 4; node++)
        leaves[node] = node / 4;
    return (struct schedule_shape){.collective = COLLECTIVE_ALLREDUCE,
                                   .ranks = RANKS,
                                   .nodes = nodes,
                                   .above = {leaves},
                                   .reproducible = true,
                                   .block_bytes = 64 << 20};
}

/* Of every `stride`-th rank from `first` on. */
static struct schedule_shape group_of(uint32_t first, uint32_t stride, uint32_t count)
{
    const struct schedule_shape all = world();
    struct schedule_shape group;
    uint32_t members[RANKS];
    for (uint32_t i = 0; i < count; i++)
        members[i] = first + i * stride;
    assert_int_equal(simulate_group_open(&all, members, count, &group, NULL), WEFT_OK);
    return group;
}

static struct simulated_price price_of(struct schedule_shape group, const struct simulated_cluster *on, uint32_t alike)
{
    struct simulated_price price;
    struct error error = {0};
    if (simulate_price(on, &group, alike, &price, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    simulate_group_close(&group);
    return price;
}

static void groups_number_their_units(void **state)
{
    struct schedule_shape group = group_of(18, 6, 3); /* ranks 18, 24, 30: nodes 4, 6, 7 of leaf 1 */
    assert_int_equal(group.ranks, 3);
    for (uint32_t member = 0; member < 3; member++)
        assert_int_equal(group.nodes[member], member);
    assert_int_equal(shape_units(&group, 1), 1);
    simulate_group_close(&group);

    const struct schedule_shape all = world();
    static const uint32_t members[] = {31, 2, 30, 3, 5};
    assert_int_equal(simulate_group_open(&all, members, 5, &group, NULL), WEFT_OK);
    static const uint32_t places[] = {0, 1, 0, 1, 2}, above[] = {0, 1, 1};
    assert_memory_equal(group.nodes, places, sizeof places);
    assert_memory_equal(group.above[0], above, sizeof above);
    assert_int_equal(group.block_bytes, all.block_bytes);
    simulate_group_close(&group);
}

static void one_rank_has_nothing_to_do(void **state)
{
    struct simulated_price price = price_of(group_of(3, 1, 1), &cluster, 1);
    assert_null(price.algorithm);
    assert_true(price.seconds == 0 && price.busy == 0);
}

static void bytes_are_those_of_the_links(void **state)
{
    /* Two nodes of four: each sends its half of the sum and gets the other, or all of it once. */
    struct simulated_price price = price_of(group_of(0, 1, 8), &cluster, 1);
    assert_non_null(price.algorithm);
    assert_true(fabs(price.leaving[1] - (64 << 20)) < 0.01 * (64 << 20));
    assert_true(price.leaving[2] == 0);
    assert_true(price.busy > 0 && price.busy <= 1);
    /* At least the wire. */
    assert_true(price.seconds > (64 << 20) / cluster.far.bandwidth);
    /* Across leaves. */
    assert_true(price_of(group_of(0, 16, 2), &cluster, 1).leaving[2] > 0);
}

/* Four groups of one rank of every node. */
static void groups_share_what_they_have_in_common(void **state)
{
    struct simulated_cluster on = cluster;
    double alone = price_of(group_of(0, 4, 4), &on, 1).seconds;
    double shared = price_of(group_of(0, 4, 4), &on, 4).seconds;
    assert_true(shared > 3.5 * alone && shared < 4.1 * alone);
    /* An interface for each: the others do not matter, and alone is no faster. */
    on.interfaces = 4;
    assert_true(fabs(price_of(group_of(0, 4, 4), &on, 1).seconds / shared - 1) < 0.02);
    assert_true(fabs(price_of(group_of(0, 4, 4), &on, 4).seconds / shared - 1) < 0.02);
    /* Two interfaces for four groups. */
    on.interfaces = 2;
    assert_true(fabs(price_of(group_of(0, 4, 4), &on, 4).seconds / shared - 1) < 0.02);
    assert_true(price_of(group_of(0, 4, 4), &on, 1).seconds < 0.6 * shared);
}

/*
 * The choice alone is that among all prices, and its report has the bits that every rank's simulation finds: of groups
 * on whole nodes, parts of them, one or two leaves, evenly or not.
 */
static void a_choice_without_all_prices_is_the_same(void **state)
{
    static const struct {
        uint32_t first, stride, count;
    } groups[] = {{0, 1, 32}, {0, 4, 8}, {0, 2, 16}, {0, 1, 16}, {2, 1, 24}, {1, 3, 10}, {0, 16, 2}};
    static const enum collective collectives[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLGATHER,
                                                  COLLECTIVE_ALLTOALL,  COLLECTIVE_BROADCAST,      COLLECTIVE_BARRIER};
    static const uint64_t sizes[] = {64, 5000, 1 << 20, 40 << 20};
    for (size_t g = 0; g < ARRAY_SIZE(groups); g++) {
        struct schedule_shape group = group_of(groups[g].first, groups[g].stride, groups[g].count);
        for (size_t i = 0; i < ARRAY_SIZE(collectives) * ARRAY_SIZE(sizes); i++) {
            struct algorithm_prices prices;
            struct simulated_report report, whole;
            const struct algorithm *algorithm;
            group.collective = collectives[i / ARRAY_SIZE(sizes)];
            group.block_bytes = sizes[i % ARRAY_SIZE(sizes)];
            assert_int_equal(simulate_prices(&cluster, &group, SIMULATED_RANKS, &prices, NULL), WEFT_OK);
            assert_int_equal(simulate_choice(&cluster, &group, SIMULATED_RANKS, &algorithm, &report, NULL), WEFT_OK);
            assert_ptr_equal(algorithm, prices.prices[prices.chosen].algorithm);
            assert_true(report.seconds == prices.prices[prices.chosen].seconds);
            assert_int_equal(schedule_simulate_shape(algorithm, &group, &cluster, NULL, &whole, NULL), WEFT_OK);
            assert_true(report.seconds == whole.seconds && report.busy == whole.busy);
            assert_memory_equal(report.leaving, whole.leaving, sizeof whole.leaving);
        }
        simulate_group_close(&group);
    }
}

/* The same where larger shapes are extrapolated from smaller ones, which have more ranks than eight. */
static void a_choice_from_fewer_ranks_is_the_same(void **state)
{
    static const enum collective collectives[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_REDUCE_SCATTER,
                                                  COLLECTIVE_ALLGATHER};
    for (uint32_t count = 20; count <= RANKS; count += 4) {
        struct schedule_shape group = group_of(0, 1, count);
        for (size_t i = 0; i < ARRAY_SIZE(collectives); i++) {
            struct algorithm_prices prices;
            struct simulated_report report, again;
            const struct algorithm *algorithm;
            group.collective = collectives[i];
            group.block_bytes = 1 << 18;
            assert_int_equal(simulate_prices(&cluster, &group, 8, &prices, NULL), WEFT_OK);
            assert_int_equal(simulate_choice(&cluster, &group, 8, &algorithm, &report, NULL), WEFT_OK);
            assert_ptr_equal(algorithm, prices.prices[prices.chosen].algorithm);
            assert_int_equal(simulate_report(algorithm, &group, &cluster, 8, &again, NULL), WEFT_OK);
            assert_memory_equal(&report, &again, sizeof report);
        }
        simulate_group_close(&group);
    }
}

/* 512 nodes of 8 ranks, schedules included: processor time (a goal; the machine may be four times as slow). */
static void thousands_of_ranks_take_milliseconds(void **state)
{
    static uint32_t many[4096];
    for (uint32_t rank = 0; rank < 4096; rank++)
        many[rank] = rank / 8;
    const struct schedule_shape shape = {
        .collective = COLLECTIVE_ALLREDUCE, .ranks = 4096, .nodes = many, .block_bytes = 256 << 20};
    struct simulated_report report;
    bool folded;
    clock_t begin = clock();
    assert_int_equal(schedule_simulate_folded(algorithm_find(COLLECTIVE_ALLREDUCE, "two-level", NULL), &shape, &cluster,
                                              NULL, &report, &folded, NULL),
                     WEFT_OK);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_true(folded);
    print_message("%.3f s of processor time\n", seconds);
    assert_true(seconds < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_number_their_units),
        cmocka_unit_test(one_rank_has_nothing_to_do),
        cmocka_unit_test(bytes_are_those_of_the_links),
        cmocka_unit_test(groups_share_what_they_have_in_common),
        cmocka_unit_test(a_choice_without_all_prices_is_the_same),
        cmocka_unit_test(a_choice_from_fewer_ranks_is_the_same),
        cmocka_unit_test(thousands_of_ranks_take_milliseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
