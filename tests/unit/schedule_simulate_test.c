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

/* ---- links that are shared, by messages of hand-made schedules ---- */

struct message {
    uint32_t from, to;
    double bytes;
};

/* Every message of its own rank pair, all at once; one rank sends or receives. */
static struct simulated_report send_all(const struct message *messages, size_t count,
                                        const struct schedule_shape *shape, const struct simulated_cluster *on)
{
    struct step steps[16] = {{0}};
    struct schedule schedules[16], *pointers[16];
    struct simulated_report report = {0};
    struct error error = {0};
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        schedules[rank] = (struct schedule){.collective = COLLECTIVE_SENDRECEIVE,
                                            .algorithm = "by hand",
                                            .ranks = shape->ranks,
                                            .rank = rank,
                                            .parts = 1,
                                            .lane_count = 1,
                                            .steps = &steps[rank]};
        pointers[rank] = &schedules[rank];
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t chunks = (uint16_t)(messages[i].bytes / (double)shape->block_bytes);
        steps[messages[i].from] = (struct step){.kind = STEP_SEND, .peer = messages[i].to, .chunks = chunks};
        steps[messages[i].to] = (struct step){.kind = STEP_RECEIVE, .peer = messages[i].from, .chunks = chunks};
        schedules[messages[i].from].step_count = schedules[messages[i].from].lane_first[1] = 1;
        schedules[messages[i].to].step_count = schedules[messages[i].to].lane_first[1] = 1;
    }
    if (schedule_simulate_report(pointers, shape->ranks, shape, on, shape->block_bytes, NULL, &report, &error) !=
        WEFT_OK)
        fail_msg("%s", error.text);
    return report;
}

/*
 * Three messages leave node 0, and one more enters the node of the third: max-min fair shares are 1/3 for the first
 * two, 1/3 for the third, and the rest of the receiving link, 2/3, for the fourth (and not 1/2).
 */
static void shares_are_max_min_fair(void **state)
{
    static const uint32_t nodes[8] = {0, 0, 0, 1, 2, 3, 4, 3};
    const struct schedule_shape shape = {.ranks = 8, .nodes = nodes, .block_bytes = 1000000};
    const struct message messages[] = {{0, 3, 10e6}, {1, 4, 10e6}, {2, 5, 10e6}, {6, 7, 20e6}};
    struct simulated_report report = send_all(messages, 4, &shape, &cluster);
    assert_near(report.seconds, 0.03 + 1.2e-5, 1e-3); /* all end together */
    assert_near(report.leaving[1], 30e6, 1e-9);
    assert_int_equal(report.messages, 4);
    assert_near(report.loads[0].share, 1, 1e-3);
    const struct message longer[] = {{0, 3, 10e6}, {1, 4, 10e6}, {2, 5, 10e6}, {6, 7, 30e6}};
    assert_near(send_all(longer, 4, &shape, &cluster).seconds, 0.04,
                1e-3); /* the last third alone, at the whole rate */
}

/* Both directions of a link are links of their own. */
static void links_are_full_duplex(void **state)
{
    static const uint32_t nodes[4] = {0, 0, 1, 1};
    const struct schedule_shape shape = {.ranks = 4, .nodes = nodes, .block_bytes = 1000000};
    const struct message messages[] = {{0, 2, 10e6}, {3, 1, 10e6}};
    assert_near(send_all(messages, 2, &shape, &cluster).seconds, 0.01, 1e-2);
}

/* Each of two interfaces has half of the node's bandwidth, and serves half of its ranks. */
static void ranks_share_the_interface_that_serves_them(void **state)
{
    static const uint32_t nodes[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    const struct schedule_shape shape = {.ranks = 8, .nodes = nodes, .block_bytes = 1000000};
    struct simulated_cluster on = cluster;
    const struct message one_interface[] = {{0, 4, 10e6}, {1, 6, 10e6}},
                         two_interfaces[] = {{0, 4, 10e6}, {2, 6, 10e6}};
    assert_near(send_all(one_interface, 2, &shape, &on).seconds, 0.02, 1e-2);
    on.interfaces = 2;
    assert_near(send_all(one_interface, 2, &shape, &on).seconds, 0.04, 1e-2);
    assert_near(send_all(two_interfaces, 2, &shape, &on).seconds, 0.02, 1e-2);
    /* The first interface fails: all use the second. */
    const struct simulated_disturbance failed = {.degrade = true};
    on.disturbance = &failed;
    assert_near(send_all(two_interfaces, 2, &shape, &on).seconds, 0.04, 1e-2);
}

/* 4 MB pass at 4 GB/s, while the bucket empties at 3 GB/s; then the rest at 1 GB/s. */
static void a_token_bucket_lets_a_burst_through(void **state)
{
    static const uint32_t nodes[2] = {0, 1};
    const struct schedule_shape shape = {.ranks = 2, .nodes = nodes, .block_bytes = 1000000};
    struct simulated_cluster on = cluster;
    on.burst_bytes = 3e6;
    on.burst_bandwidth = 4e9;
    const struct message small[] = {{0, 1, 2e6}}, large[] = {{0, 1, 10e6}};
    assert_near(send_all(small, 1, &shape, &on).seconds, 0.0005 + 1.2e-5, 1e-3);
    assert_near(send_all(large, 1, &shape, &on).seconds, 0.001 + 0.006 + 1.2e-5, 1e-3);
}

/* ---- what disturbs ---- */

static void disturbances_slow_down_what_they_hit(void **state)
{
    static const uint32_t nodes[4] = {0, 1, 2, 3}, leaves[4] = {0, 0, 1, 1};
    const struct schedule_shape shape = {.ranks = 4, .nodes = nodes, .above = {leaves}, .block_bytes = 1000000};
    const struct message across[] = {{0, 2, 10e6}}, beside[] = {{0, 1, 10e6}};
    struct simulated_cluster on = cluster;
    on.above[0] = (struct link_parameters){.latency = 2e-5, .overhead = 1e-6, .bandwidth = 2e9};
    struct simulated_disturbance disturbance = {0};
    on.disturbance = &disturbance;
    double plain = send_all(across, 1, &shape, &on).seconds;
    assert_near(plain, 0.01, 1e-2);

    disturbance = (struct simulated_disturbance){.degrade = true, .weak_level = 1, .weak_unit = 1, .weak_share = 0.25};
    assert_near(send_all(across, 1, &shape, &on).seconds, 0.02, 1e-2);
    assert_near(send_all(beside, 1, &shape, &on).seconds, 0.01, 1e-2);

    /* Two nodes read 0.4 GB/s each: little for their interfaces, but not for the leaf's uplinks when they are shared. */
    disturbance = (struct simulated_disturbance){.reading = 4e8};
    assert_near(send_all(across, 1, &shape, &on).seconds, 0.01 / 0.6, 1e-2);
    disturbance = (struct simulated_disturbance){.reading = 4e9}; /* no more than a fair share: half */
    assert_near(send_all(across, 1, &shape, &on).seconds, 0.02, 1e-2);
    disturbance = (struct simulated_disturbance){.writing = 4e8};
    assert_near(send_all(beside, 1, &shape, &on).seconds, 0.01 / 0.6, 1e-2);

    disturbance = (struct simulated_disturbance){.slow_rank = 1, .slowdown = 1000};
    assert_near(send_all(beside, 1, &shape, &on).seconds, 0.01 + 1e-3, 1e-2);

    disturbance = (struct simulated_disturbance){.jitter = 100, .seed = 1};
    double first = send_all(beside, 1, &shape, &on).seconds;
    assert_true(first > 0.01 && first == send_all(beside, 1, &shape, &on).seconds);
    disturbance.seed = 2;
    assert_true(first != send_all(beside, 1, &shape, &on).seconds);
}

static void a_failed_link_is_an_error(void **state)
{
    static const uint32_t nodes[2] = {0, 1};
    const struct schedule_shape shape = {
        .collective = COLLECTIVE_ALLREDUCE, .ranks = 2, .nodes = nodes, .block_bytes = 1000};
    const struct simulated_disturbance failed = {.degrade = true, .weak_unit = 1},
                                       absent = {.degrade = true, .weak_unit = 2};
    struct simulated_cluster on = cluster;
    struct simulated_report report;
    struct error error = {0};
    const struct algorithm *algorithm = algorithm_find(COLLECTIVE_ALLREDUCE, "recursive-doubling", NULL);
    on.disturbance = &failed;
    assert_int_equal(schedule_simulate_shape(algorithm, &shape, &on, NULL, &report, &error), WEFT_ERROR_PEER);
    assert_string_equal(error.text, "the failed link of node 1 cuts its ranks off: nothing completes");
    on.disturbance = &absent;
    assert_int_equal(schedule_simulate_shape(algorithm, &shape, &on, NULL, &report, &error), WEFT_ERROR_ARGUMENT);
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
        cmocka_unit_test(shares_are_max_min_fair),
        cmocka_unit_test(links_are_full_duplex),
        cmocka_unit_test(ranks_share_the_interface_that_serves_them),
        cmocka_unit_test(a_token_bucket_lets_a_burst_through),
        cmocka_unit_test(disturbances_slow_down_what_they_hit),
        cmocka_unit_test(a_failed_link_is_an_error),
        cmocka_unit_test(thousands_of_ranks_are_no_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
