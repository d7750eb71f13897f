/* SPDX-License-Identifier: Apache-2.0 */
/* weft/train.h: any order of registering and readiness gives the bits of one rank; what ranks disagree about is named.
 */
#include "../world.h"

#include "base/random.h"
#include "training/checkpoint/checkpoint.h"
#include "training/parallel/training.h"
#include "training/train/state/public_export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS = 7, MOST_ELEMENTS = 70000 };

static const struct {
    const char *name;
    size_t shape[3];
    size_t count;
} tensors[TENSORS] = {
    {"embedding", {257, 33}, 8481},   {"norm.gain", {33}, 33}, {"up.weight", {33, 131}, 4323}, {"up.bias", {131}, 131},
    {"down.weight", {131, 33}, 4323}, {"down.bias", {1}, 1},   {"head", {70000}, 70000},
};

/* The tensors in another order for each key. */
static void shuffle(uint64_t key, int order[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        order[i] = i;
    for (int i = TENSORS - 1; i > 0; i--) {
        int j = (int)random_below(key, (uint64_t)i, (uint64_t)i + 1), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

static void make_gradient(uint64_t micro_batch, int tensor, const float *values, float *gradient)
{
    for (size_t e = 0; e < tensors[tensor].count; e++)
        gradient[e] = (float)(random_uniform(micro_batch * TENSORS + (uint64_t)tensor, e) - 0.5) + 0.01f * values[e];
}

/* What all ranks of one run get. */
struct plan {
    weft_optimizer optimizer;
    int micro_batches, steps;
    bool shards, same_order, rounded;
    int zero;
    bool by_layers; /* values are there for one tensor at a time; needs same_order */
    size_t bucket_bytes;
    const char *save, *load; /* directories of checkpoints */
    uint16_t *narrowed;      /* rank 0's copy */
    float *values;           /* of all tensors in the table's order, as rank 0 has them at the end */
};

static weft_training *open_training(weft_context *context, int rank, const struct plan *plan, int numbers[TENSORS])
{
    int order[TENSORS];
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.micro_batches = plan->micro_batches;
    config.optimizer = plan->optimizer;
    config.weight_decay = 0.1;
    config.clip = 20;
    config.shard_optimizer = plan->shards;
    config.zero = plan->zero;
    config.gradient_type = plan->rounded ? WEFT_BF16 : WEFT_F32;
    config.bucket_bytes = plan->bucket_bytes ? plan->bucket_bytes : 16 << 10;
    weft_training *training;
    if (weft_training_open(context, weft_world(context), &config, &training) != WEFT_OK)
        return NULL;
    shuffle(plan->same_order ? 0 : (uint64_t)rank, order);
    for (int i = 0; i < TENSORS; i++) {
        weft_parameter parameter = {.name = tensors[order[i]].name};
        memcpy(parameter.shape, tensors[order[i]].shape, sizeof tensors[0].shape);
        numbers[order[i]] = weft_training_parameter(training, &parameter);
    }
    if (weft_training_start(training) != WEFT_OK)
        return NULL;
    for (int t = 0; t < TENSORS; t++) {
        if (weft_training_gather(training, numbers[t]) != WEFT_OK)
            return NULL;
        for (size_t e = 0; e < tensors[t].count; e++) /* only rank 0's counts */
            weft_training_values(training, numbers[t])[e] = (float)random_normal((uint64_t)(rank * TENSORS + t), e);
        if (plan->zero == 3 && weft_training_share(training) != WEFT_OK)
            return NULL;
        if (weft_training_release(training, numbers[t]) != WEFT_OK)
            return NULL;
    }
    return plan->zero == 3 || weft_training_share(training) == WEFT_OK ? training : NULL;
}

/* Gather the values of all tensors, or release them. */
static int for_all(weft_context *context, int rank, weft_training *training, const int numbers[TENSORS],
                   weft_status (*call)(weft_training *, int))
{
    for (int t = 0; t < TENSORS; t++)
        CHECK(call(training, numbers[t]) == WEFT_OK);
    return 0;
}

/* A micro-batch, in an order of its own, or one that only other ranks compute. */
static int compute(weft_context *context, int rank, weft_training *training, const struct plan *plan,
                   const int numbers[TENSORS], bool has)
{
    const uint64_t micro_batch = weft_training_micro_batch(training);
    int order[TENSORS];
    shuffle(plan->same_order ? 0 : 1000 + micro_batch, order);
    for (int t = 0; t < TENSORS; t++) {
        const int number = numbers[order[t]];
        if (plan->by_layers)
            CHECK(weft_training_gather(training, number) == WEFT_OK);
        if (has) {
            make_gradient(micro_batch, order[t], weft_training_values(training, number),
                          weft_training_gradient(training, number));
            CHECK(weft_training_ready(training, number) == WEFT_OK);
        }
        if (plan->by_layers)
            CHECK(weft_training_release(training, number) == WEFT_OK);
    }
    if (has)
        CHECK(weft_training_note(training, 3, (double)(micro_batch % 8)) == WEFT_OK);
    return 0;
}

/* All micro-batches of a step, those that only other ranks compute among them: these gather values then. */
static int compute_all(weft_context *context, int rank, weft_training *training, const struct plan *plan,
                       const int numbers[TENSORS])
{
    const int ranks = weft_comm_size(weft_world(context)), share = weft_training_micro_batches(training);
    for (int i = 0; i < (plan->micro_batches + ranks - 1) / ranks; i++) {
        if (!plan->by_layers)
            CHECK(for_all(context, rank, training, numbers, weft_training_gather) == 0);
        CHECK(compute(context, rank, training, plan, numbers, i < share) == 0);
        if (!plan->by_layers)
            CHECK(for_all(context, rank, training, numbers, weft_training_release) == 0);
        CHECK(!weft_training_values(training, numbers[i % TENSORS]) == (plan->zero == 3 && ranks > 1));
        if (i + 1 < share)
            CHECK(weft_training_accumulate(training) == WEFT_OK);
    }
    return 0;
}

static int train(weft_context *context, int rank, void *argument)
{
    const struct plan *plan = argument;
    int numbers[TENSORS];
    bool found;
    weft_training_result result = {0};
    weft_training *training = open_training(context, rank, plan, numbers);
    CHECK(training);
    if (plan->load) {
        CHECK(weft_training_load(training, plan->load, &found) == WEFT_OK);
        CHECK(found);
    }
    if (plan->narrowed && rank == 0)
        CHECK(weft_training_keep_bf16(training, plan->narrowed) == WEFT_OK);
    while (weft_training_steps(training) < (uint64_t)plan->steps) {
        CHECK(compute_all(context, rank, training, plan, numbers) == 0);
        uint64_t first = weft_training_steps(training) * (uint64_t)plan->micro_batches;
        double mean = 0;
        for (int m = 0; m < plan->micro_batches; m++)
            mean += (double)((first + (uint64_t)m) % 8) / plan->micro_batches;
        CHECK(weft_training_step(training, 1e-2, &result) == WEFT_OK);
        CHECK(result.step == weft_training_steps(training) && fabs(result.notes[3] - mean) < 1e-6);
        CHECK(result.notes[2] == 0 && result.gradient_norm > 0);
    }
    if (plan->save)
        CHECK(weft_training_save(training, plan->save, 2) == WEFT_OK);
    float *to = plan->values;
    for (int t = 0; t < TENSORS; to += tensors[t++].count) {
        CHECK(weft_training_gather(training, numbers[t]) == WEFT_OK);
        if (rank == 0)
            memcpy(to, weft_training_values(training, numbers[t]), tensors[t].count * sizeof *to);
        CHECK(weft_training_release(training, numbers[t]) == WEFT_OK);
    }
    weft_training_close(training);
    return 0;
}

static float *values_of(int ranks, const struct plan *plan)
{
    struct plan mine = *plan;
    mine.values = calloc(2 * MOST_ELEMENTS, sizeof *mine.values);
    assert_non_null(mine.values);
    assert_int_equal(world_run(&(struct world){.ranks = ranks}, train, &mine), 0);
    return mine.values;
}

static void assert_same(float *a, float *b)
{
    assert_memory_equal(a, b, 2 * MOST_ELEMENTS * sizeof *a);
    free(b);
}

static void any_order_gives_the_bits_of_one_rank(void **state)
{
    static const weft_optimizer optimizers[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LAMB,
                                                WEFT_OPTIMIZER_LARS};
    for (size_t o = 0; o < sizeof optimizers / sizeof *optimizers; o++) {
        struct plan plan = {.optimizer = optimizers[o], .micro_batches = 12, .steps = 3, .same_order = true};
        float *alone = values_of(1, &plan);
        plan.same_order = false;
        for (int ranks = 1; ranks <= 5; ranks++)
            assert_same(alone, values_of(ranks, &plan));
        plan.bucket_bytes = 1 << 20;
        plan.shards = true;
        assert_same(alone, values_of(3, &plan));
        assert_same(alone, values_of(4, &plan));
        free(alone);
    }
}

static void all_stages_of_zero_give_the_same_bits(void **state)
{
    static const weft_optimizer optimizers[2][2] = {{WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_LAMB},
                                                    {WEFT_OPTIMIZER_LARS, WEFT_OPTIMIZER_SGD}};
    for (int micro_batches = 7; micro_batches <= 8; micro_batches++)
        for (int rounded = 0; rounded < 2; rounded++) {
            struct plan plan = {.optimizer = optimizers[micro_batches % 2][rounded],
                                .micro_batches = micro_batches,
                                .steps = 3,
                                .rounded = rounded};
            float *alone = values_of(1, &plan);
            for (int ranks = 1; ranks <= 5; ranks++)
                for (plan.zero = 0; plan.zero <= 3; plan.zero++) {
                    plan.bucket_bytes = (ranks + plan.zero) % 2 ? 4 : 1 << 20;
                    plan.same_order = plan.by_layers = ranks % 2;
                    assert_same(alone, values_of(ranks, &plan));
                }
            free(alone);
        }
}

static void rounded_gradients_do_not_depend_on_ranks(void **state)
{
    for (int micro_batches = 8; micro_batches <= 12; micro_batches += 4) {
        struct plan plan = {.optimizer = WEFT_OPTIMIZER_ADAMW, .micro_batches = micro_batches, .steps = 3};
        float *exact = values_of(1, &plan);
        plan.rounded = true;
        float *alone = values_of(1, &plan);
        assert_memory_not_equal(alone, exact, 2 * MOST_ELEMENTS * sizeof *alone);
        for (int ranks = 2; ranks <= 4; ranks++)
            assert_same(alone, values_of(ranks, &plan));
        plan.shards = true;
        assert_same(alone, values_of(4, &plan));
        free(alone);
        free(exact);
    }
}

static void a_checkpoint_goes_on_anywhere(void **state)
{
    char directory[] = "/tmp/weft-training-XXXXXX", command[64];
    assert_non_null(mkdtemp(directory));
    struct plan plan = {.optimizer = WEFT_OPTIMIZER_ADAMW, .micro_batches = 4, .steps = 6};
    float *through = values_of(1, &plan);
    plan.steps = 3;
    plan.save = directory;
    plan.shards = true;
    free(values_of(4, &plan));
    plan.steps = 6;
    plan.save = NULL;
    plan.load = directory;
    assert_same(through, values_of(2, &plan));
    plan.shards = false;
    assert_same(through, values_of(1, &plan));
    for (plan.zero = 2; plan.zero <= 3; plan.zero++) {
        plan.steps = 3;
        plan.load = NULL;
        plan.save = directory;
        free(values_of(3, &plan));
        plan.steps = 6;
        plan.save = NULL;
        plan.load = directory;
        assert_same(through, values_of(4, &plan));
    }
    free(through);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

/* ---- other processors ---- */

/* Rank 1's processor has nothing of what the others' may have. */
static int train_on_another_processor(weft_context *context, int rank, void *argument)
{
    const struct plan plan = {.optimizer = WEFT_OPTIMIZER_ADAMW, .micro_batches = 2, .same_order = true};
    int numbers[TENSORS];
    if (rank == 1)
        setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    weft_training *training = open_training(context, rank, &plan, numbers);
    CHECK(training);
    for (int step = 0; step < 5; step++) {
        const uint64_t number = weft_training_micro_batch(training);
        for (int t = 0; t < TENSORS; t++) {
            make_gradient(number, t, weft_training_values(training, numbers[t]),
                          weft_training_gradient(training, numbers[t]));
            CHECK(weft_training_ready(training, numbers[t]) == WEFT_OK);
        }
        CHECK(weft_training_step(training, 0.01, NULL) == WEFT_OK);
    }
    weft_training_arrays arrays;
    CHECK(weft_training_get_arrays(training, &arrays) == WEFT_OK);
    float *of_first = malloc(arrays.elements * sizeof *of_first);
    memcpy(of_first, arrays.values, arrays.elements * sizeof *of_first);
    CHECK(weft_broadcast(of_first, arrays.elements, WEFT_F32, 0, weft_world(context)) == WEFT_OK);
    CHECK(memcmp(of_first, arrays.values, arrays.elements * sizeof *of_first) == 0);
    free(of_first);
    weft_training_close(training);
    return 0;
}

static void ranks_on_other_processors_keep_the_same_values(void **state)
{
    const struct world world = {.ranks = 2, .processes = true};
    assert_int_equal(world_run(&world, train_on_another_processor, NULL), 0);
}

static void a_checkpoint_of_another_program_has_no_public_form(void **state)
{
    char directory[] = "/tmp/weft-training-XXXXXX", output[64], command[64];
    assert_non_null(mkdtemp(directory));
    const struct plan plan = {.optimizer = WEFT_OPTIMIZER_SGD, .micro_batches = 1, .steps = 1, .save = directory};
    free(values_of(1, &plan));
    snprintf(output, sizeof output, "%s/public", directory);
    struct checkpoint *checkpoint;
    struct error error = {0};
    assert_int_equal(checkpoint_open(directory, &checkpoint, &error), WEFT_OK);
    assert_int_equal(public_export(checkpoint, output, WEFT_F32, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "is that of another program"));
    assert_non_null(strstr(error.text, directory));
    assert_int_equal(access(output, F_OK), -1);
    checkpoint_close(checkpoint);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

static void a_rounded_copy_follows(void **state)
{
    uint16_t *narrowed = calloc(2 * MOST_ELEMENTS, sizeof *narrowed);
    struct plan plan = {.optimizer = WEFT_OPTIMIZER_ADAMW,
                        .micro_batches = 3,
                        .steps = 2,
                        .same_order = true,
                        .zero = 1,
                        .narrowed = narrowed};
    float *values = values_of(3, &plan);
    int order[TENSORS];
    size_t offset = 0, starts[TENSORS], start = 0;
    for (int t = 0; t < TENSORS; start += tensors[t++].count)
        starts[t] = start;
    shuffle(0, order);
    for (int i = 0; i < TENSORS; i++) {
        size_t count = tensors[order[i]].count;
        for (size_t e = 0; e < count; e++) {
            uint32_t bits;
            memcpy(&bits, &values[starts[order[i]] + e], sizeof bits);
            bits += 0x7fff + (bits >> 16 & 1);
            assert_int_equal(narrowed[offset + e], bits >> 16);
        }
        offset += (count + 15) / 16 * 16;
    }
    free(values);
    free(narrowed);
}

/* ---- agreeing on an order ---- */

static int settle(weft_context *context, int rank, void *argument)
{
    const struct plan plan = {
        .optimizer = WEFT_OPTIMIZER_SGD, .micro_batches = 3, .same_order = true, .bucket_bytes = 4};
    int numbers[TENSORS], order[TENSORS];
    weft_training *training = open_training(context, rank, &plan, numbers);
    CHECK(training);
    for (int step = 0; step < 4; step++) {
        shuffle(77, order); /* not the opposite of registering, but always the same */
        bool disordered = false;
        for (int t = 0; t < TENSORS; t++) {
            CHECK(weft_training_ready(training, numbers[order[t]]) == WEFT_OK);
            disordered |= training->disordered;
        }
        CHECK(disordered == (step == 0));
        CHECK(weft_training_step(training, 0, NULL) == WEFT_OK);
    }
    weft_training_close(training);
    return 0;
}

static void ranks_agree_on_a_better_order(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, settle, NULL), 0);
}

/* ---- the program's own optimizer ---- */

static int average(weft_context *context, int rank, void *argument)
{
    weft_training_result result;
    weft_training *training;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.clip = 1;
    config.rate_scaling = WEFT_RATE_LINEAR;
    CHECK(weft_training_open(context, weft_world(context), &config, &training) == WEFT_OK);
    int number = weft_training_parameter(training, &(weft_parameter){.name = "p", .shape = {2}});
    CHECK(number == 0 && weft_training_start(training) == WEFT_OK);
    float *gradient = weft_training_gradient(training, number), *values = weft_training_values(training, number);
    gradient[0] = (float)(3 * rank), gradient[1] = (float)(4 * rank);
    CHECK(weft_training_ready(training, number) == WEFT_OK);
    CHECK(weft_training_step(training, 0.5, &result) == WEFT_OK);
    double mean = (weft_comm_size(weft_world(context)) - 1) / 2.0;
    CHECK(fabs(result.gradient_norm - 5 * mean) < 1e-5 && result.rate == 0.5 * weft_comm_size(weft_world(context)));
    CHECK(fabsf(gradient[0] - 0.6f) < 1e-6f && fabsf(gradient[1] - 0.8f) < 1e-6f && values[0] == 0);
    weft_training_close(training);
    return 0;
}

static void gradients_are_averaged_and_clipped_for_an_optimizer_of_ones_own(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 4}, average, NULL), 0);
}

/* ---- parameters with a treatment of their own ---- */

static int treat(weft_context *context, int rank, void *argument)
{
    const int zero = *(const int *)argument;
    weft_training *training;
    weft_training_result result;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.optimizer = WEFT_OPTIMIZER_SGD;
    config.momentum = 0;
    config.weight_decay = 0.5;
    config.zero = zero;
    CHECK(weft_training_open(context, weft_world(context), &config, &training) == WEFT_OK);
    static const weft_parameter parameters[] = {{.name = "frozen", .shape = {60, 90}, .frozen = 1},
                                                {.name = "slow", .shape = {5000}, .rate_factor = 0.25},
                                                {.name = "plain", .shape = {70, 70}},
                                                {.name = "undecayed", .shape = {70, 70}, .no_decay = 1}};
    static const size_t counts[] = {5400, 5000, 4900, 4900};
    static const float expected[] = {2, 2 - 0.25f * 0.1f, 2 - 0.1f * (1 + 0.5f * 2), 2 - 0.1f};
    for (int p = 0; p < 4; p++)
        CHECK(weft_training_parameter(training, &parameters[p]) == p);
    CHECK(weft_training_start(training) == WEFT_OK);
    for (int p = 0; p < 4; p++) {
        CHECK(weft_training_gather(training, p) == WEFT_OK);
        for (size_t e = 0; e < counts[p]; e++) {
            weft_training_values(training, p)[e] = 2;
            weft_training_gradient(training, p)[e] = p ? 1 : 1000;
        }
        CHECK(weft_training_share(training) == WEFT_OK);
    }
    for (int p = 3; p >= 0; p--)
        CHECK(weft_training_ready(training, p) == WEFT_OK);
    CHECK(weft_training_step(training, 0.1, &result) == WEFT_OK);
    CHECK(fabs(result.gradient_norm - sqrt(5000 + 4900 + 4900)) < 1e-6); /* not the frozen one's */
    CHECK(!weft_training_values(training, 2) == (zero == 3 && weft_comm_size(weft_world(context)) > 1));
    for (int p = 0; p < 4; p++) {
        CHECK(weft_training_gather(training, p) == WEFT_OK);
        for (size_t e = 0; e < counts[p]; e++)
            CHECK(fabsf(weft_training_values(training, p)[e] - expected[p]) < 1e-6f);
    }
    weft_training_close(training);
    return 0;
}

static void parameters_may_be_frozen_or_slower(void **state)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int zero = 0; zero <= 3; zero++)
            assert_int_equal(world_run(&(struct world){.ranks = ranks}, treat, &zero), 0);
}

/* ---- what ranks disagree about ---- */

#define CHECK_SAYS(words) CHECK(strstr(weft_message(context), words))

static int forget(weft_context *context, int rank, void *argument)
{
    const struct plan plan = {.optimizer = WEFT_OPTIMIZER_ADAMW, .micro_batches = 4, .zero = *(const int *)argument};
    int numbers[TENSORS];
    weft_training *training = open_training(context, rank, &plan, numbers);
    CHECK(training);
    CHECK(weft_training_gather(training, numbers[4]) == WEFT_OK);
    float before = weft_training_values(training, numbers[4])[5];
    for (int t = 0; t < TENSORS; t++)
        if (!(t == 4 && rank % 2) && !(t == 5 && rank == 2))
            CHECK(weft_training_ready(training, numbers[t]) == WEFT_OK);
    CHECK(weft_training_step(training, 1e-3, NULL) == WEFT_ERROR_MISMATCH);
    /* Which of the two comes first depends on rank 0's order of registering. */
    if (strstr(weft_message(context), "'down.weight'"))
        CHECK_SAYS("on ranks 1 and 3");
    else
        CHECK_SAYS("'down.bias' was not made ready in step 1 on rank 2");
    CHECK(weft_training_steps(training) == 0 && weft_training_values(training, numbers[4])[5] == before);

    /* The training goes on. */
    for (int t = 0; t < TENSORS; t++)
        CHECK(weft_training_ready(training, numbers[t]) == WEFT_OK);
    CHECK(weft_training_step(training, 1e-3, NULL) == WEFT_OK && weft_training_steps(training) == 1);
    weft_training_close(training);
    return 0;
}

static void a_gradient_that_is_not_ready_is_named_with_its_ranks(void **state)
{
    for (int zero = 0; zero <= 3; zero++)
        assert_int_equal(world_run(&(struct world){.ranks = 4}, forget, &zero), 0);
}

static int diverge(weft_context *context, int rank, void *argument)
{
    const bool noted = *(const int *)argument % 2; /* rather than in a gradient */
    const struct plan plan = {.optimizer = WEFT_OPTIMIZER_SGD, .micro_batches = 2, .zero = *(const int *)argument / 2};
    int numbers[TENSORS];
    weft_training_result result;
    weft_training *training = open_training(context, rank, &plan, numbers);
    CHECK(training);
    CHECK(weft_training_gather(training, numbers[6]) == WEFT_OK);
    float before = weft_training_values(training, numbers[6])[69999];
    weft_training_gradient(training, numbers[6])[69999] = rank && !noted ? NAN : 0;
    if (noted)
        CHECK(weft_training_note(training, 3, rank ? INFINITY : 1) == WEFT_OK);
    for (int t = 0; t < TENSORS; t++)
        CHECK(weft_training_ready(training, numbers[t]) == WEFT_OK);
    CHECK(weft_training_step(training, 1e-3, &result) == WEFT_ERROR_DATA);
    CHECK_SAYS("in step 1");
    CHECK_SAYS(noted ? "note 3 is inf" : "norm is nan");
    CHECK(noted ? isinf(result.notes[3]) : isnan(result.gradient_norm));
    CHECK(weft_training_values(training, numbers[6])[69999] == before);
    CHECK(result.step == 0 && weft_training_steps(training) == 0);
    weft_training_close(training);
    return 0;
}

static void a_gradient_or_note_that_is_no_number_changes_nothing(void **state)
{
    for (int i = 0; i < 2 * 4; i++)
        assert_int_equal(world_run(&(struct world){.ranks = 2}, diverge, &i), 0);
}

static int register_otherwise(weft_context *context, int rank, void *argument)
{
    const int what = *(int *)argument;
    weft_training *training;
    CHECK(weft_training_open(context, weft_world(context), NULL, &training) == WEFT_OK);
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "a", .shape = {2}}) == 0);
    if (what != 0 || rank != 2)
        CHECK(weft_training_parameter(training, &(weft_parameter){.name = "b", .shape = {3, 4}}) == 1);
    if (what == 1 && rank == 1)
        CHECK(weft_training_parameter(training, &(weft_parameter){.name = "c", .shape = {1}}) == 2);
    if (what == 2)
        CHECK(weft_training_parameter(training, &(weft_parameter){.name = "c", .shape = {5, rank == 3 ? 7 : 6}}) == 2);
    CHECK(weft_training_start(training) == WEFT_ERROR_MISMATCH);
    static const char *const words[] = {"'b' was not registered on rank 2, but on rank 0",
                                        "'c' was not registered on ranks 0, 2 and 3, but on rank 1",
                                        "'c' is [5, 6] on rank 0, but [5, 7] on rank 3"};
    CHECK_SAYS(words[what]);
    weft_training_close(training);
    return 0;
}

static void a_parameter_that_some_lack_is_named_with_its_ranks(void **state)
{
    for (int what = 0; what < 3; what++)
        assert_int_equal(world_run(&(struct world){.ranks = 4}, register_otherwise, &what), 0);
}

/* ---- what a program may get wrong ---- */

static int mistake(weft_context *context, int rank, void *argument)
{
    weft_training *training, *other = NULL;
    bool found = true;
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.beta2 = 1;
    CHECK(weft_training_open(context, weft_world(context), &config, &other) == WEFT_ERROR_ARGUMENT && !other);
    CHECK_SAYS("beta2");
    config.beta2 = 0.9;
    config.micro_batches = 2;
    CHECK(weft_training_open(context, weft_world(context), &config, &training) == WEFT_OK);
    CHECK(weft_training_start(training) == WEFT_ERROR_STATE);
    CHECK(weft_training_step(training, 1, NULL) == WEFT_ERROR_STATE);
    CHECK(weft_training_ready(training, 0) == WEFT_ERROR_STATE);
    CHECK(weft_training_values(training, 0) == NULL);
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "", .shape = {2}}) == -1);
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "empty"}) == -1);
    CHECK_SAYS("'empty'");
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "vast", .shape = {SIZE_MAX / 2, 3}}) == -1);
    CHECK_SAYS("too large");
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "p", .shape = {2}}) == 0);
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "p", .shape = {2}}) == -1);
    CHECK_SAYS("'p' is registered twice");
    CHECK(weft_training_start(training) == WEFT_OK);
    CHECK(weft_training_start(training) == WEFT_ERROR_STATE);
    CHECK(weft_training_parameter(training, &(weft_parameter){.name = "late", .shape = {2}}) == -1);
    CHECK(weft_training_ready(training, 1) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_training_note(training, WEFT_TRAINING_NOTES, 1) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_training_step(training, 1, NULL) == WEFT_ERROR_STATE); /* a micro-batch is missing */
    CHECK_SAYS("weft_training_accumulate()");
    CHECK(weft_training_ready(training, 0) == WEFT_OK);
    CHECK(weft_training_ready(training, 0) == WEFT_ERROR_STATE);
    CHECK_SAYS("'p' was made ready twice");
    CHECK(weft_training_accumulate(training) == WEFT_OK);
    CHECK(weft_training_accumulate(training) == WEFT_ERROR_STATE);
    CHECK(weft_training_load(training, "/nonexistent/directory", &found) == WEFT_OK && !found);
    CHECK(weft_training_save(training, "/proc/nothing", 1) != WEFT_OK);
    CHECK_SAYS("/proc/nothing");
    weft_training_close(training);
    return 0;
}

static void mistakes_are_messages(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 1}, mistake, NULL), 0);
}

/* A training with one parameter, or the error of opening or starting it. */
static weft_status start_one(weft_context *context, weft_optimizer optimizer, int micro_batches, int zero,
                             weft_training **training)
{
    weft_training_config config = WEFT_TRAINING_CONFIG_DEFAULT;
    config.optimizer = optimizer;
    config.micro_batches = micro_batches;
    config.zero = zero;
    weft_status status = weft_training_open(context, weft_world(context), &config, training);
    if (status != WEFT_OK)
        return status;
    weft_training_parameter(*training, &(weft_parameter){.name = "p", .shape = {3, 4}});
    return weft_training_start(*training);
}

static int ask_too_much(weft_context *context, int rank, void *argument)
{
    weft_training *training = NULL;
    weft_training_arrays arrays;
    uint16_t copy[16];
    CHECK(start_one(context, WEFT_OPTIMIZER_SGD, 2, 4, &training) == WEFT_ERROR_ARGUMENT);
    CHECK_SAYS("zero of a weft_training_config is 4");
    CHECK(start_one(context, WEFT_OPTIMIZER_OWN, 2, 2, &training) == WEFT_ERROR_ARGUMENT);
    CHECK_SAYS("which no rank has under ZeRO-2");
    CHECK(start_one(context, WEFT_OPTIMIZER_SGD, 1, 0, &training) == WEFT_ERROR_ARGUMENT);
    CHECK_SAYS("use at least 2 micro-batches, or fewer ranks");
    CHECK(weft_training_gather(training, 0) == WEFT_ERROR_STATE);
    weft_training_close(training);

    CHECK(start_one(context, WEFT_OPTIMIZER_SGD, 2, 3, &training) == WEFT_OK);
    CHECK(weft_training_gather(training, 1) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_training_release(training, -1) == WEFT_ERROR_ARGUMENT);
    CHECK(weft_training_release(training, 0) == WEFT_OK);
    CHECK(weft_training_keep_bf16(training, copy) == WEFT_ERROR_STATE);
    CHECK_SAYS("no rank has under ZeRO-3");
    CHECK(weft_training_get_arrays(training, &arrays) == WEFT_OK);
    CHECK(!arrays.values && !arrays.gradients && !arrays.first_moments && !arrays.count);
    CHECK(weft_training_gradient(training, 0) && weft_training_ready(training, 0) == WEFT_OK);
    CHECK(!weft_training_gradient(training, 0)); /* it is on its way */
    CHECK(weft_training_step(training, 1, NULL) == WEFT_OK);
    weft_training_close(training);
    return 0;
}

static void what_a_stage_of_zero_cannot_do_is_a_message(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 2}, ask_too_much, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_gives_the_bits_of_one_rank),
        cmocka_unit_test(all_stages_of_zero_give_the_same_bits),
        cmocka_unit_test(rounded_gradients_do_not_depend_on_ranks),
        cmocka_unit_test(a_checkpoint_goes_on_anywhere),
        cmocka_unit_test(ranks_on_other_processors_keep_the_same_values),
        cmocka_unit_test(a_checkpoint_of_another_program_has_no_public_form),
        cmocka_unit_test(a_rounded_copy_follows),
        cmocka_unit_test(ranks_agree_on_a_better_order),
        cmocka_unit_test(gradients_are_averaged_and_clipped_for_an_optimizer_of_ones_own),
        cmocka_unit_test(parameters_may_be_frozen_or_slower),
        cmocka_unit_test(a_gradient_that_is_not_ready_is_named_with_its_ranks),
        cmocka_unit_test(a_gradient_or_note_that_is_no_number_changes_nothing),
        cmocka_unit_test(a_parameter_that_some_lack_is_named_with_its_ranks),
        cmocka_unit_test(mistakes_are_messages),
        cmocka_unit_test(what_a_stage_of_zero_cannot_do_is_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
