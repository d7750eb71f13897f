/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against times that can be worked out by hand. */
#include "core/schedule/simulate/simulate.h"
#include "core/schedule/verify/sweep.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct simulated_cluster cluster = {
    .near = {.latency = 1e-7, .overhead = 5e-8, .bandwidth = 1e10},
    .far = {.latency = 1e-5, .overhead = 1e-6, .bandwidth = 1e9},
    .copy_bandwidth = 2e10,
    .memory_bandwidth = 1e10,
    .cache_bytes = 1 << 25,
    .cores = 8,
};

static double time_of(enum collective collective, const char *algorithm, uint32_t ranks, uint32_t width, uint64_t bytes)
{
    uint32_t nodes[256];
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes[rank] = rank / width;
    struct schedule_shape shape = {.collective = collective, .ranks = ranks, .nodes = nodes, .block_bytes = bytes};
    if (collective == COLLECTIVE_SENDRECEIVE)
        shape.peer = 1;
    struct schedule **schedules;
    struct error error = {0};
    double seconds = -1;
    if (sweep_generate(algorithm_find(collective, algorithm, &error), &shape, &schedules, &error) != WEFT_OK ||
        schedule_simulate(schedules, ranks, &shape, &cluster, bytes, &seconds, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    sweep_free(schedules, ranks);
    return seconds;
}

static void assert_near(double has, double wants, double tolerance)
{
    if (fabs(has - wants) > tolerance * wants)
        fail_msg("%.9g s where %.9g s belong", has, wants);
}

static void one_message(void **state)
{
    /* overhead, the wire, latency, overhead */
    double headers = SIMULATED_HEADER_BYTES / 1e9;
    assert_near(time_of(COLLECTIVE_SENDRECEIVE, "message", 2, 1, 0), 1.2e-5 + headers, 1e-9);
    assert_near(time_of(COLLECTIVE_SENDRECEIVE, "message", 2, 1, 1000000), 1.2e-5 + headers + 1e-3, 1e-9);
}

static void messages_of_one_node_share_its_interface(void **state)
{
    /* Ranks 0 and 1 of one node each exchange with one of the other node: half the bandwidth each. */
    double alone = time_of(COLLECTIVE_ALLREDUCE, "recursive-doubling", 2, 1, 1 << 18);
    double shared = time_of(COLLECTIVE_ALLREDUCE, "recursive-doubling", 4, 2, 1 << 18);
    assert_true(shared > alone + 0.9 * (1 << 18) / 1e9);
}

static void a_ring_takes_its_rounds(void **state)
{
    /* 2 (p - 1) rounds of S / p; the sums are small beside the wire. */
    double bytes = 8 * 64 * 1024, rounds = 14;
    assert_near(time_of(COLLECTIVE_ALLREDUCE, "ring", 8, 1, (uint64_t)bytes), rounds * (bytes / 8 / 1e9 + 1.2e-5),
                0.05);
}

static void nothing_is_faster_than_the_wire(void **state)
{
    static const char *const algorithms[] = {"two-level", "two-level-doubling", "two-level-ring", "ring",
                                             "pairwise-tree"};
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        double bytes = 1 << 24;
        double bound = 2.0 * 3 / 4 * bytes / 1e9;
        assert_true(time_of(COLLECTIVE_ALLREDUCE, algorithms[i], 16, 4, (uint64_t)bytes) >= bound * 0.999);
    }
    /* ... and two levels come close to it. */
    assert_near(time_of(COLLECTIVE_ALLREDUCE, "two-level", 16, 4, 1 << 26), 1.5 * (1 << 26) / 1e9, 0.15);
}

/* Two nodes of each of two leaves send across at once: the spine, as fast as one node, is shared by both. */
static void leaves_share_their_uplinks(void **state)
{
    static const uint32_t nodes[4] = {0, 1, 2, 3}, leaves[4] = {0, 0, 1, 1};
    struct simulated_cluster spine = cluster;
    spine.above[0] = (struct link_parameters){.latency = 2e-5, .overhead = 1e-6, .bandwidth = 1e9};
    struct schedule_shape shape = {
        .collective = COLLECTIVE_ALLREDUCE, .ranks = 4, .nodes = nodes, .above = {leaves}, .block_bytes = 1 << 24};
    static const struct {
        const char *algorithm;
        double times;                                         /* of the data's time on one link */
    } cases[] = {{"pairwise-tree", 2}, {"multi-level", 1.5}}; /* bound by the spine; by the nodes' own links */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schedule **schedules;
        struct error error = {0};
        double seconds = 0;
        if (sweep_generate(algorithm_find(shape.collective, cases[i].algorithm, &error), &shape, &schedules, &error) !=
                WEFT_OK ||
            schedule_simulate(schedules, 4, &shape, &spine, shape.block_bytes, &seconds, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_near(seconds, cases[i].times * (1 << 24) / 1e9, 0.1);
        sweep_free(schedules, 4);
    }
}

static void a_long_loop_goes_on_at_its_pace(void **state)
{
    double once = time_of(COLLECTIVE_ALLREDUCE, "two-level", 8, 4, (uint64_t)1 << 26);
    double twice = time_of(COLLECTIVE_ALLREDUCE, "two-level", 8, 4, (uint64_t)1 << 27);
    assert_near(twice, 2 * once, 0.1);
}

static void tiny_ones_cost_a_latency_and_cores_are_shared(void **state)
{
    assert_near(time_of(COLLECTIVE_ALLREDUCE, "exchange", 2, 2, 8), 1e-7, 1e-6);
    assert_true(time_of(COLLECTIVE_ALLREDUCE, "direct", 16, 16, 1 << 20) >
                1.5 * time_of(COLLECTIVE_ALLREDUCE, "direct", 8, 8, 1 << 20));
}

/* Four containers of one rank: a message occupies both ends, and what the machine's cores cannot do at once takes
 * turns. */
static void containers_share_the_cores_of_their_machine(void **state)
{
    static const uint32_t nodes[4] = {0, 1, 2, 3};
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 4, .nodes = nodes, .block_bytes = 8};
    struct simulated_cluster machine = cluster;
    machine.far = (struct link_parameters){.latency = 1e-7, .overhead = 2e-6, .bandwidth = 1e10};
    machine.switching = 1e-6;
    double seconds[4];
    static const uint32_t cores[] = {4, 4, 2, 1}, sharing[] = {0, 4, 4, 4};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct schedule **schedules;
        struct error error = {0};
        machine.cores = cores[i];
        machine.sharing = sharing[i];
        if (sweep_generate(algorithm_find(shape.collective, "recursive-doubling", &error), &shape, &schedules,
                           &error) != WEFT_OK ||
            schedule_simulate(schedules, 4, &shape, &machine, 8, &seconds[i], &error) != WEFT_OK)
            fail_msg("%s", error.text);
        sweep_free(schedules, 4);
    }
    assert_near(seconds[1], seconds[0], 1e-9); /* enough for all */
    /* 4 ranks send and receive twice, 32 us of work in all, and each comes to a core at least once. */
    assert_true(seconds[2] >= (16 * 2e-6 + 4 * 1e-6) / 2);
    assert_true(seconds[3] >= 16 * 2e-6 + 4 * 1e-6);
}

static void thousands_of_ranks_are_no_trouble(void **state)
{
    assert_true(time_of(COLLECTIVE_ALLREDUCE, "recursive-doubling", 256, 1, 8) > 8 * 1.2e-5 * 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_message),
        cmocka_unit_test(messages_of_one_node_share_its_interface),
        cmocka_unit_test(a_ring_takes_its_rounds),
        cmocka_unit_test(nothing_is_faster_than_the_wire),
        cmocka_unit_test(leaves_share_their_uplinks),
        cmocka_unit_test(a_long_loop_goes_on_at_its_pace),
        cmocka_unit_test(tiny_ones_cost_a_latency_and_cores_are_shared),
        cmocka_unit_test(containers_share_the_cores_of_their_machine),
        cmocka_unit_test(thousands_of_ranks_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
