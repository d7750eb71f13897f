/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's choice is that of pricing everything, on random models, clusters and batches. Recomputation is chosen only
 * where less of it does not fit. */
#include "base/random.h"
#include "training/plan/planner/planner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES 60

struct planner_case {
    struct model_description *description;
    struct train_config config;
    struct cluster_file file;
    struct cluster cluster;
    struct planner_cluster planned;
    struct planner_setting setting;
    struct planner *planner;
};

/* One of `count` numbers. */
static uint32_t pick(uint64_t seed, uint64_t *number, const uint32_t *choices, uint32_t count)
{
    return choices[random_below(seed, ++*number, count)];
}

static void make_model(struct planner_case *one, uint64_t seed, uint64_t *number)
{
    static const uint32_t layers[] = {1, 2, 3}, widths[] = {64, 128, 256}, vocabularies[] = {256, 5000};
    struct model_shape shape = {.kind = "gpt",
                                .layers = pick(seed, number, layers, 3),
                                .heads = 4,
                                .width = pick(seed, number, widths, 3),
                                .context = 128,
                                .vocabulary = pick(seed, number, vocabularies, 2)};
    assert_int_equal(model_describe(&shape, &one->description, NULL), WEFT_OK);
    one->config.shape = shape;
}

/* Hosts of a few devices, some under leaves of two. Where memory is scarce, it is a little more than the weights and their
 * gradients. */
static void make_cluster(struct planner_case *one, uint64_t seed, uint64_t *number)
{
    static const uint32_t ranks[] = {2, 3, 4, 6}, hosts[] = {1, 2}, leaves[] = {1, 2}, speeds[] = {1, 10, 100},
                          scarce[] = {0, 1, 2};
    const uint32_t each = pick(seed, number, ranks, 4), leaf_count = each == 2 ? pick(seed, number, leaves, 2) : 1,
                   count = each == 6 ? 1 : leaf_count * pick(seed, number, hosts, 2);
    const double flops = 1e11 * pick(seed, number, speeds, 3), link = 1e8 * pick(seed, number, speeds, 3);
    const uint64_t state = one->description->weights * 16;
    strcpy(one->file.name, "made");
    one->file.device_count = 1;
    one->file.devices[0] =
        (struct cluster_device){.memory_bytes = pick(seed, number, scarce, 3) ? (32u << 20) + state : (uint64_t)1 << 36,
                                .memory_bandwidth = 20e9,
                                .flops = {flops, 2 * flops, 2 * flops},
                                .launch_seconds = 1e-6};
    one->cluster = (struct cluster){
        .nodes = count,
        .ranks_per_node = each,
        .links = {.near = {.latency = 1e-6, .overhead = 1e-7, .bandwidth = 10e9},
                  .far = {.latency = 1e-5, .overhead = 1e-6, .bandwidth = link},
                  .above[0] = {.latency = 2e-5, .overhead = 1e-6, .bandwidth = link / 3},
                  .copy_bandwidth = 20e9,
                  .memory_bandwidth = 10e9,
                  .cache_bytes = 32 << 20,
                  .cores = each},
    };
    one->file.level_count = 2 + (leaf_count > 1);
    one->file.levels[0].size = each;
    one->file.levels[1].size = count / leaf_count;
    one->file.levels[2].size = leaf_count;
    one->cluster.file = &one->file;
}

/* Some clusters: the last host has slower devices, with less memory, or fewer of them. */
static void make_uneven(struct planner_case *one, uint64_t seed, uint64_t *number)
{
    static const uint32_t sevenths[] = {2, 4, 6}, mixed[] = {0, 1, 1};
    const uint32_t hosts = one->cluster.nodes, each = one->cluster.ranks_per_node;
    if (hosts == 1 || !pick(seed, number, mixed, 3))
        return;
    struct cluster_device *slow = &one->file.devices[1];
    const double speed = pick(seed, number, sevenths, 3) / 7.0;
    *slow = one->file.devices[0];
    for (int precision = 0; precision < CLUSTER_PRECISIONS; precision++)
        slow->flops[precision] *= speed;
    slow->memory_bandwidth *= speed;
    slow->memory_bytes -= slow->memory_bytes / 10;
    one->file.device_count = 2;
    one->file.group_count = 2;
    one->file.groups[0] = (struct cluster_group){.hosts = hosts - 1, .ranks = each};
    one->file.groups[1] = (struct cluster_group){.hosts = 1, .ranks = each, .device = 1};
}

/* Some clusters: memory is as fast as the links of ranks and of hosts, which may be slow, so that bounds on the bytes of ranks
 * are as high as they get, and matter. */
static void make_links_even(struct planner_case *one, uint64_t seed, uint64_t *number)
{
    static const uint32_t even[] = {0, 1};
    struct simulated_cluster *links = &one->cluster.links;
    if (pick(seed, number, even, 2))
        links->near.bandwidth = links->copy_bandwidth = links->memory_bandwidth = links->far.bandwidth;
}

static void open_planner(struct planner_case *one, weft_type precision)
{
    assert_int_equal(planner_cluster_open(&one->cluster, 0, NULL, &one->planned, NULL), WEFT_OK);
    one->setting = (struct planner_setting){
        .description = one->description,
        .config = &one->config,
        .cluster = &one->planned,
        .space = {.precisions = {precision}, .precision_count = 1, .buckets = {256 << 10}, .bucket_count = 1},
    };
    assert_int_equal(planner_open(&one->setting, &one->planner, NULL), WEFT_OK);
}

static void open_case(struct planner_case *one, uint64_t seed)
{
    static const uint32_t batches[] = {2, 4, 6, 8};
    uint64_t number = 0;
    *one = (struct planner_case){.config = {.sequence = 64, .gradients = WEFT_F32}};
    make_model(one, seed, &number);
    make_cluster(one, seed, &number);
    make_uneven(one, seed, &number);
    one->config.batch = pick(seed, &number, batches, 4);
    make_links_even(one, seed, &number);
    open_planner(one, seed % 2 ? WEFT_F32 : WEFT_BF16);
}

static void close_case(struct planner_case *one)
{
    planner_close(one->planner);
    planner_cluster_close(&one->planned);
    model_description_free(one->description);
}

/* What is known of all strategies that complete a set. */
struct exhausted {
    struct search_plan best;
    bool found;
    uint64_t unfit;
};

static void check_bound(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                        double seconds)
{
    for (enum search_effort effort = SEARCH_QUICK; effort <= SEARCH_TIGHT; effort++) {
        double bound;
        assert_int_equal(planner_bound(planner, partial, depth, effort, &bound, NULL), WEFT_OK);
        if (bound > seconds * (1 + 1e-9)) {
            char text[STRATEGY_TEXT_BYTES];
            print_error("depth %d: %s takes %.6g ms, and its bound is %.6g ms\n", depth,
                        strategy_describe(partial, text), seconds * 1e3, bound * 1e3);
        }
        assert_true(bound <= seconds * (1 + 1e-9));
    }
}

/* Price a strategy, if it fits; returns its seconds. */
static double exhaust_one(struct planner *planner, const struct strategy *strategy, struct exhausted *all)
{
    struct search_plan plan = {.strategy = *strategy};
    uint64_t needed, available;
    assert_int_equal(planner_price(planner, strategy, &plan.price, NULL), WEFT_OK);
    assert_int_equal(planner_memory(planner, strategy, &needed, &available, NULL), WEFT_OK);
    if (needed > available) {
        all->unfit++;
    } else {
        bool needless;
        assert_int_equal(planner_recomputes_needlessly(planner, strategy, &needless, NULL), WEFT_OK);
        if (needless)
            return plan.price.seconds;
        if (!all->found || search_plan_compare(&plan, &all->best) < 0)
            all->best = plan;
        all->found = true;
    }
    return plan.price.seconds;
}

/* The least seconds of all strategies of a set; no bound is above. */
static double exhaust(struct planner *planner, const struct strategy *partial, enum strategy_depth depth,
                      struct exhausted *all)
{
    struct strategy_list children = {0};
    double least = INFINITY;
    if (depth == STRATEGY_WHOLE) {
        least = exhaust_one(planner, partial, all);
    } else {
        assert_int_equal(strategy_expand(planner_space(planner), partial, depth, &children, NULL), WEFT_OK);
        for (size_t i = 0; i < children.count; i++)
            least = fmin(least, exhaust(planner, &children.items[i], (enum strategy_depth)(depth + 1), all));
        free(children.items);
    }
    if (depth > STRATEGY_ALL && least < INFINITY)
        check_bound(planner, partial, depth, least);
    return least;
}

static void the_choice_is_that_of_pricing_everything(void **state)
{
    uint32_t with_plans = 0;
    uint64_t priced = 0, strategies = 0;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct planner_case one;
        struct exhausted all = {0};
        struct search_result result;
        open_case(&one, seed);
        assert_int_equal(planner_search(one.planner, &result, NULL), WEFT_OK);
        exhaust(one.planner, NULL, STRATEGY_ALL, &all);
        assert_int_equal(result.count > 0, all.found);
        assert_int_equal(result.priced + result.unfit + result.excluded, result.strategies);
        assert_true(result.unfit <= all.unfit && result.gap == 0);
        if (all.found)
            assert_int_equal(search_plan_compare(&result.plans[0], &all.best), 0);
        with_plans += all.found;
        priced += result.priced;
        strategies += result.strategies;
        search_result_free(&result);
        close_case(&one);
    }
    assert_true(with_plans > CASES / 2 && priced < strategies / 2);
}

/* Ranks of one host sum an array in place by reading and writing as many bytes as it has. Where these take most of a step, and
 * memory is as fast as links, no bound has more. */
static void bounds_hold_where_memory_is_as_fast_as_links(void **state)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 3, .heads = 4, .width = 256, .context = 128, .vocabulary = 256};
    static const uint32_t ranks[] = {2, 3, 4, 6};
    for (size_t i = 0; i < ARRAY_SIZE(ranks); i++) {
        const struct link_parameters link = {.latency = 1e-6, .overhead = 1e-7, .bandwidth = 1e8};
        struct planner_case one = {
            .config = {.shape = shape, .sequence = 64, .gradients = WEFT_F32, .batch = 2 * ranks[i]},
            .file = {.name = "made",
                     .device_count = 1,
                     .devices = {{.memory_bytes = (uint64_t)1 << 36,
                                  .memory_bandwidth = 20e9,
                                  .flops = {1e12, 1e12, 1e12}}},
                     .level_count = 1,
                     .levels = {{.size = ranks[i]}}},
            .cluster = {.nodes = 1,
                        .ranks_per_node = ranks[i],
                        .links = {.near = link,
                                  .far = link,
                                  .copy_bandwidth = link.bandwidth,
                                  .memory_bandwidth = link.bandwidth,
                                  .cache_bytes = 32 << 20,
                                  .cores = ranks[i]}},
        };
        struct exhausted all = {0};
        one.cluster.file = &one.file;
        assert_int_equal(model_describe(&shape, &one.description, NULL), WEFT_OK);
        open_planner(&one, WEFT_F32);
        exhaust(one.planner, NULL, STRATEGY_ALL, &all);
        assert_true(all.found);
        close_case(&one);
    }
}

/* A host of `each` ranks, and one whose ranks have a share of their speed. */
static void open_two_hosts(struct planner_case *one, uint32_t each, double speed, double bandwidth, uint32_t batch)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256};
    const struct cluster_device fast = {
        .memory_bytes = (uint64_t)1 << 36, .memory_bandwidth = 20e9, .flops = {1e11, 2e11, 2e11}};
    *one = (struct planner_case){.config = {.shape = shape, .sequence = 64, .gradients = WEFT_F32, .batch = batch}};
    assert_int_equal(model_describe(&shape, &one->description, NULL), WEFT_OK);
    one->file = (struct cluster_file){
        .name = "made",
        .device_count = 2,
        .devices = {fast,
                    {.memory_bytes = fast.memory_bytes,
                     .memory_bandwidth = speed * 20e9,
                     .flops = {speed * 1e11, speed * 2e11, speed * 2e11}}},
        .group_count = 2,
        .groups = {{.hosts = 1, .ranks = each}, {.hosts = 1, .ranks = each, .device = 1}},
        .level_count = 2,
        .levels = {{.size = each}, {.size = 2}},
    };
    one->cluster = (struct cluster){.nodes = 2,
                                    .ranks_per_node = each,
                                    .links = {.near = {.latency = 1e-6, .bandwidth = 10e9},
                                              .far = {.latency = 1e-5, .bandwidth = bandwidth},
                                              .copy_bandwidth = 20e9,
                                              .memory_bandwidth = 10e9,
                                              .cache_bytes = 32 << 20,
                                              .cores = each},
                                    .file = &one->file};
    assert_int_equal(planner_cluster_open(&one->cluster, 0, NULL, &one->planned, NULL), WEFT_OK);
    one->setting = (struct planner_setting){.description = one->description,
                                            .config = &one->config,
                                            .cluster = &one->planned,
                                            .space = {.precisions = {WEFT_F32}, .precision_count = 1}};
    assert_int_equal(planner_open(&one->setting, &one->planner, NULL), WEFT_OK);
}

static double seconds_with(struct planner *planner, const struct strategy *strategy, bool shares_by_speed)
{
    struct strategy shared = *strategy;
    struct price price;
    shared.shares_by_speed = shares_by_speed;
    assert_int_equal(planner_price(planner, &shared, &price, NULL), WEFT_OK);
    return price.seconds;
}

/* A host of fast ranks and one that takes twice as long: the data axis gives it half as many micro-batches, which is faster
 * than equal shares. ZeRO-2 cannot. */
static void slow_ranks_get_fewer_micro_batches(void **state)
{
    struct planner_case one;
    struct strategy strategy = {.mesh = {{2, 1, 1}},
                                .placement = {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}},
                                .micro_batch = 2,
                                .precision = WEFT_F32,
                                .schedule = STEP_1F1B,
                                .stages = 1,
                                .shares_by_speed = true};
    uint32_t *shares;
    open_two_hosts(&one, 1, 0.5, 1e10, 24);
    assert_int_equal(planner_shares(one.planner, &strategy, &shares, NULL), WEFT_OK);
    assert_int_equal(shares[0], 8);
    assert_int_equal(shares[1], 4);
    free(shares);
    const double by_speed = seconds_with(one.planner, &strategy, true);
    assert_true(by_speed < 0.75 * seconds_with(one.planner, &strategy, false));
    strategy.zero = 2;
    assert_int_equal(planner_shares(one.planner, &strategy, &shares, NULL), WEFT_OK);
    assert_null(shares);
    assert_true(by_speed < 0.75 * seconds_with(one.planner, &strategy, true)); /* 8 rounds beside 6 slow ones: 0.67 */
    close_case(&one);
}

/* Equal shares of ZeRO-1 are summed by reduce-scatter, shares by speed are not. Over slow links that matters more than shorter
 * passes. */
static void equal_shares_are_better_over_slow_links(void **state)
{
    const struct strategy strategy = {.mesh = {{8, 1, 1}},
                                      .placement = {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}},
                                      .micro_batch = 1,
                                      .precision = WEFT_F32,
                                      .zero = 1,
                                      .schedule = STEP_1F1B,
                                      .stages = 1};
    for (int slow = 0; slow < 2; slow++) {
        struct planner_case one;
        struct strategy_list list = {0};
        uint32_t listed[2] = {0};
        open_two_hosts(&one, 4, 0.8, slow ? 1e8 : 1e10, 128);
        const double equal = seconds_with(one.planner, &strategy, false),
                     by_speed = seconds_with(one.planner, &strategy, true);
        assert_true(slow ? equal < by_speed : by_speed < equal);
        /* The search has both to choose from. */
        assert_int_equal(strategy_expand(planner_space(one.planner), &strategy, STRATEGY_SCHEDULE, &list, NULL),
                         WEFT_OK);
        for (size_t i = 0; i < list.count; i++)
            if (list.items[i].zero == 1)
                listed[list.items[i].shares_by_speed]++;
        assert_int_equal(listed[false], 1);
        assert_int_equal(listed[true], 1);
        free(list.items);
        close_case(&one);
    }
}

static weft_status measure_equal_layers(void *context, const struct strategy *strategy, double (*seconds)[COSTS_PASSES],
                                        struct error *error)
{
    const struct planner_case *one = context;
    for (size_t layer = 0; layer < one->description->layer_count; layer++)
        for (int pass = 0; pass < COSTS_PASSES; pass++)
            seconds[layer][pass] = 1e-3;
    return WEFT_OK;
}

static double sum_of_prices(struct planner *planner, const struct strategy *partial, enum strategy_depth depth)
{
    struct strategy_list children = {0};
    struct price price;
    double sum = 0;
    if (depth == STRATEGY_WHOLE) {
        assert_int_equal(planner_price(planner, partial, &price, NULL), WEFT_OK);
        return price.seconds;
    }
    assert_int_equal(strategy_expand(planner_space(planner), partial, depth, &children, NULL), WEFT_OK);
    for (size_t i = 0; i < children.count; i++)
        sum += sum_of_prices(planner, &children.items[i], (enum strategy_depth)(depth + 1));
    free(children.items);
    return sum;
}

/* Of all strategies, with measured layers. 0 cores: one for every rank. */
static double sum_on_cores(uint64_t seed, uint32_t cores_per_rank)
{
    struct planner_case one;
    open_case(&one, seed);
    planner_close(one.planner);
    one.planned.links.cores = cores_per_rank * one.planned.ranks_per_host;
    one.setting.measure = measure_equal_layers;
    one.setting.context = &one;
    assert_int_equal(planner_open(&one.setting, &one.planner, NULL), WEFT_OK);
    const double sum = sum_of_prices(one.planner, NULL, STRATEGY_ALL);
    close_case(&one);
    return sum;
}

/* Ranks of other hosts do not slow down those that have a core each. */
static void only_ranks_of_a_host_share_its_cores(void **state)
{
    for (uint64_t seed = 1; seed <= CASES / 5; seed++)
        assert_true(sum_on_cores(seed, 1) == sum_on_cores(seed, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_that_of_pricing_everything),
        cmocka_unit_test(bounds_hold_where_memory_is_as_fast_as_links),
        cmocka_unit_test(slow_ranks_get_fewer_micro_batches),
        cmocka_unit_test(equal_shares_are_better_over_slow_links),
        cmocka_unit_test(only_ranks_of_a_host_share_its_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
