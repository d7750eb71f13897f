/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fifty steps of training as PyTorch 1.13 takes them in single precision, from the same weights and tokens: forward,
 * backward, clipping, the learning rate, AdamW. The tables are what training_pytorch.py prints: the loss of each step.
 */
#include "../bert_support.h"
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
static const struct model_shape bert = {
    .kind = "bert", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape bert_classes = {
    .kind = "bert", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY, .classes = 3};
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

static const double bert_losses[STEPS] = {
    4.0610228, 4.5852671, 4.2680206, 4.0112982, 3.5355527, 3.8369417, 3.8019435, 3.5863154, 3.2015319, 3.4909735,
    3.2529263, 3.048728,  2.9239824, 3.15838,   2.8011298, 2.6784534, 2.6676404, 2.8163314, 2.4101393, 2.4187908,
    2.3849189, 2.4816055, 2.1643078, 2.1888323, 2.0413139, 2.1531746, 1.9506671, 1.9921215, 1.7421848, 1.735111,
    1.7507776, 1.8575953, 1.5100303, 1.4554012, 1.6065826, 1.6555216, 1.3350775, 1.2620572, 1.4993765, 1.5315633,
    1.2218157, 1.1562642, 1.4235725, 1.4530666, 1.1478715, 1.0919342, 1.3731866, 1.4020445, 1.1005697, 1.0502355,
};
static const double bert_classes_losses[STEPS] = {
    1.1498394,   1.0398979,   1.1249423,   0.96987087,  1.0710988,   0.96351665,  0.89422619,  0.84782624,  1.036902,
    0.72901785,  0.7259196,   0.65614581,  0.92748868,  0.56645262,  0.53375721,  0.53706682,  0.65736508,  0.37779641,
    0.34870672,  0.35679966,  0.43864039,  0.18303357,  0.19843374,  0.17928894,  0.240363,    0.11634871,  0.12668136,
    0.094730705, 0.10728624,  0.086627126, 0.090180725, 0.070513114, 0.070472829, 0.066334277, 0.072558522, 0.055627532,
    0.057913888, 0.053724796, 0.058309458, 0.046432652, 0.04833468,  0.046535145, 0.050324555, 0.041158393, 0.043200083,
    0.042418174, 0.04612086,  0.038048457, 0.040308055, 0.03982354,
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

/* Of a BERT: micro-batch `number` of a batch. */
static struct model_batch part_of_batch(const struct model_batch *batch, size_t number)
{
    const size_t predictions = model_masked_predictions(SEQUENCE), first = number * MICRO_BATCH;
    return (struct model_batch){.tokens = batch->tokens + first * SEQUENCE,
                                .segments = batch->segments + first * SEQUENCE,
                                .lengths = batch->lengths + first,
                                .labels = batch->labels + first,
                                .positions = batch->positions ? batch->positions + first * predictions : NULL,
                                .targets = batch->targets ? batch->targets + first * predictions : NULL};
}

/* Loss and gradient, summed over the micro-batches of a step. */
static double add_up(struct run *run, uint64_t step)
{
    int32_t tokens[MICRO_BATCHES * MICRO_BATCH * SEQUENCE + 1];
    const struct model_shape *shape = &run->description->shape;
    const bool is_bert = strcmp(shape->kind, "bert") == 0;
    struct bert_sample_arrays samples;
    struct model_batch all = {0};
    double sum = 0;
    if (is_bert)
        all = bert_batch_make(&samples, 400 + 100 * (step % BATCHES), MICRO_BATCHES * MICRO_BATCH, SEQUENCE, VOCABULARY,
                              shape->classes);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)random_below(200 + step % BATCHES, i, VOCABULARY);
    for (size_t i = 0; i < MICRO_BATCHES; i++) {
        const int32_t *first = tokens + i * MICRO_BATCH * SEQUENCE;
        const struct model_batch batch =
            is_bert ? part_of_batch(&all, i) : (struct model_batch){.tokens = first, .targets = first + 1};
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

static const struct {
    const char *name;
    const struct model_shape *shape;
    const double *losses;
} networks_trained[] = {{"gpt", &gpt, gpt_losses},
                        {"llama", &llama, llama_losses},
                        {"bert", &bert, bert_losses},
                        {"bert to classify", &bert_classes, bert_classes_losses}};
#define NETWORKS (sizeof networks_trained / sizeof *networks_trained)

static void expect_agreement(const char *device, double tolerance)
{
    for (size_t i = 0; i < NETWORKS; i++) {
        const double distance =
            distance_from(networks_trained[i].shape, device, networks_trained[i].losses, adamw.weight_decay);
        printf("%s: %s within %.1e\n", device, networks_trained[i].name, distance);
        assert_true(distance <= tolerance);
    }
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
    for (size_t i = 0; i < NETWORKS; i++)
        assert_true(networks_trained[i].losses[STEPS - 1] < 0.6 * networks_trained[i].losses[0]);
}

/* A weight decay a tenth off is seen. */
static void a_wrong_optimizer_is_caught(void **state)
{
    for (size_t i = 0; i < 3; i++)
        assert_true(distance_from(networks_trained[i].shape, "cpu", networks_trained[i].losses,
                                  0.9 * adamw.weight_decay) > 3 * TOLERANCE);
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
