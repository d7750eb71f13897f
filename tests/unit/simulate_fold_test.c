/* SPDX-License-Identifier: Apache-2.0 */
/* Folded simulations find what whole ones find. */
#include "core/schedule/simulate/simulate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct simulated_cluster cluster = {
    .near = {.latency = 1e-7, .overhead = 5e-8, .bandwidth = 1e10},
    .far = {.latency = 1e-5, .overhead = 1e-6, .bandwidth = 1e9},
    .above = {{.latency = 1.5e-5, .overhead = 1.2e-6, .bandwidth = 1.7e9},
              {.latency = 2e-5, .overhead = 1.4e-6, .bandwidth = 2.9e9}},
    .copy_bandwidth = 2e10,
    .memory_bandwidth = 1e10,
    .cache_bytes = 1 << 25,
};

static const enum collective collectives[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLGATHER,
                                              COLLECTIVE_BROADCAST, COLLECTIVE_REDUCE,         COLLECTIVE_ALLTOALL,
                                              COLLECTIVE_BARRIER,   COLLECTIVE_GATHER,         COLLECTIVE_SCATTER};

/* Ranks of a node, nodes of a leaf, leaves of a pod, pods. */
struct fold_case {
    uint32_t ranks, nodes, leaves, pods, levels, interfaces, cores;
};

struct fold_maps {
    uint32_t nodes[1024], leaves[1024], pods[1024];
};

static struct schedule_shape shape_of(const struct fold_case *of, struct fold_maps *maps)
{
    uint32_t nodes = of->nodes * of->leaves * of->pods;
    struct schedule_shape shape = {.ranks = nodes * of->ranks, .nodes = maps->nodes};
    for (uint32_t rank = 0; rank < shape.ranks; rank++)
        maps->nodes[rank] = rank / of->ranks;
    for (uint32_t node = 0; node < nodes; node++)
        maps->leaves[node] = node / of->nodes;
    for (uint32_t leaf = 0; leaf < of->leaves * of->pods; leaf++)
        maps->pods[leaf] = leaf / of->leaves;
    shape.above[0] = of->levels > 1 ? maps->leaves : NULL;
    shape.above[1] = of->levels > 2 ? maps->pods : NULL;
    return shape;
}

static void assert_same(double folded, double whole, const char *what, const struct algorithm *algorithm,
                        const struct schedule_shape *shape)
{
    if (fabs(folded - whole) > 1e-9 * fabs(whole))
        fail_msg("%s by %s, %u ranks on %u nodes, %d bytes: %s is %.15g folded, %.15g whole",
                 collective_name(shape->collective), algorithm->name, shape->ranks, shape_units(shape, 0),
                 (int)shape->block_bytes, what, folded, whole);
}

/* Whether it was folded. */
static bool compare(const struct algorithm *algorithm, const struct schedule_shape *shape,
                    const struct simulated_cluster *on)
{
    struct simulated_report folded, whole;
    struct error error = {0};
    bool folds;
    if (schedule_simulate_folded(algorithm, shape, on, NULL, &folded, &folds, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    if (!folds)
        return false;
    if (schedule_simulate_shape(algorithm, shape, on, NULL, &whole, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(folded.how == SIMULATED_FOLDED && whole.how == SIMULATED_WHOLE);
    assert_same(folded.seconds, whole.seconds, "the time", algorithm, shape);
    assert_same(folded.busy, whole.busy, "the share of work", algorithm, shape);
    assert_same((double)folded.messages, (double)whole.messages, "the number of messages", algorithm, shape);
    for (uint32_t unit = 0; unit < SIMULATED_UNITS; unit++)
        assert_same(folded.leaving[unit], whole.leaving[unit], "bytes that leave a unit", algorithm, shape);
    assert_int_equal(folded.load_count, whole.load_count);
    for (uint32_t i = 0; i < folded.load_count; i++)
        assert_same(folded.loads[i].share, whole.loads[i].share, "the load of a link", algorithm, shape);
    return true;
}

static void folded_is_whole(void **state)
{
    static const struct fold_case cases[] = {
        {1, 8, 1, 1, 1, 1, 0}, {1, 7, 1, 1, 1, 1, 0},  {2, 8, 1, 1, 1, 1, 0}, {3, 5, 1, 1, 1, 1, 0},
        {4, 4, 2, 1, 2, 2, 0}, {2, 4, 4, 1, 2, 1, 1},  {4, 2, 3, 1, 2, 4, 2}, {2, 2, 2, 2, 3, 1, 0},
        {8, 8, 1, 1, 1, 4, 0}, {2, 16, 4, 1, 2, 2, 0}, {4, 3, 3, 2, 3, 2, 3}, {8, 16, 1, 1, 1, 8, 0},
    };
    static const uint64_t sizes[] = {64, 96 * 1024, 3 << 20};
    uint32_t folds = 0, all = 0;
    struct fold_maps *maps = malloc(sizeof *maps);
    assert_non_null(maps);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schedule_shape shape = shape_of(&cases[i], maps);
        struct simulated_cluster on = cluster;
        on.interfaces = cases[i].interfaces;
        on.cores = cases[i].cores;
        for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
            size_t count;
            shape.collective = collectives[c];
            const struct algorithm *algorithms = algorithms_of(shape.collective, &count);
            for (size_t a = 0; a < count; a++) {
                for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                    shape.block_bytes = sizes[s];
                    if (algorithm_refuses(&algorithms[a], &shape))
                        continue;
                    folds += compare(&algorithms[a], &shape, &on);
                    all++;
                }
            }
        }
    }
    free(maps);
    assert_true(folds > all / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
