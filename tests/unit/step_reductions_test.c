/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of gradients are priced as the collectives that gradient_groups.h runs. */
#include "training/simulate/step_reductions.h"

#include "base/array.h"
#include "training/parallel/sharding/slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANKS 8

static const struct simulated_cluster links = {
    .near = {.latency = 2e-6, .overhead = 1e-6, .bandwidth = 200e9},
    .far = {.latency = 5e-6, .overhead = 1e-6, .bandwidth = 10e9},
    .copy_bandwidth = 800e9,
    .memory_bandwidth = 800e9,
    .cache_bytes = 40 << 20,
    .cores = 4,
};
static const uint32_t hosts[RANKS] = {0, 0, 0, 0, 1, 1, 1, 1};
static const struct step_cluster cluster = {.links = &links, .ranks = RANKS, .hosts = hosts};

/* A group whose slices are even, and one block less, whose are not. */
#define EVEN_COUNT   ((double)GROUP_EVEN_BLOCKS * RANKS * DEVICE_SQUARES_BLOCK)
#define UNEVEN_COUNT (EVEN_COUNT - DEVICE_SQUARES_BLOCK)

/* What a reduction should be: `sums` times as many bytes in one collective, then perhaps an all-gather. */
struct expected_sum {
    enum collective collective;
    double sums;
    bool gathers;
};

static void add_collective(struct step_prices *prices, const struct step_placement *placement,
                           enum collective collective, double bytes, struct step_transfer *transfer)
{
    const struct step_request request = {.collective = collective, .bytes = bytes, .reproducible = true};
    assert_int_equal(step_prices_add(prices, placement, &request, transfer, NULL), WEFT_OK);
}

static void expect_transfer(const struct step_transfer *transfer, struct step_prices *prices,
                            const struct step_placement *placement, double bytes, const struct expected_sum *expected)
{
    struct step_transfer same = {0};
    add_collective(prices, placement, expected->collective, bytes * expected->sums, &same);
    if (expected->gathers)
        add_collective(prices, placement, COLLECTIVE_ALLGATHER, bytes, &same);
    assert_true(transfer->seconds > 0);
    assert_float_equal(transfer->seconds, same.seconds, 1e-15);
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        assert_float_equal(transfer->bytes[level], same.bytes[level], 1e-6);
}

static void collectives_are_those_that_run(void **state)
{
    static const uint32_t shares[RANKS] = {3, 3, 3, 3, 1, 1, 1, 1};
    static const struct {
        uint32_t zero, micro_batches;
        const uint32_t *counts;
        double elements;
        struct expected_sum expected;
    } cases[] = {
        {0, 16, NULL, EVEN_COUNT, {COLLECTIVE_ALLREDUCE, 1, false}},
        {0, 16, NULL, UNEVEN_COUNT, {COLLECTIVE_ALLREDUCE, 1, false}},
        {0, 24, NULL, EVEN_COUNT, {COLLECTIVE_ALLTOALL, 2, true}}, /* runs of 3 have two roots */
        {0, 16, shares, EVEN_COUNT, {COLLECTIVE_ALLTOALL, 2, true}},
        {1, 16, NULL, EVEN_COUNT, {COLLECTIVE_REDUCE_SCATTER, 1, false}},
        {1, 16, NULL, UNEVEN_COUNT, {COLLECTIVE_ALLTOALL, 1, false}},
        {1, 24, NULL, EVEN_COUNT, {COLLECTIVE_ALLTOALL, 2, false}},
        {1, 16, shares, EVEN_COUNT, {COLLECTIVE_ALLTOALL, 2, false}},
        {2, 24, NULL, EVEN_COUNT, {COLLECTIVE_REDUCE_SCATTER, 1, false}},
        {3, 24, NULL, UNEVEN_COUNT, {COLLECTIVE_ALLTOALL, 1, false}},
    };
    struct step_prices *prices;
    const struct step_placement *placement;
    assert_int_equal(step_prices_open(&cluster, &prices, NULL), WEFT_OK);
    assert_int_equal(step_prices_placement(prices, RANKS, &placement, NULL), WEFT_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct micro_batch_division division = {cases[i].micro_batches, RANKS, cases[i].counts};
        const struct step_reductions reductions =
            step_reductions_of(implementation_weft(CLUSTER_F32), cases[i].zero, &division, WEFT_F32);
        const double bytes = cases[i].elements * sizeof(float);
        struct step_transfer transfer = {0};
        assert_int_equal(step_reductions_add(&reductions, prices, placement, bytes, &transfer, NULL), WEFT_OK);
        expect_transfer(&transfer, prices, placement, bytes, &cases[i].expected);
        assert_int_equal(reductions.in_place, cases[i].expected.collective == COLLECTIVE_ALLREDUCE);
    }
    step_prices_close(prices);
}

/* Of 8 ranks on two hosts: those that are left send to the owners, and the first host sends most. */
static void the_last_round_goes_to_owners(void **state)
{
    static const struct {
        uint32_t zero, micro_batches;
        double share;
    } cases[] = {{0, 20, 0}, {1, 20, 0}, {2, 16, 0}, {2, 17, 0.25}, {3, 18, 0.5}, {2, 20, 1}, {3, 23, 1}};
    const double bytes = EVEN_COUNT * sizeof(float);
    struct step_prices *prices;
    const struct step_placement *placement;
    assert_int_equal(step_prices_open(&cluster, &prices, NULL), WEFT_OK);
    assert_int_equal(step_prices_placement(prices, RANKS, &placement, NULL), WEFT_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct micro_batch_division division = {.total = cases[i].micro_batches, .ranks = RANKS};
        const struct step_reductions reductions =
            step_reductions_of(implementation_weft(CLUSTER_F32), cases[i].zero, &division, WEFT_F32);
        const double share = step_reductions_last_share(&reductions, placement);
        struct step_transfer transfer = {0};
        assert_float_equal(share, cases[i].share, 1e-15);
        assert_int_equal(reductions.last, cases[i].zero < 2 ? 0 : cases[i].micro_batches % RANKS);
        if (!reductions.last)
            continue;
        assert_int_equal(step_reductions_add_last(&reductions, prices, placement, bytes, share, &transfer, NULL),
                         WEFT_OK);
        expect_transfer(&transfer, prices, placement, bytes, &(struct expected_sum){COLLECTIVE_ALLTOALL, share, false});
    }
    step_prices_close(prices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_are_those_that_run),
        cmocka_unit_test(the_last_round_goes_to_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
