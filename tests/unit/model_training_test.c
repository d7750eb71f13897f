/* SPDX-License-Identifier: Apache-2.0 */
/* Training: a model learns a few sequences by heart, says them back, and does so with the same bits every time. */
#include "training/model/decoder.h"
#include "training/model/model.h"
#include "training/model/sample.h"
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 2, .heads = 2, .width = 32, .context = 24, .vocabulary = 128};
static const struct model_shape llama = {
    .kind = "llama", .layers = 2, .heads = 4, .width = 32, .context = 24, .vocabulary = 128, .kv_heads = 2};
static const struct model_shape mlp = {
    .kind = "mlp", .layers = 2, .width = 16, .window = 6, .hidden = 48, .context = 24, .vocabulary = 128};
static const struct model_shape *shape; /* of the tests that run */
static const char text[] = "in the beginning was the word; ";
#define BATCH    4
#define SEQUENCE 24
#define STEPS    250

struct training {
    struct device *device;
    struct model_description *description;
    struct model *model;
    void *parameters, *gradients, *first_moments, *second_moments;
    struct optimizer optimizer;
    double rate;
    double first_loss, last_loss;
    double lowest_loss; /* at a constant learning rate, later losses may be higher for some steps */
};

static void training_open(struct training *training, const char *device, int threads)
{
    struct error error = {0};
    training->optimizer =
        (struct optimizer){.kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.01};
    training->rate = 3e-3;
    training->device = open_device(device, threads);
    if (model_describe(shape, &training->description, &error) != WEFT_OK ||
        model_open(training->description, training->device,
                   &(struct model_options){.batch = BATCH, .sequence = SEQUENCE, .training = true}, &training->model,
                   &error) != WEFT_OK)
        fail_msg("%s", error.text);
    size_t elements = training->description->elements;
    training->parameters = make_array(training->device, elements);
    training->gradients = make_array(training->device, training->description->gradient_elements);
    training->first_moments = make_array(training->device, elements);
    training->second_moments = make_array(training->device, elements);
    assert_int_equal(model_initialize(training->description, training->device, training->parameters, 42, NULL),
                     WEFT_OK);
}

static void training_close(struct training *training)
{
    model_close(training->model);
    model_description_free(training->description);
    training->device->release(training->device, training->parameters);
    training->device->release(training->device, training->gradients);
    training->device->release(training->device, training->first_moments);
    training->device->release(training->device, training->second_moments);
    training->device->close(training->device);
}

static void training_run(struct training *training, int steps)
{
    int32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    for (size_t i = 0; i < BATCH * SEQUENCE; i++) {
        size_t place = i / SEQUENCE * 5 + i % SEQUENCE;
        tokens[i] = text[place % (sizeof text - 1)];
        targets[i] = text[(place + 1) % (sizeof text - 1)];
    }
    size_t elements = training->description->elements;
    double *sums = malloc(tree_blocks(elements) * sizeof *sums);
    for (int i = 0; i < steps; i++) {
        struct model_batch batch = {.tokens = tokens, .targets = targets};
        struct error error = {0};
        if (model_forward(training->model, training->parameters, &batch, &training->last_loss, &error) != WEFT_OK ||
            model_backward(training->model, training->parameters, training->gradients, NULL, NULL, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        if (i == 0)
            training->first_loss = training->lowest_loss = training->last_loss;
        training->lowest_loss = fmin(training->lowest_loss, training->last_loss);
        double norm = optimizer_gradient_norm(training->device, elements, training->gradients, sums);
        const struct optimizer_step step = {
            .number = (uint64_t)i + 1, .rate = training->rate, .gradient_scale = norm > 1 ? 1 / norm : 1};
        const struct optimizer_arrays arrays = {.parameters = training->parameters,
                                                .gradients = training->gradients,
                                                .first_moments = training->first_moments,
                                                .second_moments = training->second_moments,
                                                .as_activations = model_weights_as_activations(training->model),
                                                .sums = sums};
        optimizer_update(training->description, training->device, &training->optimizer, &step, 0, elements, &arrays);
    }
    free(sums);
}

static void a_small_text_is_learned_by_heart_and_said_back(void **state)
{
    struct training training;
    training_open(&training, "cpu", 1);
    training_run(&training, STEPS);
    assert_true(fabs(training.first_loss - log((double)shape->vocabulary)) < 0.3); /* nothing known at first */
    if (!(training.last_loss < 0.05)) /* each kernel set has another: 0.01 to 0.03 were seen */
        fail_msg("the loss stayed at %g", training.last_loss);

    struct model *reader;
    struct decoder *decoder;
    assert_int_equal(model_open(training.description, training.device,
                                &(struct model_options){.batch = 1, .sequence = SEQUENCE}, &reader, NULL),
                     WEFT_OK);
    assert_int_equal(decoder_open(reader, training.parameters, &decoder, NULL), WEFT_OK);
    const int32_t prompt[] = {'i', 'n', ' ', 't', 'h', 'e', ' ', 'b'};
    assert_int_equal(decoder_append(decoder, prompt, 8, NULL), WEFT_OK);
    for (size_t i = 0; i < 16; i++) {
        const double *logits;
        int32_t token;
        assert_int_equal(decoder_read(decoder, &logits, NULL), WEFT_OK);
        assert_int_equal(sample_draw(logits, shape->vocabulary, &(struct sample_options){0}, i, NULL, &token, NULL),
                         WEFT_OK);
        assert_int_equal(token, text[8 + i]);
        assert_int_equal(decoder_append(decoder, &token, 1, NULL), WEFT_OK);
    }
    decoder_close(decoder);
    model_close(reader);
    training_close(&training);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    struct training one;
    training_open(&one, "cpu", 1);
    training_run(&one, 5);
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        struct training again;
        training_open(&again, "cpu", threads);
        training_run(&again, 5);
        assert_memory_equal(one.parameters, again.parameters, one.description->elements * sizeof(float));
        assert_memory_equal(one.second_moments, again.second_moments, one.description->elements * sizeof(float));
        training_close(&again);
    }
    training_close(&one);
}

/* In mixed precision the same text is learned, and the copy of the weights that training keeps is the one that a model
 * makes for itself. */
static void mixed_precision_learns_as_well(void **state)
{
    struct training training;
    struct model *reader;
    training_open(&training, "cpu-bf16", 1);
    training_run(&training, STEPS);
    if (!(training.lowest_loss < 0.03))
        fail_msg("the loss stayed at %g", training.lowest_loss);
    const struct model_options options = {.batch = BATCH, .sequence = SEQUENCE, .training = true};
    assert_int_equal(model_open(training.description, training.device, &options, &reader, NULL), WEFT_OK);
    int32_t tokens[BATCH * SEQUENCE] = {0};
    const struct model_batch batch = {.tokens = tokens, .targets = tokens};
    double kept, made;
    assert_int_equal(model_evaluate(training.model, training.parameters, &batch, &kept, NULL), WEFT_OK);
    assert_int_equal(model_evaluate(reader, training.parameters, &batch, &made, NULL), WEFT_OK);
    assert_true(kept == made);
    /* Who changes weights by other means says so. */
    float *parameters = training.parameters;
    const struct model_description *description = training.description;
    parameters[description->parameters[description->parameter_count - 1].offset] += 1;
    model_weights_changed(training.model);
    model_weights_changed(reader);
    assert_int_equal(model_evaluate(training.model, training.parameters, &batch, &made, NULL), WEFT_OK);
    assert_true(kept != made);
    assert_int_equal(model_evaluate(reader, training.parameters, &batch, &kept, NULL), WEFT_OK);
    assert_true(kept == made);
    model_close(reader);
    training_close(&training);
}

static void every_optimizer_learns(void **state)
{
    static const struct {
        enum optimizer_kind kind;
        double rate, at_most;
    } all[] = {
        {OPTIMIZER_ADAMW, 3e-3, 0.05}, {OPTIMIZER_SGD, 0.3, 3}, {OPTIMIZER_LAMB, 1e-2, 0.1}, {OPTIMIZER_LARS, 10, 3}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct training training;
        training_open(&training, "cpu", 1);
        training.optimizer.kind = all[i].kind;
        training.optimizer.momentum = 0.9;
        training.optimizer.trust = 1e-3;
        training.rate = all[i].rate;
        training_run(&training, STEPS);
        if (!(training.last_loss < all[i].at_most))
            fail_msg("%s: the loss stayed at %g", optimizer_names[all[i].kind], training.last_loss);
        training_close(&training);
    }
}

static void fast_and_reference_devices_learn_alike(void **state)
{
    struct training fast, exact;
    for (enum optimizer_kind kind = OPTIMIZER_ADAMW; kind <= OPTIMIZER_LARS; kind++) {
        training_open(&fast, "cpu", 1);
        training_open(&exact, "reference", 1);
        fast.optimizer.kind = exact.optimizer.kind = kind;
        fast.optimizer.momentum = exact.optimizer.momentum = 0.9;
        fast.optimizer.trust = exact.optimizer.trust = 1e-3;
        training_run(&fast, 2);
        training_run(&exact, 2);
        assert_true(fabs(fast.first_loss - exact.first_loss) < 1e-5);
        assert_true(fabs(fast.last_loss - exact.last_loss) < 1e-4);
        training_close(&fast);
        training_close(&exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_text_is_learned_by_heart_and_said_back),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(mixed_precision_learns_as_well),
        cmocka_unit_test(every_optimizer_learns),
        cmocka_unit_test(fast_and_reference_devices_learn_alike),
    };
    static const struct model_shape *const shapes[] = {&gpt, &llama, &mlp};
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        shape = shapes[i];
        printf("a %s\n", shape->kind);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
