/* SPDX-License-Identifier: Apache-2.0 */
/* Prices among many ranks, extrapolated from few: the choice that follows is nearly as good as the best. */
#include "core/collective/tuner/tuner.h"
#include "training/plan/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What the choice really costs, in times of the best. */
static double regret(const struct cluster_file *file, enum collective collective, uint32_t ranks, uint64_t bytes)
{
    const struct simulated_cluster cluster = tuner_cluster_of(file);
    struct algorithm_prices guessed, whole;
    struct cluster_map map;
    struct error error = {0};
    if (cluster_map_ranks(file, ranks, 0, &map, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    struct schedule_shape shape = {.collective = collective,
                                   .ranks = ranks,
                                   .nodes = map.nodes,
                                   .above = {map.above[0], map.above[1]},
                                   .block_bytes = bytes};
    if (simulate_prices(&cluster, &shape, SIMULATED_RANKS, &guessed, &error) != WEFT_OK ||
        simulate_prices(&cluster, &shape, ranks, &whole, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_non_null(strstr(guessed.reason, "extrapolated"));
    cluster_map_free(&map);
    return whole.prices[guessed.chosen].seconds / whole.prices[whole.chosen].seconds;
}

static void check(const struct cluster_file *file, const char *name, enum collective collective, uint32_t ranks,
                  uint64_t bytes)
{
    double times = regret(file, collective, ranks, bytes);
    if (times > 1.25)
        fail_msg("%s, %u ranks, %s of %d bytes: %.2f times the best", name, ranks, collective_name(collective),
                 (int)bytes, times);
}

static void the_choice_among_many_ranks_is_nearly_the_best(void **state)
{
    static const struct {
        const char *file;
        uint32_t ranks;
        uint64_t hard; /* bytes of one more all-reduce: where few nodes with long sums hide what many
                         messages cost (128 ranks at 1 MiB: 1.28 times the best) */
    } cases[] = {{"dgx-a100", 128, 1 << 19}, {"dgx-a100", 160, 1 << 20}, {"dgx-h100", 256, 1 << 20},
                 {"dgx-a100", 320, 1 << 20}, {"p4d", 200, 1 << 20},  {"p5", 256, 1 << 20}};
    static const uint64_t sizes[] = {64, 65536, 1 << 18, 1 << 22};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster_file file;
        struct error error = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/%s.yaml", CLUSTERS, cases[i].file);
        if (cluster_file_load(path, &file, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check(&file, cases[i].file, COLLECTIVE_ALLREDUCE, cases[i].ranks, sizes[s]);
        check(&file, cases[i].file, COLLECTIVE_ALLREDUCE, cases[i].ranks, cases[i].hard);
        check(&file, cases[i].file, COLLECTIVE_REDUCE_SCATTER, cases[i].ranks, 1 << 18);
        check(&file, cases[i].file, COLLECTIVE_ALLGATHER, cases[i].ranks, 1 << 18);
        cluster_file_free(&file);
    }
}

/* A node with more ranks than are simulated has fewer of them. */
static void one_large_node_has_a_price_too(void **state)
{
    const struct simulated_cluster cluster = tuner_default_cluster();
    struct schedule_shape shape = {.collective = COLLECTIVE_ALLREDUCE, .ranks = 192, .block_bytes = 1 << 20};
    struct algorithm_prices prices;
    assert_int_equal(simulate_prices(&cluster, &shape, SIMULATED_RANKS, &prices, NULL), WEFT_OK);
    assert_string_equal(prices.prices[prices.chosen].algorithm->name, "direct");
    assert_true(prices.prices[prices.chosen].seconds > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_among_many_ranks_is_nearly_the_best),
        cmocka_unit_test(one_large_node_has_a_price_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
