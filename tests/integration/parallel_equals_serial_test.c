/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in parallel have the bits of steps on one rank: every pair of settings (network, ranks of the data axis, ZeRO
 * stage, pipeline schedule, recomputation, precision, dropout, micro-batches, optimizer) occurs in some combination. All
 * weights and optimizer state are compared with those of plain loops over layers, micro-batches and elements.
 */
#include "../bert_support.h"
#include "../world.h"
#include "training/model/passes.h"
#include "training/parallel/execute/executor.h"
#include "training/tensor/tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BATCH      4
#define SEQUENCE   11
#define TOKENS     (BATCH * SEQUENCE)
#define CLASSES    5
#define VOCABULARY 320 /* more than the tokens of 4 or 7 micro-batches, and fewer than those of 8 */
#define STEPS      3
#define EVALUATED  7 /* micro-batches */
#define RATE       0.01

/* ---- settings ---- */

static const struct model_shape networks[] = {
    {.kind = "gpt", .layers = 4, .heads = 2, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "llama", .layers = 4, .heads = 4, .kv_heads = 2, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "llama",
     .layers = 4,
     .heads = 4,
     .kv_heads = 2,
     .width = 32,
     .context = 12,
     .vocabulary = VOCABULARY,
     .untied = true},
    {.kind = "mlp", .layers = 6, .width = 16, .window = 3, .hidden = 64, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "resnet", .layers = 18, .image = 8, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "mobilenet-v2", .image = 8, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "mobilenet-v1", .image = 8, .channels = 3, .classes = CLASSES, .multiplier = 0.125}, /* frozen norms */
    {.kind = "bert", .layers = 4, .heads = 2, .width = 32, .context = 12, .vocabulary = VOCABULARY},
    {.kind = "bert", .layers = 4, .heads = 2, .width = 32, .context = 12, .vocabulary = VOCABULARY, .classes = 3},
};
#define FROZEN_NORMS 6

static const struct pipeline_setting {
    uint32_t ranks, stages;
    enum step_pipeline schedule;
} pipelines[] = {
    {1, 1, STEP_1F1B},        {2, 2, STEP_GPIPE},          {2, 2, STEP_1F1B},
    {2, 4, STEP_INTERLEAVED}, {2, 2, STEP_ZERO_BUBBLE_H1}, {4, 4, STEP_GPIPE},
    {4, 4, STEP_1F1B},        {4, 8, STEP_INTERLEAVED},    {4, 4, STEP_ZERO_BUBBLE_H1},
};

static const struct precision {
    weft_type activations;
    weft_type gradients;
} precisions[] = {{WEFT_F32, WEFT_F32},   {WEFT_BF16, WEFT_F32}, {WEFT_F32, WEFT_BF16},
                  {WEFT_BF16, WEFT_BF16}, {WEFT_F16, WEFT_F32},  {WEFT_F16, WEFT_BF16}};

static const uint32_t batches[] = {4, 7, 8, 12}; /* micro-batches */

enum { NETWORK, DATA, ZERO, PIPELINE, RECOMPUTE, PRECISION, DROPOUT, BATCHES, OPTIMIZER, SHARES, SETTINGS };

static const enum optimizer_kind optimizers[] = {OPTIMIZER_ADAMW, OPTIMIZER_SGD, OPTIMIZER_LAMB, OPTIMIZER_LARS};

static const unsigned values_of[SETTINGS] = {9, 4, 5, 9, 4, 6, 2, 4, 4, 2};

struct combination {
    unsigned values[SETTINGS];
};

#define CENTRAL 4 /* the setting of ZERO that is a parameter server */

static bool is_central(const struct combination *combination)
{
    return combination->values[ZERO] == CENTRAL;
}

static uint32_t data_ranks(const struct combination *combination)
{
    return combination->values[DATA] + 1;
}

static bool is_possible(const struct combination *combination)
{
    const struct pipeline_setting *pipeline = &pipelines[combination->values[PIPELINE]];
    const uint32_t data = data_ranks(combination), micro_batches = batches[combination->values[BATCHES]],
                   rounds = (micro_batches + data - 1) / data;
    if (combination->values[SHARES] &&
        (combination->values[ZERO] == 2 || combination->values[ZERO] == 3 || pipeline->schedule == STEP_INTERLEAVED))
        return false;
    return data * pipeline->ranks <= 8 && micro_batches >= data &&
           (pipeline->schedule != STEP_INTERLEAVED || rounds % pipeline->ranks == 0);
}

#define MOST_DATA 4

/* One rank has all micro-batches but one for each of the others. NULL: shares differ by at most one. */
static const uint32_t *shares_of(const struct combination *combination, uint32_t shares[MOST_DATA])
{
    const uint32_t data = data_ranks(combination), micro_batches = batches[combination->values[BATCHES]];
    for (uint32_t d = 0; d < data; d++)
        shares[d] = d == micro_batches % data ? micro_batches - data + 1 : 1;
    return combination->values[SHARES] ? shares : NULL;
}

/* ---- serial ---- */

/* What a run on one rank leaves, computed without any of parallel/. */
struct serial {
    const struct combination *combination;
    struct model_description *description;
    float *values, *first_moments, *second_moments;
    double losses[STEPS], norms[STEPS], evaluated;
};

static struct optimizer optimizer_of(const struct combination *combination)
{
    return (struct optimizer){.kind = optimizers[combination->values[OPTIMIZER]],
                              .beta1 = 0.9,
                              .beta2 = 0.99,
                              .epsilon = 1e-8,
                              .momentum = 0.9,
                              .trust = 0.02,
                              .weight_decay = 0.1};
}

#define CLIP 0.5

/* Narrow image networks of few images have gradients that larger scales would take out of f16's range. */
static double loss_scale_of(const struct combination *combination)
{
    const double scale = networks[combination->values[NETWORK]].image ? 2 : 1024;
    return precisions[combination->values[PRECISION]].activations == WEFT_F16 ? scale : 1;
}

static size_t sequence_of(const struct combination *combination)
{
    return networks[combination->values[NETWORK]].image ? 1 : SEQUENCE;
}

static weft_status describe(const struct combination *combination, struct model_description **description,
                            struct error *error)
{
    const unsigned network = combination->values[NETWORK];
    const struct parameter_rules rules = {.freeze = "*.running_mean,*.running_var"};
    const weft_status status = model_describe(&networks[network], description, error);
    return status == WEFT_OK && network == FROZEN_NORMS ? parameter_rules_apply(&rules, *description, error) : status;
}

static struct model_options options_of(const struct combination *combination)
{
    const unsigned recompute = combination->values[RECOMPUTE];
    const bool some = recompute > MODEL_RECOMPUTE_ALL;
    return (struct model_options){.batch = BATCH,
                                  .sequence = sequence_of(combination),
                                  .training = true,
                                  .recompute = (enum model_recompute)(some ? MODEL_RECOMPUTE_ALL : recompute),
                                  .recompute_layers = some ? 2 : 0,
                                  .dropout = combination->values[DROPOUT] ? 0.2 : 0,
                                  .slots = 1};
}

/* Tokens and pixels are functions of their numbers. `context` is the combination. */
static weft_status read_arrays(void *context, uint64_t number, const struct model_arrays *arrays, struct error *error)
{
    if (arrays->lengths) { /* a BERT */
        bert_arrays_fill(arrays, 1000 * number, BATCH, SEQUENCE, VOCABULARY, 0);
        return WEFT_OK;
    }
    const struct model_shape *shape = &networks[((const struct combination *)context)->values[NETWORK]];
    const bool images = shape->image > 0;
    for (uint64_t i = 0; arrays->tokens && i < TOKENS; i++)
        arrays->tokens[i] = (int32_t)((number * 7919 + i * i * 31 + 5) % VOCABULARY);
    for (uint64_t i = 0; arrays->targets && i < (images ? 2 * BATCH : TOKENS); i++)
        arrays->targets[i] = (int32_t)((number * 104729 + i * 57 + 11) % (images ? CLASSES : VOCABULARY));
    for (uint64_t i = 0; arrays->pixels && i < BATCH * shape->image * shape->image * shape->channels; i++)
        arrays->pixels[i] = (float)((number * 7919 + i * i * 31 + i * 17) % 101) / 50 - 1;
    for (uint64_t i = 0; arrays->shares && i < 2 * BATCH; i++)
        arrays->shares[i] = i % 2 ? 0.25f : 0.75f;
    return WEFT_OK;
}

static void round_bf16(struct device *sums, size_t count, float *array)
{
    uint16_t *rounded = malloc(count * sizeof *rounded);
    sums->to_activations(sums, count, array, rounded);
    sums->from_activations(sums, count, rounded, array);
    free(rounded);
}

/* The canonical tree over arrays first to first + count - 1; the sum replaces the first. */
static void sum_tree(struct device *sums, bool rounds, float **arrays, size_t count, size_t elements)
{
    size_t half = 1;
    if (count == 1)
        return;
    while (half * 2 < count)
        half *= 2;
    sum_tree(sums, rounds, arrays, half, elements);
    sum_tree(sums, rounds, arrays + half, count - half, elements);
    for (size_t i = 0; i < elements; i++)
        arrays[0][i] += arrays[half][i];
    if (rounds)
        round_bf16(sums, elements, arrays[0]);
}

static double serial_pass(struct serial *serial, struct model *model, struct device *device, const void *activations,
                          uint64_t number, float *gradients)
{
    const struct model_description *description = serial->description;
    struct model_arrays inputs;
    struct model_batch batch = {.seed = 9, .sample = number * BATCH, .loss_scale = loss_scale_of(serial->combination)};
    struct error error = {0};
    double loss = 0;
    float *gradient = calloc(TOKENS * description->widest, sizeof *gradient);
    assert_int_equal(model_arrays_allocate(description, NULL, sequence_of(serial->combination), BATCH, &inputs, &error),
                     WEFT_OK);
    read_arrays((void *)serial->combination, number, &inputs, NULL);
    for (enum model_input input = 0; input < MODEL_INPUTS; input++)
        batch.inputs[input] = inputs.of[input];
    assert_int_equal(model_slot_load(model, 0, &batch, &error), WEFT_OK);
    model_arrays_free(&inputs);
    for (size_t layer = 0; layer < description->layer_count; layer++) {
        const struct layer_arrays arrays =
            model_layer_arrays(description, device, layer, serial->values, activations, gradients);
        model_layer_forward(model, &(struct layer_call){.layer = layer, .arrays = &arrays}, gradients != NULL);
    }
    assert_int_equal(model_slot_loss(model, 0, &loss, &error), WEFT_OK);
    for (size_t layer = description->layer_count; gradients && layer-- > 0;) {
        const struct layer_arrays arrays =
            model_layer_arrays(description, device, layer, serial->values, activations, gradients);
        const struct layer_call call = {.layer = layer, .arrays = &arrays};
        model_layer_backward_input(model, &call, gradient);
        model_layer_backward_weights(model, &call);
    }
    free(gradient);
    return loss;
}

/* Sums of squares of a group's blocks, without statistics. */
static void sum_group(struct device *sums, const struct model_description *description, const struct model_group *group,
                      const float *gradients, double *squares)
{
    float *counted = malloc(group->count * sizeof *counted);
    memcpy(counted, gradients + group->offset, group->count * sizeof *counted);
    for (size_t i = 0; i < group->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[group->parameter + i];
        for (size_t k = 0; !optimizer_counts(parameter) && k < parameter->count; k++)
            counted[parameter->offset - group->offset + k] = 0;
    }
    sums->sum_of_squares(sums, group->count, counted, squares + group->block);
    free(counted);
}

static void serial_step(struct serial *serial, struct model *model, struct device *device, struct device *sums,
                        uint16_t *rounded, unsigned step)
{
    const struct model_description *description = serial->description;
    const struct precision *precision = &precisions[serial->combination->values[PRECISION]];
    const uint32_t micro_batches = batches[serial->combination->values[BATCHES]];
    const size_t elements = description->gradient_elements;
    const double loss_scale = loss_scale_of(serial->combination);
    float *gradients[12];
    double losses[12], *squares = calloc(description->blocks, sizeof *squares);
    const bool rounds = precision->activations != WEFT_F32;
    if (rounds)
        device->to_activations(device, description->elements, serial->values, rounded);
    const void *activations = rounds ? (const void *)rounded : (const void *)serial->values;
    for (uint32_t m = 0; m < micro_batches; m++) {
        gradients[m] = calloc(elements, sizeof *gradients[m]);
        losses[m] = serial_pass(serial, model, device, activations, (uint64_t)step * micro_batches + m, gradients[m]);
        if (precision->gradients == WEFT_BF16)
            round_bf16(sums, elements, gradients[m]);
    }
    sum_tree(sums, precision->gradients == WEFT_BF16, gradients, micro_batches, elements);
    if (elements > description->elements) { /* the two uses of the tied table */
        const struct model_group *tied = &description->groups[model_tied_group(description)];
        for (size_t i = 0; i < tied->count; i++)
            gradients[0][tied->offset + i] += gradients[0][description->elements + i];
        if (precision->gradients == WEFT_BF16)
            round_bf16(sums, tied->count, gradients[0] + tied->offset);
    }
    for (size_t g = 0; g < description->group_count; g++)
        sum_group(sums, description, &description->groups[g], gradients[0], squares);
    serial->losses[step] = tree_sum(losses, micro_batches) / micro_batches;
    serial->norms[step] = sqrt(tree_sum(squares, description->blocks)) / (micro_batches * loss_scale);
    const double clip = serial->norms[step] > CLIP ? CLIP / serial->norms[step] : 1;
    const struct optimizer optimizer = optimizer_of(serial->combination);
    optimizer_update(description, sums, &optimizer,
                     &(struct optimizer_step){.number = step + 1,
                                              .rate = RATE,
                                              .gradient_scale = 1.0 / (micro_batches * loss_scale) * clip,
                                              .mean = 1.0 / micro_batches},
                     0, description->elements,
                     &(struct optimizer_arrays){.parameters = serial->values,
                                                .gradients = gradients[0],
                                                .first_moments = serial->first_moments,
                                                .second_moments = serial->second_moments,
                                                .sums = squares});
    for (uint32_t m = 0; m < micro_batches; m++)
        free(gradients[m]);
    free(squares);
}

static const char *device_name(const struct combination *combination)
{
    return device_cpu_name(precisions[combination->values[PRECISION]].activations);
}

static void serial_run(struct serial *serial)
{
    struct error error = {0};
    struct device *device, *sums;
    struct model *model;
    const struct model_options options = options_of(serial->combination);
    assert_int_equal(device_open(device_name(serial->combination), 1, &device, &error), WEFT_OK);
    assert_int_equal(device_open("cpu-bf16", 1, &sums, &error), WEFT_OK);
    assert_int_equal(describe(serial->combination, &serial->description, &error), WEFT_OK);
    const size_t elements = serial->description->elements;
    serial->values = calloc(elements, sizeof(float));
    serial->first_moments = calloc(elements, sizeof(float));
    serial->second_moments = calloc(elements, sizeof(float));
    uint16_t *rounded = calloc(elements, sizeof *rounded);
    assert_int_equal(model_initialize(serial->description, device, serial->values, 3, &error), WEFT_OK);
    assert_int_equal(model_open(serial->description, device, &options, &model, &error), WEFT_OK);
    for (unsigned step = 0; step < STEPS; step++)
        serial_step(serial, model, device, sums, rounded, step);
    const bool rounds = device->activations != WEFT_F32;
    if (rounds)
        device->to_activations(device, elements, serial->values, rounded);
    const void *activations = rounds ? (const void *)rounded : (const void *)serial->values;
    for (uint64_t i = 0; i < EVALUATED; i++)
        serial->evaluated += serial_pass(serial, model, device, activations, 1000 + i, NULL);
    serial->evaluated /= EVALUATED;
    model_close(model);
    free(rounded);
    device->close(device);
    sums->close(sums);
}

static void serial_free(struct serial *serial)
{
    model_description_free(serial->description);
    free(serial->values);
    free(serial->first_moments);
    free(serial->second_moments);
}

/* ---- in parallel ---- */

static int set_values(weft_context *context, int rank, struct executor *executor,
                      const struct model_description *description, struct device *device)
{
    struct model_description *whole;
    struct error error = {0};
    CHECK(model_describe(&description->shape, &whole, &error) == WEFT_OK);
    float *values = calloc(whole->elements, sizeof *values);
    CHECK(model_initialize(whole, device, values, 3, &error) == WEFT_OK);
    for (uint32_t g = 0; g < whole->group_count; g++)
        if (description->groups[g].count)
            value_groups_store(executor_values(executor), g, values + whole->groups[g].offset);
    free(values);
    model_description_free(whole);
    return 0;
}

/* This rank's slices have the serial bits, and under ZeRO-1 and 2 the whole weights, too. */
static int check_state(weft_context *context, int rank, struct executor *executor, const struct serial *serial,
                       const struct model_description *description)
{
    struct value_groups *groups = executor_values(executor);
    for (uint32_t g = 0; g < description->group_count; g++) {
        const struct model_group *group = &description->groups[g];
        if (!group->count)
            continue;
        const struct value_slice slice = value_groups_slice(groups, g);
        const size_t first = serial->description->groups[g].offset + slice.first, bytes = slice.count * sizeof(float);
        CHECK(!bytes || !memcmp(slice.values, serial->values + first, bytes));
        CHECK(!bytes || !memcmp(slice.first_moments, serial->first_moments + first, bytes));
        CHECK(!bytes || !slice.second_moments || !memcmp(slice.second_moments, serial->second_moments + first, bytes));
        if (serial->combination->values[ZERO] != 3)
            CHECK(!memcmp(value_groups_values(groups, g, STEP_NONE, 0), serial->values + first - slice.first,
                          group->count * sizeof(float)));
    }
    return 0;
}

/* A rank has passed each of its micro-batches through each of its layers, in both directions. */
static int check_passes(weft_context *context, int rank, const struct executor *executor,
                        const struct executor_result *result)
{
    const struct step_shape *shape = executor_shape(executor);
    const uint32_t units = shape->first_unit[shape->stages];
    uint32_t own = 0;
    double seconds = 0;
    for (uint32_t unit = 0; unit < units; unit++)
        for (int kind = OPERATION_FORWARD; kind <= OPERATION_BACKWARD_WEIGHTS; kind++) {
            const struct executor_passes passes = executor_passes_of(executor, (enum step_operation_kind)kind, unit);
            const bool has = executor_has_layer(executor, unit);
            own = own ? own : passes.count;
            CHECK(passes.count == (has ? own : 0));
            seconds += passes.seconds;
        }
    CHECK(own == executor_share_of_batch(executor).count);
    CHECK(fabs(result->seconds.pass - seconds) <= 1e-9 * seconds);
    CHECK(result->seconds.norm >= seconds * (1 - 1e-9) && seconds > 0);
    return 0;
}

static int run_steps(weft_context *context, int rank, struct executor *executor, const struct serial *serial)
{
    const struct executor_input input = {.read = read_arrays,
                                         .context = (void *)serial->combination,
                                         .seed = 9,
                                         .loss_scale = loss_scale_of(serial->combination)};
    struct error error = {0};
    for (unsigned step = 0; step < STEPS; step++) {
        struct executor_result result;
        if (executor_step(executor, &input, step + 1, RATE, &result, &error) != WEFT_OK)
            fprintf(stderr, "%s\n", error.text);
        CHECK(error.status == WEFT_OK);
        CHECK(result.loss == serial->losses[step]);
        CHECK(result.gradient_norm == serial->norms[step]);
        CHECK(!result.stop);
        CHECK(check_passes(context, rank, executor, &result) == 0);
    }
    return 0;
}

static int run_evaluation(weft_context *context, int rank, struct executor *executor, const struct serial *serial)
{
    const struct executor_input input = {.read = read_arrays, .context = (void *)serial->combination};
    struct error error = {0};
    struct executor_scores scores;
    bool stopped;
    CHECK(executor_evaluate(executor, &input, 1000, EVALUATED, &scores, &stopped, &error) == WEFT_OK);
    CHECK(!stopped && scores.loss == serial->evaluated);
    return 0;
}

static int parallel_run(weft_context *context, int rank, void *argument)
{
    const struct serial *serial = argument;
    const struct combination *combination = serial->combination;
    const struct pipeline_setting *pipeline = &pipelines[combination->values[PIPELINE]];
    struct model_description *description;
    struct device *device, *sums;
    struct executor *executor;
    struct error error = {0};
    uint32_t shares[MOST_DATA];
    bool speaks;
    CHECK(device_open(device_name(combination), 1, &device, &error) == WEFT_OK);
    CHECK(device_open("cpu-bf16", 1, &sums, &error) == WEFT_OK);
    CHECK(describe(combination, &description, &error) == WEFT_OK);
    struct executor_config config = {
        .context = context,
        .comm = weft_world(context),
        .device = device,
        .sums = sums,
        .description = description,
        .model = options_of(combination),
        .optimizer = optimizer_of(combination),
        .clip = CLIP,
        .mesh =
            {.extent = {[MESH_DATA] = data_ranks(combination), [MESH_PIPELINE] = pipeline->ranks, [MESH_TENSOR] = 1}},
        .schedule = pipeline->schedule,
        .stages = pipeline->stages,
        .zero = is_central(combination) ? 1 : combination->values[ZERO],
        .central = is_central(combination),
        .micro_batches = batches[combination->values[BATCHES]],
        .shares = shares_of(combination, shares),
        .gradients = precisions[combination->values[PRECISION]].gradients,
        .bucket_bytes = 20000,
    };
    CHECK(mesh_placement_parse("data,pipeline,tensor", &config.placement, &error) == WEFT_OK);
    if (executor_open(&config, &executor, &speaks, &error) != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    CHECK(error.status == WEFT_OK);
    if (set_values(context, rank, executor, description, device) || run_steps(context, rank, executor, serial))
        return 1;
    /* Weights may be on their way; an evaluation waits for them, too. */
    const bool settles = combination->values[BATCHES] % 2;
    CHECK(!settles || executor_settle(executor, &error) == WEFT_OK);
    if ((settles && check_state(context, rank, executor, serial, description)) ||
        run_evaluation(context, rank, executor, serial) || check_state(context, rank, executor, serial, description))
        return 1;
    executor_close(executor);
    model_description_free(description);
    device->close(device);
    sums->close(sums);
    return 0;
}

static void print_combination(const struct combination *combination)
{
    static const char *const names[SETTINGS] = {"network",   "data",    "zero",    "pipeline",  "recompute",
                                                "precision", "dropout", "batches", "optimizer", "shares"};
    for (int s = 0; s < SETTINGS; s++)
        printf("%s=%u%s", names[s], combination->values[s], s + 1 < SETTINGS ? " " : "\n");
    fflush(stdout);
}

static void compare(const struct combination *combination, bool processes)
{
    struct serial serial = {.combination = combination};
    serial_run(&serial);
    const struct world world = {.ranks =
                                    (int)(data_ranks(combination) * pipelines[combination->values[PIPELINE]].ranks),
                                .processes = processes};
    if (world_run(&world, parallel_run, &serial) != 0) {
        print_combination(combination);
        fail_msg("it differs from a run on one rank");
    }
    serial_free(&serial);
}

/* ---- all pairs ---- */

#define PAIRS (SETTINGS * SETTINGS * 16 * 16)

static size_t pair_number(const struct combination *combination, int a, int b)
{
    return (((size_t)a * SETTINGS + (size_t)b) * 16 + combination->values[a]) * 16 + combination->values[b];
}

static unsigned new_pairs(const struct combination *combination, const bool *covered)
{
    unsigned found = 0;
    for (int a = 0; a < SETTINGS; a++)
        for (int b = a + 1; b < SETTINGS; b++)
            found += !covered[pair_number(combination, a, b)];
    return found;
}

/* The next of all combinations; false after the last. */
static bool advance_combination(struct combination *combination)
{
    for (int s = 0; s < SETTINGS; s++) {
        if (++combination->values[s] < values_of[s])
            return true;
        combination->values[s] = 0;
    }
    return false;
}

/* The possible combination that has the most pairs that no earlier one had. */
static unsigned find_next(const bool *covered, struct combination *best)
{
    struct combination next = {0};
    unsigned most = 0;
    do {
        const unsigned found = is_possible(&next) ? new_pairs(&next, covered) : 0;
        if (found > most) {
            most = found;
            *best = next;
        }
    } while (most < SETTINGS * (SETTINGS - 1) / 2 && advance_combination(&next));
    return most;
}

static void every_pair_of_settings_equals_one_rank(void **state)
{
    static bool covered[PAIRS];
    struct combination combination;
    unsigned combinations = 0, pairs = 0;
    for (unsigned found; (found = find_next(covered, &combination)) > 0; combinations++) {
        for (int a = 0; a < SETTINGS; a++)
            for (int b = a + 1; b < SETTINGS; b++)
                covered[pair_number(&combination, a, b)] = true;
        pairs += found;
        print_combination(&combination);
        compare(&combination, combinations % 10 == 9);
    }
    printf("%u combinations with %u pairs of settings\n", combinations, pairs);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* the settings of one combination: to look into a difference */
        struct combination combination = {0};
        for (int s = 0; s < SETTINGS && s + 1 < argc; s++)
            combination.values[s] = (unsigned)atoi(argv[s + 1]);
        print_combination(&combination);
        compare(&combination, false);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_of_settings_equals_one_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
