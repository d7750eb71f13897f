/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fifty steps of training as PyTorch 1.13 takes them in single precision, from the same weights and tokens: forward,
 * backward, clipping, the learning rate, AdamW. The tables are what training_pytorch.py prints: the loss of each step.
 */
#include "training/model/model.h"
#include "training/optimizer/learning_rate.h"
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

#define STEPS         50
#define BATCHES       4 /* of tokens, read in turns */
#define MICRO_BATCHES 2 /* of a step */
#define MICRO_BATCH   2
#define SEQUENCE      9
#define VOCABULARY    29
#define CLIP          1.0
#define TOLERANCE     1e-5 /* 1e-7 is what f32 leaves of it */

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape llama = {.kind = "llama",
                                         .layers = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .width = 16,
                                         .hidden = 24,
                                         .context = 12,
                                         .vocabulary = VOCABULARY,
                                         .rotary_base = 100,
                                         .untied = true};
static const struct learning_rate schedule = {
    .shape = LEARNING_RATE_COSINE, .peak = 1e-2, .floor = 1e-3, .warmup = 5, .steps = STEPS};
static const struct optimizer adamw = {
    .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

static const double gpt_losses[STEPS] = {
    3.4402032, 3.4119787, 3.4191899, 3.5407529, 3.2521698, 3.226557,  3.1963673, 3.2871554, 3.0794892, 3.0750749,
    3.0388861, 3.0660229, 2.9264383, 2.8827953, 2.9488509, 2.9008632, 2.8034315, 2.7679262, 2.8039782, 2.7612293,
    2.6783535, 2.6569798, 2.6294155, 2.6769507, 2.5905576, 2.477334,  2.5000255, 2.5343225, 2.4842527, 2.3582909,
    2.4116471, 2.4385805, 2.3874359, 2.2495406, 2.3076141, 2.3409548, 2.3045645, 2.1635804, 2.2321351, 2.274637,
    2.2388556, 2.1005397, 2.159713,  2.2258763, 2.1871774, 2.0610304, 2.1103468, 2.1885214, 2.1528571, 2.0301933,
};
static const double llama_losses[STEPS] = {
    3.4126508, 3.5994403, 3.4422848, 3.4571352, 3.0886855, 3.2027612, 3.1505351, 3.1497402, 2.8061388, 2.9046912,
    2.9610789, 2.9248424, 2.582751,  2.6472032, 2.7204311, 2.7055619, 2.406981,  2.4008565, 2.5018454, 2.4839389,
    2.2375271, 2.1827831, 2.2822978, 2.2628508, 2.0319881, 1.9924359, 2.0700984, 2.0600021, 1.8523984, 1.8389754,
    1.8761762, 1.8856996, 1.7072444, 1.7050884, 1.713499,  1.7425148, 1.5909532, 1.6040572, 1.5880418, 1.6377628,
    1.5037102, 1.5269994, 1.4959472, 1.5644386, 1.4420058, 1.4690956, 1.4320333, 1.5132163, 1.3975667, 1.4258845,
};

struct run {
    struct device *device;
    struct model_description *description;
    struct model *model;
    float *parameters, *gradients, *sum, *first_moments, *second_moments;
    double *squares;
};

static void run_open(struct run *run, const struct model_shape *shape, const char *device)
{
    run->device = open_device(device, 1);
    assert_int_equal(model_describe(shape, &run->description, NULL), WEFT_OK);
    assert_int_equal(model_open(run->description, run->device,
                                &(struct model_options){.batch = MICRO_BATCH, .sequence = SEQUENCE, .training = true},
                                &run->model, NULL),
                     WEFT_OK);
    const size_t elements = run->description->elements;
    float **const arrays[] = {&run->parameters, &run->gradients, &run->sum, &run->first_moments, &run->second_moments};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = make_array(run->device, run->description->gradient_elements);
    run->squares = calloc(tree_blocks(elements), sizeof *run->squares);
    for (size_t i = 0; i < run->description->parameter_count; i++) {
        const struct model_parameter *parameter = &run->description->parameters[i];
        for (size_t k = 0; k < parameter->count; k++)
            run->parameters[parameter->offset + k] = (float)(parameter->mean + 0.1 * random_normal(i, k));
    }
}

static void run_close(struct run *run)
{
    float *const arrays[] = {run->parameters, run->gradients, run->sum, run->first_moments, run->second_moments};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        run->device->release(run->device, arrays[i]);
    free(run->squares);
    model_close(run->model);
    model_description_free(run->description);
    run->device->close(run->device);
}

/* Loss and gradient, summed over the micro-batches of a step. */
static double add_up(struct run *run, uint64_t step)
{
    int32_t tokens[MICRO_BATCHES * MICRO_BATCH * SEQUENCE + 1];
    double sum = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)random_below(200 + step % BATCHES, i, VOCABULARY);
    for (size_t i = 0; i < MICRO_BATCHES; i++) {
        const int32_t *first = tokens + i * MICRO_BATCH * SEQUENCE;
        const struct model_batch batch = {.tokens = first, .targets = first + 1};
        double loss;
        assert_int_equal(model_forward(run->model, run->parameters, &batch, &loss, NULL), WEFT_OK);
        assert_int_equal(model_backward(run->model, run->parameters, i ? run->gradients : run->sum, NULL, NULL, NULL),
                         WEFT_OK);
        if (i)
            run->device->add(run->device, run->description->elements, run->sum, run->gradients, run->sum);
        sum += loss;
    }
    return sum;
}

/* The loss before the step. */
static double take_step(struct run *run, uint64_t number, double decay)
{
    const double mean = 1.0 / MICRO_BATCHES, loss = mean * add_up(run, number);
    const size_t elements = run->description->elements;
    const double norm = mean * optimizer_gradient_norm(run->device, elements, run->sum, run->squares);
    const struct optimizer_step step = {.number = number + 1,
                                        .rate = learning_rate_at(&schedule, number),
                                        .gradient_scale = mean * (norm > CLIP ? CLIP / norm : 1)};
    const struct optimizer_arrays arrays = {.parameters = run->parameters,
                                            .gradients = run->sum,
                                            .first_moments = run->first_moments,
                                            .second_moments = run->second_moments,
                                            .as_activations = model_weights_as_activations(run->model)};
    struct optimizer optimizer = adamw;
    optimizer.weight_decay = decay;
    optimizer_update(run->description, run->device, &optimizer, &step, 0, elements, &arrays);
    finish_device(run->device);
    return loss;
}

/* The largest relative distance of the losses from PyTorch's. */
static double distance_from(const struct model_shape *shape, const char *device, const double *losses, double decay)
{
    struct run run;
    double worst = 0;
    run_open(&run, shape, device);
    for (uint64_t step = 0; step < STEPS; step++)
        worst = fmax(worst, fabs(take_step(&run, step, decay) - losses[step]) / losses[step]);
    run_close(&run);
    return worst;
}

static void expect_agreement(const char *device, double tolerance)
{
    const double of_gpt = distance_from(&gpt, device, gpt_losses, adamw.weight_decay);
    const double of_llama = distance_from(&llama, device, llama_losses, adamw.weight_decay);
    printf("%s: gpt within %.1e, llama within %.1e\n", device, of_gpt, of_llama);
    assert_true(of_gpt <= tolerance);
    assert_true(of_llama <= tolerance);
}

static void fifty_steps_agree_with_pytorch(void **state)
{
    expect_agreement("cpu", TOLERANCE);
    expect_agreement("reference-f32", TOLERANCE);
}

static void fifty_steps_in_mixed_precision_stay_near(void **state)
{
    expect_agreement("cpu-bf16", 0.03);
    expect_agreement("cpu-f16", 0.004);
}

static void the_networks_learn_what_they_are_shown(void **state)
{
    assert_true(gpt_losses[STEPS - 1] < 0.6 * gpt_losses[0]);
    assert_true(llama_losses[STEPS - 1] < 0.6 * llama_losses[0]);
}

/* A weight decay a tenth off is seen. */
static void a_wrong_optimizer_is_caught(void **state)
{
    assert_true(distance_from(&gpt, "cpu", gpt_losses, 0.9 * adamw.weight_decay) > 3 * TOLERANCE);
    assert_true(distance_from(&llama, "cpu", llama_losses, 0.9 * adamw.weight_decay) > 3 * TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifty_steps_agree_with_pytorch),
        cmocka_unit_test(fifty_steps_in_mixed_precision_stay_near),
        cmocka_unit_test(the_networks_learn_what_they_are_shown),
        cmocka_unit_test(a_wrong_optimizer_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
