/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps on a tensor axis: close to steps on one rank, gradient by gradient and loss by loss; and the same bits on every
 * mesh with that axis, under any placement, on any nodes.
 */
#include "../bert_support.h"
#include "../world.h"
#include "training/parallel/execute/executor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BATCH         2
#define SEQUENCE      8
#define TOKENS        (BATCH * SEQUENCE)
#define VOCABULARY    301 /* ranks have different parts */
#define MICRO_BATCHES 5
#define EVALUATED     3
#define STEPS_MOST    30
#define RANKS_MOST    8

/* ---- settings ---- */

static const struct model_shape networks[] = {
    {.kind = "gpt", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "llama", .layers = 2, .heads = 4, .kv_heads = 2, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "llama",
     .layers = 2,
     .heads = 4,
     .kv_heads = 4,
     .width = 32,
     .context = 12,
     .vocabulary = VOCABULARY,
     .untied = true},
    {.kind = "mlp", .layers = 3, .width = 16, .window = 3, .hidden = 64, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "bert", .layers = 2, .heads = 4, .width = 32, .context = 12, .vocabulary = VOCABULARY, .classes = 3},
};

static const struct precision {
    const char *device;
    weft_type gradients;
    double loss, gradient; /* largest relative differences from one rank */
} precisions[] = {{"cpu", WEFT_F32, 1e-5, 1e-4},
                  {"cpu-bf16", WEFT_F32, 2e-2, 5e-2},
                  {"cpu-bf16", WEFT_BF16, 2e-2, 5e-2},
                  {"cpu-f16", WEFT_F32, 2e-2, 5e-2}};

struct settings {
    const struct model_shape *network;
    const struct precision *precision;
    uint32_t data, pipeline, tensor, zero;
    bool sequence_parallel;
    enum step_pipeline schedule;
    enum model_recompute recompute;
    const char *placement; /* NULL: tensor closest */
    bool in_turns;         /* ranks alternate between two nodes */
    enum optimizer_kind optimizer;
    unsigned steps;
    double dropout, smoothing;
};

/* ---- a run ---- */

/* What a run leaves, of the whole network. */
struct outcome {
    const struct settings *settings;
    struct model_description *whole;
    pthread_mutex_t lock;
    float *values, *first_moments; /* flat arrays; NAN: no rank has it */
    double losses[STEPS_MOST], norms[STEPS_MOST], evaluated;
};

/* Tokens are functions of their numbers. */
static weft_status read_tokens(void *context, uint64_t number, const struct model_arrays *arrays, struct error *error)
{
    number %= 10;          /* few, so that they are learnt */
    if (arrays->lengths) { /* a BERT */
        bert_arrays_fill(arrays, 1000 * number, BATCH, SEQUENCE, VOCABULARY, 0);
        return WEFT_OK;
    }
    for (uint64_t i = 0; i < TOKENS; i++) {
        if (arrays->tokens)
            arrays->tokens[i] = (int32_t)((number * 7919 + i * i * 31 + 5) % VOCABULARY);
        if (arrays->targets)
            arrays->targets[i] = (int32_t)((number * 104729 + i * 57 + 11) % VOCABULARY);
    }
    return WEFT_OK;
}

/* Store elements that another rank may have stored: then they must have the same bits. */
static bool store_same(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!isnan(to[i]) && memcmp(&to[i], &from[i], sizeof *to) != 0)
            return false;
        to[i] = from[i];
    }
    return true;
}

/* This rank's slices, element by element at their places in the whole network. */
static bool collect_state(struct outcome *outcome, struct executor *executor,
                          const struct model_description *description)
{
    bool same = true;
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        if (!group->count)
            continue;
        const struct value_slice slice = value_groups_slice(executor_values(executor), g);
        for (size_t p = group->parameter; p < group->parameter + group->parameter_count; p++)
            for (size_t r = 0; r < model_range_count(description, p); r++) {
                const struct model_range range = model_get_range(description, p, r);
                const size_t begin = description->parameters[p].offset - group->offset + range.local;
                const size_t first = begin > slice.first ? begin : slice.first, end = begin + range.count,
                             last = end < slice.first + slice.count ? end : slice.first + slice.count;
                if (first >= last)
                    continue;
                const size_t to = outcome->whole->parameters[p].offset + range.first + (first - begin);
                same =
                    same && store_same(outcome->values + to, slice.values + (first - slice.first), last - first) &&
                    store_same(outcome->first_moments + to, slice.first_moments + (first - slice.first), last - first);
            }
    }
    return same;
}

static struct executor_config config_of(const struct settings *settings, weft_context *context)
{
    struct executor_config config = {
        .context = context,
        .comm = weft_world(context),
        .model = {.batch = BATCH,
                  .sequence = SEQUENCE,
                  .recompute = settings->recompute,
                  .dropout = settings->dropout,
                  .label_smoothing = settings->smoothing},
        .optimizer =
            {.kind = settings->optimizer, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .momentum = 0.9, .trust = 1},
        .clip = settings->steps > 1 ? 0.5 : 0,
        .mesh = {.extent = {[MESH_DATA] = settings->data,
                            [MESH_PIPELINE] = settings->pipeline,
                            [MESH_TENSOR] = settings->tensor}},
        .schedule = settings->schedule,
        .sequence_parallel = settings->sequence_parallel,
        .zero = settings->zero,
        .micro_batches = MICRO_BATCHES,
        .gradients = settings->precision->gradients,
        .bucket_bytes = 20000,
    };
    return config;
}

static int run_steps(weft_context *context, int rank, struct executor *executor, struct outcome *outcome)
{
    const struct executor_input input = {.read = read_tokens, .seed = 9};
    struct error error = {0};
    for (unsigned step = 0; step < outcome->settings->steps; step++) {
        struct executor_result result;
        if (executor_step(executor, &input, step + 1, 2e-3, &result, &error) != WEFT_OK)
            fprintf(stderr, "%s\n", error.text);
        CHECK(error.status == WEFT_OK);
        pthread_mutex_lock(&outcome->lock);
        const bool same = !outcome->losses[step] ||
                          (outcome->losses[step] == result.loss && outcome->norms[step] == result.gradient_norm);
        outcome->losses[step] = result.loss;
        outcome->norms[step] = result.gradient_norm;
        pthread_mutex_unlock(&outcome->lock);
        CHECK(same);
    }
    struct executor_scores scores;
    bool stopped;
    CHECK(executor_evaluate(executor, &input, 1000, EVALUATED, &scores, &stopped, &error) == WEFT_OK);
    pthread_mutex_lock(&outcome->lock);
    const bool same = !outcome->evaluated || outcome->evaluated == scores.loss;
    outcome->evaluated = scores.loss;
    pthread_mutex_unlock(&outcome->lock);
    CHECK(same && !stopped);
    return 0;
}

static int run_rank(weft_context *context, int rank, void *argument)
{
    struct outcome *outcome = argument;
    const struct settings *settings = outcome->settings;
    struct executor_config config = config_of(settings, context);
    struct executor *executor;
    struct error error = {0};
    bool speaks;
    CHECK(device_open(settings->precision->device, 1, &config.device, &error) == WEFT_OK);
    CHECK(device_open("cpu-bf16", 1, &config.sums, &error) == WEFT_OK);
    CHECK(model_describe(settings->network, &config.description, &error) == WEFT_OK);
    CHECK(mesh_placement_parse(settings->placement ? settings->placement : "tensor,data,pipeline", &config.placement,
                               &error) == WEFT_OK);
    if (executor_open(&config, &executor, &speaks, &error) != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(error.status == WEFT_OK);
    float *values = calloc(config.description->elements, sizeof *values);
    CHECK(model_initialize(config.description, config.device, values, 3, &error) == WEFT_OK);
    for (uint32_t g = 0; g < config.description->group_count; g++)
        if (config.description->groups[g].count)
            value_groups_store(executor_values(executor), g, values + config.description->groups[g].offset);
    free(values);
    if (run_steps(context, rank, executor, outcome))
        return 1;
    pthread_mutex_lock(&outcome->lock);
    const bool same = collect_state(outcome, executor, config.description);
    pthread_mutex_unlock(&outcome->lock);
    CHECK(same);
    executor_close(executor);
    model_description_free(config.description);
    config.device->close(config.device);
    config.sums->close(config.sums);
    return 0;
}

static void outcome_run(const struct settings *settings, struct outcome *outcome)
{
    static const int in_turns[RANKS_MOST] = {0, 1, 0, 1, 0, 1, 0, 1};
    const struct world world = {.ranks = (int)(settings->data * settings->pipeline * settings->tensor),
                                .node_of = settings->in_turns ? in_turns : NULL};
    struct error error = {0};
    *outcome = (struct outcome){.settings = settings, .lock = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(model_describe(settings->network, &outcome->whole, &error), WEFT_OK);
    outcome->values = malloc(outcome->whole->elements * sizeof(float));
    outcome->first_moments = malloc(outcome->whole->elements * sizeof(float));
    for (size_t i = 0; i < outcome->whole->elements; i++)
        outcome->values[i] = outcome->first_moments[i] = NAN;
    if (world_run(&world, run_rank, outcome) != 0)
        fail_msg("%s %s, data %u, pipeline %u, tensor %u, ZeRO-%u", settings->network->kind,
                 settings->precision->device, settings->data, settings->pipeline, settings->tensor, settings->zero);
}

static void outcome_free(struct outcome *outcome)
{
    model_description_free(outcome->whole);
    free(outcome->values);
    free(outcome->first_moments);
}

static struct settings settings_of(size_t network, size_t precision)
{
    return (struct settings){.network = &networks[network],
                             .precision = &precisions[precision],
                             .data = 1,
                             .pipeline = 1,
                             .tensor = 1,
                             .schedule = STEP_1F1B,
                             .steps = 3,
                             .dropout = network % 2 ? 0.1 : 0,
                             .smoothing = network % 3 ? 0 : 0.1};
}

/* ---- tests ---- */

static double relative_difference(double a, double b)
{
    return fabs(a - b) / fabs(b);
}

/* The first moments of sgd after one step are the gradient. */
static void compare_gradients(const struct outcome *serial, const struct outcome *parallel)
{
    for (size_t p = 0; p < serial->whole->parameter_count; p++) {
        const struct model_parameter *parameter = &serial->whole->parameters[p];
        const float *expected = serial->first_moments + parameter->offset,
                    *gradient = parallel->first_moments + parameter->offset;
        double largest = 0, difference = 0;
        for (size_t i = 0; i < parameter->count; i++) {
            assert_false(isnan(gradient[i])); /* some rank has it */
            largest = fmax(largest, fabs((double)expected[i]));
            difference = fmax(difference, fabs((double)gradient[i] - (double)expected[i]));
        }
        /* The gradient of a bias of keys is 0 but for rounding. */
        if (!(difference <= serial->settings->precision->gradient * largest + 1e-7))
            fail_msg("the gradient of %s is up to %g off, of %g at most (%s)", parameter->name, difference, largest,
                     serial->settings->precision->device);
    }
}

static void gradients_are_those_of_one_rank(void **state)
{
    for (size_t network = 0; network < ARRAY_SIZE(networks); network++)
        for (size_t precision = 0; precision < ARRAY_SIZE(precisions); precision++)
            for (unsigned i = 0; i < 4; i++) {
                const uint32_t tensor = i < 2 ? 2 : 4;
                struct settings one = settings_of(network, precision);
                if (one.network->kv_heads % tensor)
                    continue;
                struct outcome serial, parallel;
                one.optimizer = OPTIMIZER_SGD;
                one.steps = 1;
                struct settings several = one;
                several.tensor = tensor;
                several.sequence_parallel = i % 2;
                outcome_run(&one, &serial);
                outcome_run(&several, &parallel);
                compare_gradients(&serial, &parallel);
                assert_true(relative_difference(parallel.norms[0], serial.norms[0]) < one.precision->gradient);
                outcome_free(&serial);
                outcome_free(&parallel);
            }
}

static void losses_are_those_of_one_rank(void **state)
{
    static const enum optimizer_kind kinds[] = {OPTIMIZER_ADAMW, OPTIMIZER_LAMB, OPTIMIZER_LARS};
    for (size_t network = 0; network < ARRAY_SIZE(networks); network++)
        for (size_t precision = 0; precision < ARRAY_SIZE(precisions); precision++) {
            struct settings one = settings_of(network, precision);
            struct outcome serial, parallel;
            one.optimizer = kinds[(network + precision) % ARRAY_SIZE(kinds)];
            one.steps = STEPS_MOST;
            struct settings two = one;
            two.tensor = 2;
            two.sequence_parallel = (network + precision) % 2;
            outcome_run(&one, &serial);
            outcome_run(&two, &parallel);
            for (unsigned step = 0; step < STEPS_MOST; step++)
                if (!(relative_difference(parallel.losses[step], serial.losses[step]) < one.precision->loss))
                    fail_msg("the loss of step %u is %.9g instead of %.9g (%s, %s)", step, parallel.losses[step],
                             serial.losses[step], one.network->kind, one.precision->device);
            assert_true(serial.losses[STEPS_MOST - 1] < serial.losses[0]);
            assert_true(relative_difference(parallel.evaluated, serial.evaluated) < one.precision->loss);
            outcome_free(&serial);
            outcome_free(&parallel);
        }
}

static void assert_same_bits(const struct outcome *a, const struct outcome *b)
{
    const size_t bytes = a->whole->elements * sizeof(float);
    assert_memory_equal(a->losses, b->losses, sizeof a->losses);
    assert_memory_equal(a->norms, b->norms, sizeof a->norms);
    assert_true(a->evaluated == b->evaluated);
    assert_memory_equal(a->values, b->values, bytes);
    assert_memory_equal(a->first_moments, b->first_moments, bytes);
}

static void every_mesh_and_placement_has_the_same_bits(void **state)
{
    static const struct {
        uint32_t data, pipeline, zero;
        enum step_pipeline schedule;
        enum model_recompute recompute;
        const char *placement;
        bool in_turns;
    } meshes[] = {
        {2, 1, 0, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, NULL, false},
        {2, 1, 1, STEP_1F1B, MODEL_RECOMPUTE_ATTENTION, NULL, false},
        {2, 1, 3, STEP_1F1B, MODEL_RECOMPUTE_ALL, NULL, false},
        {1, 2, 0, STEP_GPIPE, MODEL_RECOMPUTE_NOTHING, NULL, false},
        {1, 2, 0, STEP_ZERO_BUBBLE_H1, MODEL_RECOMPUTE_ALL, NULL, false},
        {2, 2, 0, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, "data,pipeline,tensor", false},
        {2, 2, 1, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, "pipeline,data,tensor", true},
        {2, 2, 3, STEP_ZERO_BUBBLE_H1, MODEL_RECOMPUTE_NOTHING, "tensor,data,pipeline", true},
        {1, 1, 0, STEP_1F1B, MODEL_RECOMPUTE_NOTHING, NULL, true},
    };
    for (size_t network = 0; network < ARRAY_SIZE(networks); network++)
        for (size_t precision = 0; precision < ARRAY_SIZE(precisions); precision += 2) {
            struct settings settings = settings_of(network, precision);
            struct outcome first;
            settings.tensor = 2;
            settings.sequence_parallel = (network + precision / 2) % 2;
            outcome_run(&settings, &first);
            for (size_t i = 0; i < ARRAY_SIZE(meshes); i++) {
                struct settings other = settings;
                struct outcome outcome;
                other.data = meshes[i].data;
                other.pipeline = meshes[i].pipeline;
                other.zero = meshes[i].zero;
                other.schedule = meshes[i].schedule;
                other.recompute = meshes[i].recompute;
                other.placement = meshes[i].placement;
                other.in_turns = meshes[i].in_turns;
                outcome_run(&other, &outcome);
                assert_same_bits(&outcome, &first);
                outcome_free(&outcome);
            }
            outcome_free(&first);
        }
}

/* Four tensor ranks over two nodes, whose groups are cut by the nodes in several ways. */
static void four_ranks_have_the_same_bits_under_any_placement(void **state)
{
    struct settings settings = settings_of(0, 0);
    struct outcome first;
    settings.tensor = 4;
    outcome_run(&settings, &first);
    for (int i = 0; i < 3; i++) {
        static const char *const placements[] = {"data,tensor,pipeline", "tensor,data,pipeline", NULL};
        struct outcome outcome;
        settings.data = placements[i] ? 2 : 1;
        settings.placement = placements[i];
        settings.in_turns = true;
        outcome_run(&settings, &outcome);
        assert_same_bits(&outcome, &first);
        outcome_free(&outcome);
    }
    outcome_free(&first);
}

/* ---- refusals ---- */

static int refuse(weft_context *context, int rank, void *argument)
{
    struct settings settings = settings_of(1, 0);
    struct executor *executor;
    struct error error = {0};
    bool speaks;
    settings.tensor = 4;
    struct executor_config config = config_of(&settings, context);
    CHECK(device_open("cpu", 1, &config.device, &error) == WEFT_OK);
    CHECK(device_open("cpu-bf16", 1, &config.sums, &error) == WEFT_OK);
    CHECK(model_describe(settings.network, &config.description, &error) == WEFT_OK);
    CHECK(mesh_placement_parse("tensor", &config.placement, &error) == WEFT_OK);
    CHECK(executor_open(&config, &executor, &speaks, &error) == WEFT_ERROR_ARGUMENT);
    CHECK(strstr(error.text, "kv_heads is 2"));
    model_description_free(config.description);
    config.device->close(config.device);
    config.sums->close(config.sums);
    return 0;
}

static void what_cannot_be_divided_is_refused(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 4}, refuse, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_one_rank),
        cmocka_unit_test(losses_are_those_of_one_rank),
        cmocka_unit_test(every_mesh_and_placement_has_the_same_bits),
        cmocka_unit_test(four_ranks_have_the_same_bits_under_any_placement),
        cmocka_unit_test(what_cannot_be_divided_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
