/* SPDX-License-Identifier: Apache-2.0 */
/* Image networks: published sizes and names, the slope of the loss along each tensor, logits, and what is refused. */
#include "training/model/model.h"
#include "training/optimizer/parameter_rules.h"

#include "tensor_support.h"

#define BATCH   4
#define CLASSES 5

static const struct model_shape shapes[] = {
    {.kind = "mobilenet-v1", .image = 8, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "mobilenet-v2", .image = 8, .channels = 3, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "resnet", .layers = 18, .image = 8, .channels = 3, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "resnet", .layers = 18, .image = 64, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
};

static struct model_description *describe(const struct model_shape *shape)
{
    struct model_description *description = NULL;
    struct error error = {0};
    if (model_describe(shape, &description, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return description;
}

static void expect_tensor(const struct model_description *description, const char *name, size_t a, size_t b, size_t c,
                          bool statistic)
{
    const struct model_parameter *parameter = model_parameter_find(description, name);
    if (!parameter)
        fail_msg("there is no %s", name);
    assert_true(parameter->shape[0] == a && parameter->shape[1] == b && parameter->shape[2] == c &&
                parameter->shape[3] == c);
    assert_int_equal(parameter->statistic, statistic);
    assert_int_equal(parameter->decay, b > 0);
}

/* The numbers of parameters that torchvision has, and for MobileNet those of the authors' table. */
static void sizes_and_names_are_the_published_ones(void **state)
{
    static const struct {
        const char *name;
        size_t weights, statistics;
        double multiply_adds; /* of a forward pass, in millions */
    } published[] = {{"mobilenet-v1", 4231976, 21888, 569},
                     {"mobilenet-v2", 3504872, 34112, 301},
                     {"resnet-18", 11689512, 9600, 1814},
                     {"resnet-50", 25557032, 53120, 4089}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct model_shape shape;
        assert_int_equal(model_shape_find(published[i].name, &shape, NULL), WEFT_OK);
        struct model_description *description = describe(&shape);
        assert_int_equal(description->weights, published[i].weights);
        assert_int_equal(description->statistics, published[i].statistics);
        assert_true(fabs(model_flops_per_token(description, 1) / 6e6 - published[i].multiply_adds) < 1);
        model_description_free(description);
    }
    struct model_shape shape;
    assert_int_equal(model_shape_find("mobilenet-v2", &shape, NULL), WEFT_OK);
    struct model_description *description = describe(&shape);
    expect_tensor(description, "features.0.0.weight", 32, 3, 3, false);
    expect_tensor(description, "features.1.conv.0.0.weight", 32, 1, 3, false);
    expect_tensor(description, "features.2.conv.1.1.running_var", 96, 0, 0, true);
    expect_tensor(description, "features.18.1.bias", 1280, 0, 0, false);
    expect_tensor(description, "classifier.1.weight", 1000, 1280, 0, false);
    model_description_free(description);
}

/* ---- passes ---- */

struct fixture {
    struct device *device;
    struct model_description *description;
    struct model *model;
    double *parameters, *gradients;
    float pixels[BATCH * 64 * 64 * 3], shares[2 * BATCH];
    int32_t targets[2 * BATCH];
};

static void fixture_open(struct fixture *fixture, const struct model_shape *shape, const struct model_options *options,
                         const char *freeze)
{
    const struct parameter_rules rules = {.freeze = freeze};
    fixture->device = open_device("reference", 1);
    fixture->description = describe(shape);
    assert_int_equal(parameter_rules_apply(&rules, fixture->description, NULL), WEFT_OK);
    assert_int_equal(model_open(fixture->description, fixture->device, options, &fixture->model, NULL), WEFT_OK);
    fixture->parameters = make_array(fixture->device, fixture->description->elements);
    fixture->gradients = make_array(fixture->device, fixture->description->elements);
    for (size_t i = 0; i < fixture->description->parameter_count; i++) {
        const struct model_parameter *parameter = &fixture->description->parameters[i];
        for (size_t k = 0; k < parameter->count; k++)
            fixture->parameters[parameter->offset + k] =
                parameter->mean + (parameter->dimensions > 1 ? parameter->deviation : 0.1) * random_normal(i, k);
    }
    for (size_t i = 0; i < BATCH * shape->image * shape->image * shape->channels; i++)
        fixture->pixels[i] = (float)random_normal(77, i);
    for (size_t i = 0; i < BATCH; i++) {
        fixture->targets[2 * i] = (int32_t)random_below(78, 2 * i, CLASSES);
        fixture->targets[2 * i + 1] = (int32_t)random_below(78, 2 * i + 1, CLASSES);
        fixture->shares[2 * i] = (float)random_below(79, i, 64) / 64;
        fixture->shares[2 * i + 1] = 1 - fixture->shares[2 * i];
    }
}

static void fixture_close(struct fixture *fixture)
{
    fixture->device->release(fixture->device, fixture->parameters);
    fixture->device->release(fixture->device, fixture->gradients);
    model_close(fixture->model);
    model_description_free(fixture->description);
    fixture->device->close(fixture->device);
}

static struct model_batch batch_of(const struct fixture *fixture)
{
    return (struct model_batch){
        .pixels = fixture->pixels, .targets = fixture->targets, .shares = fixture->shares, .seed = 5, .sample = 6};
}

static double loss_of(struct fixture *fixture)
{
    double loss;
    const struct model_batch batch = batch_of(fixture);
    assert_int_equal(model_forward(fixture->model, fixture->parameters, &batch, &loss, NULL), WEFT_OK);
    return loss;
}

/* The difference between the slope of the loss along a random direction and its product with the gradient, relative to the
 * gradient. Steps are small, for rectifiers have kinks. */
static double tensor_error(struct fixture *fixture, const struct model_parameter *parameter)
{
    const double step = 1e-7;
    double losses[2], *direction = malloc(parameter->count * sizeof *direction), square = 0, gradient = 0, product = 0;
    for (size_t i = 0; i < parameter->count; i++) {
        direction[i] = random_normal(123, i);
        square += direction[i] * direction[i];
    }
    for (size_t i = 0; i < parameter->count; i++) {
        direction[i] /= sqrt(square);
        product += direction[i] * fixture->gradients[parameter->offset + i];
        gradient += pow(fixture->gradients[parameter->offset + i], 2);
    }
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < parameter->count; i++)
            fixture->parameters[parameter->offset + i] += (side ? -2 : 1) * step * direction[i];
        losses[side] = loss_of(fixture);
    }
    for (size_t i = 0; i < parameter->count; i++)
        fixture->parameters[parameter->offset + i] += step * direction[i];
    free(direction);
    return fabs((losses[0] - losses[1]) / (2 * step) - product) / fmax(sqrt(gradient), 1e-2);
}

static void expect_slopes(const struct model_shape *shape, enum model_recompute recompute, double dropout,
                          const char *freeze)
{
    struct fixture fixture;
    fixture_open(&fixture, shape,
                 &(struct model_options){.batch = BATCH,
                                         .sequence = 1,
                                         .training = true,
                                         .recompute = recompute,
                                         .label_smoothing = 0.1,
                                         .dropout = dropout},
                 freeze);
    loss_of(&fixture);
    assert_int_equal(model_backward(fixture.model, fixture.parameters, fixture.gradients, NULL, NULL, NULL), WEFT_OK);
    for (size_t i = 0; i < fixture.description->parameter_count; i++) {
        const struct model_parameter *parameter = &fixture.description->parameters[i];
        /* Some of the tensors: all have been compared with PyTorch's. */
        const double error = parameter->statistic || i % 7 ? 0 : tensor_error(&fixture, parameter);
        if (!(error < 1e-5))
            fail_msg("%s of a %s of %zu pixels: relative error %g", parameter->name, shape->kind, shape->image, error);
    }
    fixture_close(&fixture);
}

static void every_gradient_is_the_slope_of_the_loss(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        expect_slopes(&shapes[i], MODEL_RECOMPUTE_NOTHING, 0.2, NULL);
        expect_slopes(&shapes[i], MODEL_RECOMPUTE_ALL, 0, "*.running_mean,*.running_var");
    }
}

/* With the max pool, too. */
static void recomputation_leaves_the_bits(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture kept, again;
        struct model_options options = {.batch = BATCH, .sequence = 1, .training = true};
        fixture_open(&kept, &shapes[i], &options, NULL);
        options.recompute = MODEL_RECOMPUTE_ALL;
        fixture_open(&again, &shapes[i], &options, NULL);
        assert_true(loss_of(&kept) == loss_of(&again));
        model_backward(kept.model, kept.parameters, kept.gradients, NULL, NULL, NULL);
        model_backward(again.model, again.parameters, again.gradients, NULL, NULL, NULL);
        assert_memory_equal(kept.gradients, again.gradients, kept.description->elements * sizeof(double));
        fixture_close(&kept);
        fixture_close(&again);
    }
}

static void logits_lead_to_the_loss_and_the_accuracy(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture fixture;
        double logits[BATCH * CLASSES], loss, expected = 0;
        fixture_open(&fixture, &shapes[i], &(struct model_options){.batch = BATCH, .sequence = 1}, NULL);
        const struct model_batch batch = batch_of(&fixture), pixels = {.pixels = fixture.pixels};
        assert_int_equal(model_evaluate(fixture.model, fixture.parameters, &batch, &loss, NULL), WEFT_OK);
        assert_int_equal(model_classify(fixture.model, fixture.parameters, &pixels, logits, NULL), WEFT_OK);
        for (size_t row = 0; row < BATCH; row++) {
            const double *own = logits + row * CLASSES;
            double sum = 0;
            for (size_t j = 0; j < CLASSES; j++)
                sum += exp(own[j]);
            for (size_t k = 2 * row; k < 2 * row + 2; k++)
                expected += (double)fixture.shares[k] * (log(sum) - own[fixture.targets[k]]) / BATCH;
        }
        assert_true(fabs(loss - expected) < 1e-12 * fabs(expected));
        fixture_close(&fixture);
    }
}

/* A network whose first layers are frozen, statistics and all, has the gradients of one that is not, from there on. */
static void frozen_layers_have_no_gradient(void **state)
{
    struct fixture fixture;
    const struct model_options options = {.batch = BATCH, .sequence = 1, .training = true};
    fixture_open(&fixture, &shapes[2], &options, "conv1,bn1,layer1");
    loss_of(&fixture);
    assert_int_equal(model_backward(fixture.model, fixture.parameters, fixture.gradients, NULL, NULL, NULL), WEFT_OK);
    for (size_t i = 0; i < fixture.description->parameter_count; i++) {
        const struct model_parameter *parameter = &fixture.description->parameters[i];
        double square = 0;
        for (size_t k = 0; k < parameter->count; k++)
            square += pow(fixture.gradients[parameter->offset + k], 2);
        assert_int_equal(square > 0, !parameter->frozen);
    }
    fixture_close(&fixture);
}

static void expect_refused(const struct model_shape *shape, const char *said)
{
    struct model_description *description;
    struct error error = {0};
    assert_int_equal(model_describe(shape, &description, &error), WEFT_ERROR_ARGUMENT);
    if (!strstr(error.text, said))
        fail_msg("'%s' does not say '%s'", error.text, said);
}

static void impossible_networks_are_refused(void **state)
{
    struct error error = {0}, of_target = {0};
    struct model_shape shape = shapes[2];
    shape.layers = 20;
    expect_refused(&shape, "20");
    shape = shapes[0];
    shape.channels = 2;
    expect_refused(&shape, "channel");
    shape = shapes[0];
    shape.context = 128;
    expect_refused(&shape, "context");
    struct model_description *description = describe(&shapes[1]);
    assert_int_equal(model_divide(description, 2, 0, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "tensor axis"));
    model_description_free(description);

    struct fixture fixture;
    double loss;
    fixture_open(&fixture, &shapes[0], &(struct model_options){.batch = BATCH, .sequence = 1}, NULL);
    fixture.targets[3] = CLASSES;
    const struct model_batch batch = batch_of(&fixture);
    assert_int_equal(model_evaluate(fixture.model, fixture.parameters, &batch, &loss, &of_target), WEFT_ERROR_DATA);
    assert_non_null(strstr(of_target.text, "target 3 of the batch is 5"));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_names_are_the_published_ones),
        cmocka_unit_test(every_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(recomputation_leaves_the_bits),
        cmocka_unit_test(logits_lead_to_the_loss_and_the_accuracy),
        cmocka_unit_test(frozen_layers_have_no_gradient),
        cmocka_unit_test(impossible_networks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
