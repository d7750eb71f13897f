/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run whose numbers overflow says in which step, on which rank, in which micro-batch and from which layer, does not
 * take the step, and leaves the checkpoints as they are. The overflow is put into a checkpoint, which is then resumed.
 */
#include "training/checkpoint/checkpoint.h"
#include "training/data/dataset.h"
#include "training/train/loop/trainer.h"

#include "../unit/temporary.h"
#include "../world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SEQUENCE   32
#define BATCH      4
#define VOCABULARY 50
#define STEPS      2 /* before the numbers are spoilt */

/* The head has a matrix of its own, so that a token's row is read where that token is and nowhere else. */
static const struct train_config common = {
    .shape = {.kind = "llama",
              .layers = 3,
              .heads = 2,
              .width = 16,
              .context = SEQUENCE,
              .vocabulary = VOCABULARY,
              .untied = true},
    .model = "a small llama",
    .data = "random",
    .steps = STEPS + 2,
    .batch = BATCH,
    .micro_batch = 1,
    .sequence = SEQUENCE,
    .seed = 3,
    .rate = 1e-3,
    .floor_share = 1,
    .optimizer = {.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .trust = 1e-3},
    .clip = 1,
    .gradients = WEFT_F32,
    .bucket_bytes = 4096,
    .threads = 1,
    .prompt = "x",
};

struct test {
    const char *directory;
    void (*spoil)(const struct model_description *description, float *parameters);
    struct error errors[2]; /* of each rank */
    bool speaks[2];
};

static weft_status train(weft_context *context, const struct train_config *config, bool *speaks, struct error *error)
{
    struct trainer *trainer = NULL;
    weft_status status = trainer_open(config, context, weft_world(context), NULL, NULL, &trainer, speaks, error);
    if (status == WEFT_OK)
        status = trainer_run(trainer, speaks, error);
    trainer_close(trainer);
    return status;
}

/* Read all tensors: weights to their places in `values`, the others, to `others`. */
static weft_status read_tensors(const struct checkpoint *checkpoint, const struct model_description *description,
                                float *values, float *others, struct named_tensor *weights,
                                struct named_tensor *moments, struct error *error)
{
    size_t count, weight_count = 0, moment_count = 0;
    const struct named_tensor *all = checkpoint_tensors(checkpoint, &count);
    for (size_t i = 0; i < count; i++) {
        const struct model_parameter *parameter = model_parameter_find(description, all[i].name);
        struct named_tensor *tensor = parameter ? &weights[weight_count++] : &moments[moment_count++];
        *tensor = all[i];
        tensor->data = parameter ? values + parameter->offset : others;
        if (!parameter)
            others += named_tensor_elements(tensor);
    }
    assert_int_equal(weight_count, description->parameter_count);
    assert_int_equal(moment_count, 2 * description->parameter_count);
    weft_status status = checkpoint_read(checkpoint, weights, weight_count, error);
    return status == WEFT_OK ? checkpoint_read(checkpoint, moments, moment_count, error) : status;
}

/* Adds a spoilt checkpoint after the newest one. */
static weft_status spoil(const struct test *test, const struct train_config *config)
{
    struct error error = {0};
    struct model_description *description;
    struct checkpoint *checkpoint = NULL;
    weft_status status = model_describe(&config->shape, &description, &error);
    if (status != WEFT_OK)
        return status;
    const size_t parameters = description->parameter_count;
    float *values = calloc(3 * description->elements, sizeof *values);
    struct named_tensor *weights = calloc(3 * parameters, sizeof *weights), *moments = weights + parameters;
    status = checkpoint_open(test->directory, &checkpoint, &error);
    if (status == WEFT_OK)
        status =
            read_tensors(checkpoint, description, values, values + description->elements, weights, moments, &error);
    if (status == WEFT_OK) {
        struct checkpoint_state state = *checkpoint_get_state(checkpoint);
        test->spoil(description, values);
        state.step++;
        state.position += BATCH;
        status = checkpoint_save(test->directory, &state, weights, parameters, moments, 2 * parameters, 0, &error);
    }
    if (status != WEFT_OK)
        fprintf(stderr, "%s\n", error.text);
    checkpoint_close(checkpoint);
    free(weights);
    free(values);
    model_description_free(description);
    return status;
}

static int body(weft_context *context, int rank, void *argument)
{
    struct test *test = argument;
    struct train_config config = common;
    struct error error = {0};
    bool speaks;
    config.checkpoint_dir = test->directory;
    config.stop_at = STEPS;
    CHECK(train(context, &config, &speaks, &error) == WEFT_OK);
    if (rank == 0)
        CHECK(spoil(test, &config) == WEFT_OK);
    config.stop_at = 0;
    config.resume = test->directory;
    CHECK(train(context, &config, &test->speaks[rank], &test->errors[rank]) == WEFT_ERROR_DATA);
    struct checkpoint *checkpoint;
    CHECK(checkpoint_open(test->directory, &checkpoint, &error) == WEFT_OK);
    CHECK(checkpoint_get_state(checkpoint)->step == STEPS + 1);
    checkpoint_close(checkpoint);
    return 0;
}

/* `expected` stands in the message of every rank, which `speaker` alone prints. */
static void expect_told(int ranks, void (*spoiler)(const struct model_description *, float *), int speaker,
                        const char *const *expected)
{
    struct test test = {.directory = temporary_directory(), .spoil = spoiler};
    assert_int_equal(world_run(&(struct world){.ranks = ranks}, body, &test), 0);
    file_remove_tree(test.directory, NULL);
    for (int rank = 0; rank < ranks; rank++) {
        for (const char *const *part = expected; *part; part++)
            if (!strstr(test.errors[rank].text, *part))
                fail_msg("rank %d of %d said: %s\nand not: %s", rank, ranks, test.errors[rank].text, *part);
        assert_int_equal(test.speaks[rank], rank == speaker);
    }
}

static float *tensor(const struct model_description *description, float *parameters, const char *name, size_t *count)
{
    const struct model_parameter *parameter = model_parameter_find(description, name);
    assert_non_null(parameter);
    *count = parameter->count;
    return parameters + parameter->offset;
}

static void multiply(const struct model_description *description, float *parameters, const char *name, float factor)
{
    size_t count;
    float *values = tensor(description, parameters, name, &count);
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* ---- outputs ---- */

static void huge_gain(const struct model_description *description, float *parameters)
{
    multiply(description, parameters, "model.layers.1.post_attention_layernorm.weight", 1e38f);
}

static void the_first_layer_with_an_infinite_output_is_named(void **state)
{
    static const char *const expected[] = {"loss of step 4 is nan",
                                           "in the output of layer model.layers.1.feed-forward, on rank 0 in "
                                           "micro-batch 1 of 4; the step was not taken: lower --learning-rate",
                                           NULL};
    expect_told(1, huge_gain, 0, expected);
    expect_told(2, huge_gain, 0, expected);
}

/* The tokens of micro-batch `number` of the step that goes wrong, and those that follow them. */
static void read_both(uint64_t number, int32_t tokens[SEQUENCE], int32_t targets[SEQUENCE])
{
    struct dataset *dataset;
    const struct dataset_options options = {
        .sequence = SEQUENCE, .seed = (uint64_t)common.seed, .vocabulary = VOCABULARY};
    assert_int_equal(dataset_open_random(&options, &dataset, NULL), WEFT_OK);
    assert_int_equal(dataset_batch(dataset, DATASET_TRAIN, (STEPS + 1) * BATCH + number, 1, tokens, targets, NULL),
                     WEFT_OK);
    dataset_close(dataset);
}

static void read_tokens(uint64_t number, int32_t tokens[SEQUENCE])
{
    int32_t targets[SEQUENCE];
    read_both(number, tokens, targets);
}

/* A token that the last micro-batch alone reads. */
static size_t token_of_the_last(void)
{
    bool read[VOCABULARY] = {false};
    int32_t tokens[SEQUENCE];
    for (uint64_t number = 0; number + 1 < BATCH; number++) {
        read_tokens(number, tokens);
        for (size_t i = 0; i < SEQUENCE; i++)
            read[tokens[i]] = true;
    }
    read_tokens(BATCH - 1, tokens);
    for (size_t i = 0; i < SEQUENCE; i++)
        if (!read[tokens[i]])
            return (size_t)tokens[i];
    fail_msg("every token of the last micro-batch is in another one, too; choose another seed");
    return 0;
}

static void spoilt_row(const struct model_description *description, float *parameters)
{
    size_t count;
    float *table = tensor(description, parameters, "model.embed_tokens.weight", &count);
    table[token_of_the_last() * common.shape.width] = NAN;
}

static void the_rank_whose_sample_it_was_is_named(void **state)
{
    static const char place[] = "in the output of layer embedding, on rank %d in micro-batch 4 of 4, and "
                                "model.embed_tokens.weight is not finite itself; go on from an older checkpoint";
    for (int ranks = 1; ranks <= 2; ranks++) {
        char text[256];
        snprintf(text, sizeof text, place, ranks - 1);
        expect_told(ranks, spoilt_row, ranks - 1, (const char *const[]){"loss of step 4 is nan", text, NULL});
    }
}

/* ---- gradients ---- */

/* What comes out of the layer is 0 times a huge number, and what goes back into it a large one times that. */
static void huge_slope(const struct model_description *description, float *parameters)
{
    multiply(description, parameters, "model.layers.1.mlp.up_proj.weight", 0);
    size_t count;
    float *down = tensor(description, parameters, "model.layers.1.mlp.down_proj.weight", &count);
    for (size_t i = 0; i < count; i++)
        down[i] = 3e38f;
    multiply(description, parameters, "model.norm.weight", 1e6f);
    multiply(description, parameters, "lm_head.weight", 1e6f);
}

static void the_first_layer_with_an_infinite_gradient_is_named(void **state)
{
    static const char *const expected[] = {"gradient's norm of step 4 is",
                                           "among the gradients of layer model.layers.1.feed-forward, on rank 0 in "
                                           "micro-batch 1 of 4",
                                           NULL};
    expect_told(1, huge_slope, 0, expected);
    expect_told(2, huge_slope, 0, expected);
}

/* ---- sums ---- */

#define HUGE_WEIGHT 2.2e38f

/* The head's weight for a token: as many are negative as positive, so their mean is 0. */
static float head_weight(int32_t token)
{
    return token % 2 ? HUGE_WEIGHT : -HUGE_WEIGHT;
}

/*
 * The last norm's gain is 0, so all logits are. Its gradient is the mean over the rows of what comes back from the head, -
 * head_weight(target) / SEQUENCE, times the row before the gain: all ones, with the sign that most targets of that token
 * have. So the micro-batches' gradients have one sign; each is finite, but the sum of four is not.
 */
static void huge_slopes(const struct model_description *description, float *parameters)
{
    float votes[VOCABULARY] = {0};
    size_t count;
    for (uint64_t number = 0; number < BATCH; number++) {
        int32_t tokens[SEQUENCE], targets[SEQUENCE];
        read_both(number, tokens, targets);
        for (size_t i = 0; i < SEQUENCE; i++)
            votes[tokens[i]] += targets[i] % 2 ? 1 : -1;
    }
    float *table = tensor(description, parameters, "model.embed_tokens.weight", &count);
    for (size_t i = 0; i < count; i++) /* so large that other layers add nothing to it */
        table[i] = votes[i / common.shape.width] < 0 ? -1e4f : 1e4f;
    multiply(description, parameters, "model.norm.weight", 0);
    float *head = tensor(description, parameters, "lm_head.weight", &count);
    for (size_t i = 0; i < count; i++)
        head[i] = head_weight((int32_t)(i / common.shape.width));
}

static void a_sum_that_is_too_large_is_told(void **state)
{
    static const char *const expected[] = {
        "gradient's norm of step 4 is inf, though every micro-batch's own numbers are finite", NULL};
    expect_told(1, huge_slopes, 0, expected);
    expect_told(2, huge_slopes, 0, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_layer_with_an_infinite_output_is_named),
        cmocka_unit_test(the_rank_whose_sample_it_was_is_named),
        cmocka_unit_test(the_first_layer_with_an_infinite_gradient_is_named),
        cmocka_unit_test(a_sum_that_is_too_large_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
