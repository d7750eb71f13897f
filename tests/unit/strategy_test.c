/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's choices on clusters that nobody has to own. */
#include "training/plan/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* A millisecond a sequence, and one for each call. */
static double compute(void *context, uint32_t sequences)
{
    return 1e-3 + 1e-3 * sequences;
}

static const struct cluster fast = {
    .nodes = 2,
    .ranks_per_node = 2,
    .links =
        {
            .near = {.latency = 1e-7, .overhead = 5e-8, .bandwidth = 20e9},
            .far = {.latency = 5e-6, .overhead = 1e-6, .bandwidth = 12e9},
            .copy_bandwidth = 20e9,
            .memory_bandwidth = 10e9,
            .cache_bytes = 32 << 20,
            .cores = 2,
        },
    .node_memory = (uint64_t)8 << 30,
    .near_origin = "assumed",
    .far_origin = "assumed",
};

static struct strategy search(const struct cluster *cluster, uint32_t batch, double *speedup)
{
    struct model_shape shape;
    struct model_description *description;
    struct strategy *strategies, best;
    size_t count;
    assert_int_equal(model_shape_find("gpt-micro", &shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    const struct strategy_problem problem = {
        .description = description,
        .batch = batch,
        .sequence = 128,
        .cluster = cluster,
        .compute = compute,
        .update_seconds = 5e-4,
    };
    assert_int_equal(strategy_search(&problem, &strategies, &count, NULL), WEFT_OK);
    assert_true(count > 0);
    for (size_t i = 0; i + 1 < count; i++) {
        assert_true(strategies[i].fits >= strategies[i + 1].fits);
        if (strategies[i].fits == strategies[i + 1].fits)
            assert_true(strategies[i].step_seconds <= strategies[i + 1].step_seconds);
    }
    best = strategies[0];
    *speedup = strategy_speedup(strategies, count, &best);
    free(strategies);
    model_description_free(description);
    return best;
}

static void fast_links_are_worth_all_ranks(void **state)
{
    double speedup;
    struct strategy best = search(&fast, 32, &speedup);
    assert_int_equal(best.ranks, 4);
    assert_int_equal(best.nodes, 2);
    assert_true(speedup > 3 && speedup <= 4);
}

static void links_that_cost_more_than_they_gain_are_not_used(void **state)
{
    double speedup;
    struct cluster slow = fast;
    slow.links.far.bandwidth = 1e6;
    slow.links.far.latency = 0.1;
    struct strategy best = search(&slow, 32, &speedup);
    assert_int_equal(best.nodes, 1);
    assert_int_equal(best.ranks, 2);
}

static void crowded_cores_gain_nothing(void **state)
{
    double speedup;
    struct cluster crowded = fast;
    crowded.nodes = 1;
    crowded.ranks_per_node = 8;
    struct strategy best = search(&crowded, 32, &speedup);
    assert_int_equal(best.ranks, 2);
}

static void what_does_not_fit_comes_last(void **state)
{
    double speedup;
    struct cluster small = fast;
    small.node_memory = search(&fast, 32, &speedup).node_bytes - 1; /* less than what the fastest strategy takes */
    struct strategy best = search(&small, 32, &speedup);
    assert_true(best.fits);
    assert_true(best.node_bytes <= small.node_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_links_are_worth_all_ranks),
        cmocka_unit_test(links_that_cost_more_than_they_gain_are_not_used),
        cmocka_unit_test(crowded_cores_gain_nothing),
        cmocka_unit_test(what_does_not_fit_comes_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
