/* SPDX-License-Identifier: Apache-2.0 */
/* The space of strategies is what weft train executes, neither more nor less; the search finds its best. */
#include "base/random.h"
#include "training/plan/search.h"
#include "training/train/loop/parallel_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct space_case {
    const char *model;
    uint32_t ranks, batch;
};

static void open_space(const struct space_case *one, struct strategy_space *space)
{
    struct model_shape shape;
    struct model_description *description;
    assert_int_equal(model_shape_find(one->model, &shape, NULL), WEFT_OK);
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    *space = (struct strategy_space){.description = description,
                                     .batch = one->batch,
                                     .sequence = (uint32_t)shape.context,
                                     .ranks_least = one->ranks,
                                     .ranks_most = one->ranks,
                                     .hosts_from = 2,
                                     .precisions = {WEFT_F32, WEFT_BF16},
                                     .precision_count = 2,
                                     .buckets = {1 << 20, 4 << 20},
                                     .bucket_count = 2};
    assert_int_equal(strategy_space_open(space, NULL), WEFT_OK);
}

static void close_space(struct strategy_space *space)
{
    model_description_free((struct model_description *)(uintptr_t)space->description);
    strategy_space_close(space);
}

/* All strategies that complete `partial`. */
static void list_whole(const struct strategy_space *space, const struct strategy *partial, enum strategy_depth depth,
                       struct strategy_list *whole)
{
    struct strategy_list children = {0};
    const size_t before = whole->count;
    assert_int_equal(strategy_expand(space, partial, depth, &children, NULL), WEFT_OK);
    for (size_t i = 0; i < children.count; i++)
        if (depth + 1 < (int)STRATEGY_WHOLE)
            list_whole(space, &children.items[i], (enum strategy_depth)(depth + 1), whole);
    if (depth + 1 == (int)STRATEGY_WHOLE) {
        assert_int_equal(ARRAY_RESERVE(whole->items, whole->room, whole->count + children.count, "", NULL), WEFT_OK);
        for (size_t i = 0; i < children.count; i++)
            whole->items[whole->count++] = children.items[i];
    }
    free(children.items);
    assert_int_equal(whole->count - before, strategy_count(space, partial, depth));
}

static bool is_listed(const struct strategy_list *whole, const struct strategy *strategy)
{
    for (size_t i = 0; i < whole->count; i++)
        if (whole->items[i].micro_batch == strategy->micro_batch && strategy_compare(&whole->items[i], strategy) == 0)
            return true;
    return false;
}

static bool train_accepts(const struct strategy_space *space, const struct strategy *strategy,
                          struct parallel_choice *choice)
{
    struct strategy_words words;
    struct train_config config = {.batch = space->batch, .sequence = space->sequence, .gradients = WEFT_F32};
    strategy_configure(strategy, &words, &config);
    return parallel_choice_of(&config, space->description, mesh_ranks(&strategy->mesh), choice, NULL) == WEFT_OK;
}

static void listed_strategies_run(const struct strategy_space *space, const struct strategy_list *whole)
{
    struct parallel_choice choice;
    for (size_t i = 0; i < whole->count; i++) {
        const struct strategy *strategy = &whole->items[i];
        assert_true(train_accepts(space, strategy, &choice));
        assert_int_equal(choice.stages, strategy->stages * strategy->mesh.extent[MESH_PIPELINE]);
        assert_int_equal(choice.zero, strategy->zero);
        assert_int_equal(choice.schedule, strategy->schedule);
    }
}

/* Once for each strategy of equal shares that keeps gradients until the end, but for other buckets. */
static void shares_by_speed_are_listed(const struct strategy_space *space, const struct strategy_list *whole)
{
    for (size_t i = 0; i < whole->count; i++) {
        struct strategy other = whole->items[i];
        const bool may = space->speeds_differ && other.mesh.extent[MESH_DATA] > 1 && other.zero < 2 &&
                         other.schedule != STEP_INTERLEAVED;
        other.shares_by_speed = !other.shares_by_speed;
        assert_int_equal(is_listed(whole, &other), may);
    }
}

/* Everything that weft train accepts, as the strategy that is listed for the same run. */
static void accepted_strategies_are_listed(const struct strategy_space *space, const struct strategy_list *whole)
{
    struct strategy all = {.bucket_bytes = space->buckets[0], .precision = WEFT_F32};
    struct parallel_choice choice;
    const uint32_t ranks = space->ranks_most;
    uint32_t *extent = all.mesh.extent, accepted = 0;
    for (extent[MESH_PIPELINE] = 1; extent[MESH_PIPELINE] <= ranks; extent[MESH_PIPELINE]++)
        for (extent[MESH_TENSOR] = 1; extent[MESH_PIPELINE] * extent[MESH_TENSOR] <= ranks; extent[MESH_TENSOR]++)
            for (all.micro_batch = 1; all.micro_batch <= space->batch; all.micro_batch++)
                for (all.schedule = STEP_GPIPE; all.schedule < STEP_EVALUATION; all.schedule++)
                    for (all.stages = 1; all.stages <= 4; all.stages++)
                        for (all.zero = 0; all.zero < 4; all.zero++)
                            for (int parallel = 0; parallel < 2; parallel++) {
                                all.sequence_parallel = parallel;
                                all.placement = whole->items[0].placement;
                                extent[MESH_DATA] = ranks / extent[MESH_PIPELINE] / extent[MESH_TENSOR];
                                if (mesh_ranks(&all.mesh) != ranks || !train_accepts(space, &all, &choice))
                                    continue;
                                struct strategy same = all;
                                same.zero = choice.zero;
                                same.schedule = choice.schedule;
                                same.stages = choice.stages / extent[MESH_PIPELINE];
                                if (same.stages == 1 && same.schedule == STEP_INTERLEAVED)
                                    same.schedule = STEP_1F1B; /* the same order */
                                assert_true(is_listed(whole, &same));
                                accepted++;
                            }
    assert_true(accepted > 0);
}

static void the_space_is_what_runs(void **state)
{
    static const struct space_case cases[] = {
        {"gpt-nano", 1, 4}, {"gpt-nano", 4, 8}, {"gpt-nano", 8, 12}, {"llama-micro", 6, 6}, {"mlp-micro", 4, 4},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct strategy_space space;
        struct strategy_list whole = {0};
        open_space(&cases[i], &space);
        space.precision_count = space.bucket_count = 1;
        space.speeds_differ = i % 2; /* each run is listed with equal shares in any case */
        list_whole(&space, NULL, STRATEGY_ALL, &whole);
        shares_by_speed_are_listed(&space, &whole);
        listed_strategies_run(&space, &whole);
        accepted_strategies_are_listed(&space, &whole);
        for (size_t a = 0; a < whole.count; a++)
            for (size_t b = 0; b < a; b++)
                assert_int_not_equal(strategy_compare(&whole.items[a], &whole.items[b]), 0);
        free(whole.items);
        close_space(&space);
    }
}

/* ---- the search, on random costs ---- */

/* Every choice adds a random cost, in multiples of a quarter, so there are ties; what is not chosen yet costs nothing. */
struct random_costs {
    uint64_t seed, priced;
};

static double random_cost(uint64_t seed, uint64_t what, uint64_t below)
{
    return (double)random_below(seed, what, below) / 4;
}

static double cost_to_depth(uint64_t seed, const struct strategy *s, enum strategy_depth depth)
{
    double cost = 1;
    if (depth >= STRATEGY_MESH)
        cost += random_cost(seed, s->mesh.extent[MESH_PIPELINE] * 1009 + s->mesh.extent[MESH_TENSOR], 40) +
                random_cost(seed + 6, s->placement.order[0] * 99 + s->placement.order[1] * 9, 4);
    if (depth >= STRATEGY_PASSES)
        cost += random_cost(seed + 1,
                            s->recompute_layers * 4096 + s->micro_batch * 64 + s->recompute * 8 + s->precision * 2 +
                                s->sequence_parallel,
                            20);
    if (depth >= STRATEGY_SCHEDULE)
        cost += random_cost(seed + 2, s->schedule * 64 + s->stages, 20);
    if (depth >= STRATEGY_WHOLE)
        cost += random_cost(seed + 3, s->zero * 512 + s->bucket_bytes, 8);
    return cost;
}

static weft_status random_bound(void *context, const struct strategy *partial, enum strategy_depth depth,
                                enum search_effort effort, double *seconds, struct error *error)
{
    static const double shares[] = {[SEARCH_QUICK] = 0.5, [SEARCH_CLOSE] = 0.9, [SEARCH_TIGHT] = 1};
    const struct random_costs *costs = context;
    *seconds = cost_to_depth(costs->seed, partial, depth) * shares[effort];
    return WEFT_OK;
}

static bool random_exceeds(uint64_t seed, const struct strategy *s)
{
    return random_below(seed + 4, s->mesh.extent[MESH_DATA] * 100 + s->zero * 10 + s->recompute, 3) == 0;
}

static weft_status random_excess(void *context, const struct strategy *partial, enum strategy_depth depth, bool exact,
                                 uint64_t *bytes, struct error *error)
{
    const struct random_costs *costs = context;
    *bytes = depth == STRATEGY_WHOLE && exact && random_exceeds(costs->seed, partial) ? 1 : 0;
    return WEFT_OK;
}

static weft_status always_exceeds(void *context, const struct strategy *partial, enum strategy_depth depth, bool exact,
                                  uint64_t *bytes, struct error *error)
{
    *bytes = depth == STRATEGY_WHOLE && exact ? 1 + partial->zero : 0;
    return WEFT_OK;
}

static weft_status random_price(void *context, const struct strategy *strategy, struct price *price,
                                struct error *error)
{
    struct random_costs *costs = context;
    costs->priced++;
    price->seconds = cost_to_depth(costs->seed, strategy, STRATEGY_WHOLE);
    price->bytes[1] = (double)random_below(costs->seed + 5, strategy->micro_batch + strategy->zero, 4);
    return WEFT_OK;
}

/* The best of all, without bounds; how many do not fit. */
static uint64_t exhaust(struct random_costs *costs, const struct strategy_list *whole, struct search_plan *best)
{
    uint64_t unfit = 0;
    bool found = false;
    for (size_t i = 0; i < whole->count; i++) {
        struct search_plan plan = {.strategy = whole->items[i]};
        if (random_exceeds(costs->seed, &plan.strategy)) {
            unfit++;
            continue;
        }
        random_price(costs, &plan.strategy, &plan.price, NULL);
        if (!found || search_plan_compare(&plan, best) < 0)
            *best = plan;
        found = true;
    }
    return unfit;
}

static void the_search_finds_the_best(void **state)
{
    static const struct space_case one = {"gpt-micro", 8, 12};
    struct strategy_space space;
    struct strategy_list whole = {0};
    open_space(&one, &space);
    list_whole(&space, NULL, STRATEGY_ALL, &whole);
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct random_costs costs = {.seed = seed * 100};
        const struct search_problem problem = {
            .space = &space, .context = &costs, .bound = random_bound, .excess = random_excess, .price = random_price};
        struct search_result result;
        struct search_plan best;
        assert_int_equal(search_run(&problem, &result, NULL), WEFT_OK);
        const uint64_t unfit = exhaust(&costs, &whole, &best);
        assert_int_equal(result.strategies, whole.count);
        assert_int_equal(result.priced + result.unfit + result.excluded, whole.count);
        assert_true(result.unfit <= unfit && result.gap == 0 && result.priced < whole.count / 2);
        assert_int_equal(search_plan_compare(&result.plans[0], &best), 0);
        search_result_free(&result);
    }
    free(whole.items);
    close_space(&space);
}

static void nothing_fits_is_no_plan(void **state)
{
    static const struct space_case one = {"gpt-nano", 2, 2};
    struct strategy_space space;
    struct search_result result;
    struct random_costs costs = {0};
    open_space(&one, &space);
    const struct search_problem problem = {
        .space = &space, .context = &costs, .bound = random_bound, .excess = always_exceeds, .price = random_price};
    assert_int_equal(search_run(&problem, &result, NULL), WEFT_OK);
    assert_true(result.count == 0 && result.unfit == result.strategies);
    assert_true(result.least_excess == 1 && result.least_depth == STRATEGY_WHOLE && result.least_excessive.zero == 0);
    search_result_free(&result);
    close_space(&space);
}

static void an_early_end_leaves_a_gap(void **state)
{
    static const struct space_case one = {"gpt-nano", 2, 2};
    struct strategy_space space;
    struct search_result result;
    struct random_costs costs = {0};
    open_space(&one, &space);
    const struct search_problem problem = {.space = &space,
                                           .context = &costs,
                                           .bound = random_bound,
                                           .excess = random_excess,
                                           .price = random_price,
                                           .prices_most = 1};
    assert_int_equal(search_run(&problem, &result, NULL), WEFT_OK);
    assert_true(result.priced == 1 && (result.gap > 0 || result.excluded > 0));
    search_result_free(&result);
    close_space(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_space_is_what_runs),
        cmocka_unit_test(the_search_finds_the_best),
        cmocka_unit_test(nothing_fits_is_no_plan),
        cmocka_unit_test(an_early_end_leaves_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
