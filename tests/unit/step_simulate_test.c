/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in virtual time: folded as unfolded, without links as step_play(), and with known sums where links are shared. */
#include "training/simulate/step_simulate.h"

#include "base/array.h"
#include "base/clock.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a cluster ---- */

struct test_cluster {
    struct simulated_cluster links;
    struct cluster_device devices[2];
    struct step_cluster step;
    uint32_t *hosts, *leaves, *device_of;
};

/* Hosts of `each` devices, leaves of `hosts_per_leaf` hosts. */
static void open_cluster(struct test_cluster *cluster, uint32_t ranks, uint32_t each, uint32_t hosts_per_leaf)
{
    *cluster = (struct test_cluster){
        .links = {.near = {.latency = 2e-6, .overhead = 1e-6, .bandwidth = 200e9},
                  .far = {.latency = 5e-6, .overhead = 1e-6, .bandwidth = 100e9},
                  .above = {{.latency = 7e-6, .overhead = 1e-6, .bandwidth = 150e9}},
                  .copy_bandwidth = 800e9,
                  .memory_bandwidth = 800e9,
                  .cache_bytes = 40 << 20,
                  .cores = each},
        .devices =
            {{.kind = "fast", .memory_bytes = 80e9, .memory_bandwidth = 2e12, .flops = {19.5e12, 312e12, 312e12}},
             {.kind = "slow", .memory_bytes = 32e9, .memory_bandwidth = 9e11, .flops = {15.7e12, 125e12, 125e12}}},
        .hosts = calloc(ranks, sizeof(uint32_t)),
        .leaves = calloc(ranks, sizeof(uint32_t)),
        .device_of = calloc(ranks, sizeof(uint32_t)),
    };
    for (uint32_t rank = 0; rank < ranks; rank++) {
        cluster->hosts[rank] = rank / each;
        cluster->leaves[rank / each] = rank / each / hosts_per_leaf;
    }
    cluster->step = (struct step_cluster){.links = &cluster->links,
                                          .ranks = ranks,
                                          .hosts = cluster->hosts,
                                          .above = {cluster->leaves},
                                          .devices = cluster->devices,
                                          .device_count = 2,
                                          .device_of = cluster->device_of};
}

static void close_cluster(struct test_cluster *cluster)
{
    free(cluster->hosts);
    free(cluster->leaves);
    free(cluster->device_of);
}

/* ---- strategies ---- */

struct test_strategy {
    uint32_t data, pipeline, tensor, stages, zero, micro_batches;
    enum step_pipeline schedule;
    enum model_recompute recompute;
    bool sequence_parallel;
};

static struct model_description *describe(size_t layers, size_t width, size_t heads)
{
    const struct model_shape shape = {
        .kind = "gpt", .layers = layers, .heads = heads, .width = width, .context = 128, .vocabulary = 1000};
    struct model_description *description;
    struct error error = {0};
    if (model_describe(&shape, &description, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return description;
}

static struct executor_config configure(const struct test_strategy *strategy, struct model_description *description)
{
    return (struct executor_config){
        .description = description,
        .model = {.batch = 1, .sequence = 128, .recompute = strategy->recompute},
        .mesh = {{strategy->data, strategy->pipeline, strategy->tensor}},
        .placement = {{MESH_TENSOR, MESH_DATA, MESH_PIPELINE}},
        .schedule = strategy->schedule,
        .stages = strategy->stages,
        .sequence_parallel = strategy->sequence_parallel,
        .zero = strategy->zero,
        .micro_batches = strategy->micro_batches,
        .gradients = WEFT_F32,
        .bucket_bytes = 1 << 20,
    };
}

static struct step_costs cost_with(const struct test_cluster *cluster, const struct executor_config *config,
                                   const struct model_work *work)
{
    struct step_prices *prices;
    struct step_costs costs;
    struct error error = {0};
    if (step_prices_open(&cluster->step, &prices, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    const struct step_setting setting = {
        .config = config, .precision = CLUSTER_BF16, .cluster = &cluster->step, .work = work};
    if (step_costs_of(&setting, prices, &costs, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    step_prices_close(prices);
    return costs;
}

static struct step_costs cost(const struct test_cluster *cluster, const struct executor_config *config)
{
    return cost_with(cluster, config, NULL);
}

static struct step_result simulate(const struct step_costs *costs, const struct step_options *options)
{
    struct step_result result;
    struct error error = {0};
    if (step_simulate(costs, options, &result, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return result;
}

static double sum_of_terms(const struct step_result *result)
{
    double sum = 0;
    for (uint32_t term = 0; term < STEP_TERMS; term++) {
        assert_true(result->terms[term] >= -1e-12);
        sum += result->terms[term];
    }
    return sum;
}

/* ---- tests ---- */

static const struct test_strategy strategies[] = {
    {4, 1, 1, 1, 0, 8, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false},
    {4, 1, 1, 1, 1, 10, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false},
    {8, 1, 1, 1, 2, 16, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false},
    {8, 1, 2, 1, 3, 16, STEP_1F1B, MODEL_RECOMPUTE_ALL, true},
    {1, 4, 1, 4, 0, 8, STEP_GPIPE, MODEL_RECOMPUTE_NOTHING, false},
    {1, 8, 1, 8, 0, 8, STEP_1F1B, MODEL_RECOMPUTE_ALL, false},
    {2, 4, 2, 4, 0, 16, STEP_1F1B, MODEL_RECOMPUTE_ATTENTION, true},
    {2, 4, 2, 8, 1, 16, STEP_INTERLEAVED, MODEL_RECOMPUTE_NOTHING, false},
    {3, 2, 2, 2, 1, 16, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false},
    {3, 4, 1, 4, 3, 16, STEP_ZERO_BUBBLE_H1, MODEL_RECOMPUTE_ALL, false},
    {4, 2, 4, 2, 0, 12, STEP_ZERO_BUBBLE_H1, MODEL_RECOMPUTE_NOTHING, false},
    {16, 2, 1, 2, 2, 32, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false},
    {2, 2, 8, 2, 1, 8, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, true},
};

static void compare_folded(const struct test_cluster *cluster, const struct test_strategy *strategy,
                           const struct step_perturbation *perturbation)
{
    struct model_description *description = describe(8, 64, 8);
    const struct executor_config config = configure(strategy, description);
    struct step_costs costs = cost(cluster, &config);
    const struct step_options options = {.keep_times = true, .perturbation = *perturbation},
                              unfolded_options = {.unfolded = true, .keep_times = true, .perturbation = *perturbation};
    struct step_result folded = simulate(&costs, &options), unfolded = simulate(&costs, &unfolded_options);
    assert_int_equal(unfolded.classes, costs.ranks);
    assert_true(folded.classes <= unfolded.classes);
    assert_true(folded.seconds > 0);
    assert_true(fabs(folded.seconds / unfolded.seconds - 1) < 1e-9);
    assert_true(fabs(sum_of_terms(&folded) / folded.seconds - 1) < 1e-9);
    assert_true(fabs(sum_of_terms(&unfolded) / unfolded.seconds - 1) < 1e-9);
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        assert_true(fabs(folded.bytes[level] - unfolded.bytes[level]) <= 1e-9 * unfolded.bytes[level]);
    for (uint32_t rank = 0; rank < costs.ranks; rank++) {
        const uint32_t class = folded.class_of[rank], own = unfolded.class_of[rank],
                       pipeline = folded.pipeline_of[class];
        assert_int_equal(pipeline, unfolded.pipeline_of[own]);
        for (size_t i = 0; i < folded.schedules[pipeline].count; i++) {
            assert_true(fabs(folded.begin[class][i] - unfolded.begin[own][i]) <= 1e-9 * folded.seconds);
            assert_true(fabs(folded.end[class][i] - unfolded.end[own][i]) <= 1e-9 * folded.seconds);
        }
    }
    step_result_free(&folded);
    step_result_free(&unfolded);
    step_costs_free(&costs);
    model_description_free(description);
}

/* Costs are the same with work that the caller has recorded. */
static void work_may_be_recorded_before(void **state)
{
    struct test_cluster cluster;
    open_cluster(&cluster, 32, 4, 2);
    for (size_t i = 0; i < ARRAY_SIZE(strategies); i++) {
        struct model_description *description = describe(8, 64, 8), *divided;
        const struct executor_config config = configure(&strategies[i], description);
        const struct work_settings settings = {.implementation = implementation_weft(CLUSTER_BF16),
                                               .batch = config.model.batch,
                                               .sequence = config.model.sequence,
                                               .divides_rows = config.sequence_parallel,
                                               .recompute = config.model.recompute};
        struct model_work *work;
        assert_int_equal(model_description_copy(description, &divided, NULL), WEFT_OK);
        assert_int_equal(model_divide(divided, strategies[i].tensor, 0, NULL), WEFT_OK);
        assert_int_equal(model_work_open(divided, &settings, &work, NULL), WEFT_OK);
        struct step_costs here = cost(&cluster, &config), before = cost_with(&cluster, &config, work);
        const size_t units = here.units, tensors = here.class_count[MESH_TENSOR] * units * WORK_PASSES,
                     datas = here.class_count[MESH_DATA] * units;
        assert_memory_equal(before.layers, here.layers, 2 * units * sizeof *here.layers);
        assert_memory_equal(before.first_unit, here.first_unit, (here.shape.stages + 1) * sizeof *here.first_unit);
        assert_memory_equal(before.within, here.within, tensors * sizeof *here.within);
        assert_memory_equal(before.gathers, here.gathers, datas * sizeof *here.gathers);
        assert_memory_equal(before.reductions, here.reductions, datas * sizeof *here.reductions);
        assert_memory_equal(before.sharings, here.sharings, datas * sizeof *here.sharings);
        assert_memory_equal(before.messages, here.messages, sizeof here.messages);
        assert_memory_equal(before.ties, here.ties, sizeof here.ties);
        step_costs_free(&here);
        step_costs_free(&before);
        model_work_close(work);
        model_description_free(divided);
        model_description_free(description);
    }
    close_cluster(&cluster);
}

static void folded_equals_unfolded(void **state)
{
    static const uint32_t each[] = {1, 2, 4, 8};
    for (size_t e = 0; e < ARRAY_SIZE(each); e++)
        for (size_t i = 0; i < ARRAY_SIZE(strategies); i++) {
            struct test_cluster cluster;
            open_cluster(&cluster, 32, each[e], 2);
            compare_folded(&cluster, &strategies[i], &(struct step_perturbation){0});
            compare_folded(&cluster, &strategies[i], &(struct step_perturbation){.slow_rank = 1, .slow_factor = 2});
            compare_folded(&cluster, &strategies[i],
                           &(struct step_perturbation){.degraded_share = 0.25, .reading = 1e10});
            compare_folded(&cluster, &strategies[i],
                           &(struct step_perturbation){.degraded_share = 0.25, .degraded_level = 1, .writing = 1e10});
            cluster.links.interfaces = 2;
            compare_folded(&cluster, &strategies[i], &(struct step_perturbation){0});
            cluster.device_of[3] = 1; /* a slow device */
            cluster.step.overlap_slowdown = 0.2;
            compare_folded(&cluster, &strategies[i], &(struct step_perturbation){0});
            close_cluster(&cluster);
        }
}

static double play_duration(void *context, const struct step_operation *operation)
{
    const struct step_costs *costs = context;
    const struct step_unit_costs *layer = &costs->layers[operation->unit == STEP_NONE ? 0 : operation->unit];
    switch (operation->kind) {
    case OPERATION_FORWARD:
        return layer->passes[WORK_FORWARD];
    case OPERATION_BACKWARD_INPUT:
        return layer->passes[WORK_BACKWARD_INPUT];
    case OPERATION_BACKWARD_WEIGHTS:
        return layer->passes[WORK_BACKWARD_WEIGHTS];
    case OPERATION_UPDATE:
        return layer->update;
    case OPERATION_SEND_OUTPUT:
    case OPERATION_SEND_GRADIENT:
        return costs->messages[1].seconds;
    default:
        return 0;
    }
}

/* Without shared links, collectives and the norm's sums, both players agree. */
static void pipelines_are_those_of_step_play(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(strategies); i++) {
        struct test_strategy strategy = strategies[i];
        struct test_cluster cluster;
        struct step_times times;
        struct error error = {0};
        struct step_schedule schedules[8];
        if (strategy.data * strategy.tensor > 1 || strategy.recompute != MODEL_RECOMPUTE_NOTHING)
            strategy.data = strategy.tensor = 1;
        strategy.zero = 0;
        strategy.recompute = MODEL_RECOMPUTE_NOTHING;
        strategy.sequence_parallel = false;
        open_cluster(&cluster, strategy.pipeline, 1, 8);
        struct model_description *description = describe(8, 64, 8);
        const struct executor_config config = configure(&strategy, description);
        struct step_costs costs = cost(&cluster, &config);
        memset(costs.norms, 0, 2 * costs.shape.pipeline * sizeof *costs.norms);
        memset(costs.ties, 0, sizeof costs.ties);
        costs.norm = (struct step_transfer){0};
        struct step_result result = simulate(&costs, &(struct step_options){.keep_times = true});
        for (uint32_t p = 0; p < strategy.pipeline; p++)
            assert_int_equal(step_write(&costs.shape, p, &schedules[p], &error), WEFT_OK);
        assert_int_equal(step_play(&costs.shape, schedules, play_duration, &costs, &times, &error), WEFT_OK);
        assert_true(fabs(result.seconds / times.seconds - 1) < 1e-9);
        for (uint32_t p = 0; p < strategy.pipeline; p++)
            step_free(&schedules[p]);
        step_times_free(&costs.shape, &times);
        step_result_free(&result);
        step_costs_free(&costs);
        model_description_free(description);
        close_cluster(&cluster);
    }
}

/* The first operation of a kind that a rank executes. */
static size_t find_operation(const struct step_result *result, uint32_t rank, enum step_operation_kind kind)
{
    const struct step_schedule *schedule = &result->schedules[result->pipeline_of[result->class_of[rank]]];
    size_t number = 0;
    while (schedule->operations[number].kind != kind)
        number++;
    return number;
}

/* Two stages on two hosts of four ranks: messages of all copies of the pipeline want to leave their host at the same time. Those
 * of an interface leave one after the other. */
static void messages_take_turns_at_interfaces(void **state)
{
    static const struct {
        uint32_t interfaces;
        double background, shares; /* of a host's bandwidth: a message alone gets one of so many */
    } cases[] = {{1, 0, 1}, {2, 0, 2}, {4, 0, 4}, {1, 50e9, 2}, {4, 75e9, 16}};
    const struct test_strategy strategy = {4, 2, 1, 2, 0, 8, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct test_cluster cluster;
        open_cluster(&cluster, 8, 4, 2);
        cluster.links.interfaces = cases[i].interfaces;
        cluster.links.far.latency = cluster.links.far.overhead = 0;
        struct model_description *description = describe(8, 64, 8);
        const struct executor_config config = configure(&strategy, description);
        struct step_costs costs = cost(&cluster, &config);
        const double bytes = costs.messages[1].bytes[1];
        costs.messages[1].seconds = bytes / (100e9 / cases[i].interfaces);
        const struct step_options options = {
            .keep_times = true, .perturbation = {.reading = cases[i].background, .writing = cases[i].background}};
        struct step_result result = simulate(&costs, &options);
        assert_true(bytes > 0);
        for (uint32_t rank = 0; rank < 4; rank++) {
            const uint32_t class = result.class_of[rank];
            const size_t send = find_operation(&result, rank, OPERATION_SEND_OUTPUT);
            const double taken = result.end[class][send] - result.begin[class][send];
            const uint32_t turn = rank % (4 / cases[i].interfaces);
            assert_true(fabs(taken / ((turn + 1) * cases[i].shares * bytes / 100e9) - 1) < 1e-6);
        }
        assert_true(result.bytes[1] >= 2 * 8 * bytes);
        step_result_free(&result);
        step_costs_free(&costs);
        model_description_free(description);
        close_cluster(&cluster);
    }
}

/* What a group's collectives send from each host passes the interfaces of its ranks there, and nothing else does. */
static void collectives_move_their_bytes(void **state)
{
    const struct test_strategy strategy = {8, 1, 1, 1, 0, 16, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false};
    for (uint32_t each = 1; each <= 4; each *= 2)
        for (uint32_t interfaces = 1; interfaces <= each; interfaces *= 2) {
            struct test_cluster cluster;
            double expected = 0;
            open_cluster(&cluster, 8, each, 8);
            cluster.links.interfaces = interfaces;
            struct model_description *description = describe(8, 64, 8);
            const struct executor_config config = configure(&strategy, description);
            struct step_costs costs = cost(&cluster, &config);
            for (uint32_t unit = 0; unit < costs.units; unit++)
                expected += costs.reductions[unit].bytes[1] * (8 / each);
            struct step_result result = simulate(&costs, &(struct step_options){0});
            assert_true(expected > 0);
            assert_true(fabs(result.bytes[1] / expected - 1) < 1e-9);
            assert_true(result.peak[1] > 0 && result.peak[1] < 1);
            step_result_free(&result);
            step_costs_free(&costs);
            model_description_free(description);
            close_cluster(&cluster);
        }
}

/* Under ZeRO-2 each round's gradients move, those of a last round without all ranks in another way; then new weights. */
static void a_last_round_without_all_ranks_moves_its_bytes(void **state)
{
    for (uint32_t micro_batches = 8; micro_batches <= 11; micro_batches++) {
        const struct test_strategy strategy = {4, 1, 1, 1, 2, micro_batches, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false};
        struct test_cluster cluster;
        double whole = 0, last = 0, shared = 0;
        open_cluster(&cluster, 4, 2, 2);
        struct model_description *description = describe(4, 128, 8);
        const struct executor_config config = configure(&strategy, description);
        struct step_costs costs = cost(&cluster, &config);
        assert_int_equal(costs.last_reductions != NULL, micro_batches % 4 > 0);
        for (uint32_t unit = 0; unit < costs.units; unit++) {
            whole += costs.reductions[unit].bytes[1];
            last += costs.last_reductions ? costs.last_reductions[unit].bytes[1] : 0;
            shared += costs.sharings[unit].bytes[1];
        }
        struct step_result result = simulate(&costs, &(struct step_options){0});
        assert_true(whole > 0 && last != whole);
        assert_true(fabs(result.bytes[1] / (2 * (2 * whole + last + shared)) - 1) < 1e-9);
        step_result_free(&result);
        step_costs_free(&costs);
        model_description_free(description);
        close_cluster(&cluster);
    }
}

/* Passes of 1 s, and 0.5 s for the new weights of each unit: all of them at the end of a step, or only those of the first
 * unit before the passes of the next one. */
static void new_weights_move_while_the_next_step_passes(void **state)
{
    for (uint32_t zero = 1; zero <= 2; zero++) {
        const struct test_strategy strategy = {2, 1, 1, 1, zero, 8, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, false};
        struct test_cluster cluster;
        open_cluster(&cluster, 2, 1, 2);
        struct model_description *description = describe(8, 64, 8);
        const struct executor_config config = configure(&strategy, description);
        struct step_costs costs = cost(&cluster, &config);
        memset(costs.norms, 0, 2 * costs.shape.pipeline * sizeof *costs.norms);
        costs.norm = (struct step_transfer){0};
        for (uint32_t unit = 0; unit < costs.units; unit++) {
            costs.layers[unit] = costs.layers[costs.units + unit] = (struct step_unit_costs){.passes = {1, 1, 1}};
            costs.sharings[unit] = (struct step_transfer){.seconds = 0.5};
            costs.reductions[unit] = (struct step_transfer){0};
        }
        const double passes = 3.0 * costs.units * costs.shape.micro_batches;
        struct step_result next = simulate(&costs, &(struct step_options){0});
        costs.shape.shares_within = true;
        struct step_result within = simulate(&costs, &(struct step_options){0});
        assert_float_equal(next.seconds, passes + 0.5, 1e-9);
        assert_float_equal(within.seconds, passes + 0.5 * costs.units, 1e-9);
        step_result_free(&next);
        step_result_free(&within);
        step_costs_free(&costs);
        model_description_free(description);
        close_cluster(&cluster);
    }
}

static void perturbations_slow_a_step(void **state)
{
    struct test_cluster cluster;
    open_cluster(&cluster, 32, 8, 2);
    struct model_description *description = describe(8, 64, 8);
    const struct executor_config config = configure(&strategies[6], description);
    struct step_costs costs = cost(&cluster, &config);
    const struct step_perturbation perturbations[] = {
        {.slow_rank = 5, .slow_factor = 1.5},
        {.jitter = 0.2, .seed = 3},
    };
    struct step_result plain = simulate(&costs, &(struct step_options){0});
    for (size_t i = 0; i < ARRAY_SIZE(perturbations); i++) {
        struct step_result one = simulate(&costs, &(struct step_options){.perturbation = perturbations[i]}),
                           same = simulate(&costs, &(struct step_options){.perturbation = perturbations[i]});
        assert_true(one.seconds > plain.seconds);
        assert_true(one.seconds == same.seconds);
        step_result_free(&one);
        step_result_free(&same);
    }
    struct error error = {0};
    struct step_result refused;
    assert_int_equal(step_simulate(&costs, &(struct step_options){.perturbation = {.slow_rank = 99, .slow_factor = 2}},
                                   &refused, &error),
                     WEFT_ERROR_ARGUMENT);
    assert_string_equal(error.text, "there is no rank 99 to slow down: the mesh has 16 ranks");
    step_result_free(&plain);
    step_costs_free(&costs);
    model_description_free(description);
    close_cluster(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_equals_unfolded),
        cmocka_unit_test(pipelines_are_those_of_step_play),
        cmocka_unit_test(messages_take_turns_at_interfaces),
        cmocka_unit_test(collectives_move_their_bytes),
        cmocka_unit_test(a_last_round_without_all_ranks_moves_its_bytes),
        cmocka_unit_test(perturbations_slow_a_step),
        cmocka_unit_test(work_may_be_recorded_before),
        cmocka_unit_test(new_weights_move_while_the_next_step_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
