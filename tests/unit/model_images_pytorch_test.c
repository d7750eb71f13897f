/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small image networks against PyTorch 1.13 and torchvision 0.14, from the same weights and pixels (GOLDEN, which
 * pytorch_images.py prints): loss, all gradients and the running statistics after a step in double precision; the same with
 * frozen batch norms; the losses of 20 steps of SGD with clipping.
 */
#include "training/model/model.h"
#include "training/optimizer/optimizer.h"

#include "tensor_support.h"

#define CLASSES    5
#define BATCH      3
#define SMOOTHING  0.1
#define STEPS      20
#define STEP_BATCH 4
#define RATE       0.002
#define CLIP       1.0

static const struct optimizer sgd = {.kind = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 1e-3};

/* ---- the tables ---- */

#define TENSORS_MOST 400
#define NETWORKS     7

struct numbers {
    char name[MODEL_NAME_BYTES];
    double norm, wave;
};

struct expected {
    char kind[32];
    struct model_shape shape;
    double evaluated, frozen_loss, frozen_norm, loss;
    double largest;                       /* norm of a tensor below */
    struct numbers tensors[TENSORS_MOST]; /* gradients, or new running statistics */
    size_t tensor_count;
    double steps[STEPS];
    struct numbers statistics; /* all of them after the steps */
};

/* The numbers of a line, after the word that it begins with. */
static size_t read_numbers(const char *line, double *numbers, size_t most)
{
    size_t count = 0;
    char *end;
    for (line = strchr(line, ' '); line && count < most; line = end) {
        numbers[count] = strtod(line, &end);
        if (end == line)
            break;
        count++;
    }
    return count;
}

static void read_network(struct expected *expected, const char *line)
{
    *expected = (struct expected){.shape = {.classes = CLASSES, .multiplier = 0.125}};
    if (sscanf(line, "network %31s %zu %zu", expected->kind, &expected->shape.image, &expected->shape.channels) != 3)
        fail_msg("'%s' is no network", line);
    expected->shape.kind = expected->kind;
    char *layers = strncmp(expected->kind, "resnet-", 7) == 0 ? expected->kind + 6 : NULL;
    if (layers) {
        expected->shape.layers = strtoul(layers + 1, NULL, 10);
        *layers = '\0';
    }
}

static void read_line(struct expected *expected, const char *line)
{
    double two[2] = {0};
    char word[MODEL_NAME_BYTES];
    if (sscanf(line, "%63s", word) != 1)
        return;
    if (strcmp(word, "steps") == 0) {
        assert_int_equal(read_numbers(line, expected->steps, STEPS), STEPS);
        return;
    }
    read_numbers(line, two, 2);
    if (strcmp(word, "evaluated") == 0) {
        expected->evaluated = two[0];
    } else if (strcmp(word, "loss") == 0) {
        expected->loss = two[0];
    } else if (strcmp(word, "frozen") == 0) {
        expected->frozen_loss = two[0];
        expected->frozen_norm = two[1];
    } else {
        struct numbers *to =
            strcmp(word, "statistics") == 0 ? &expected->statistics : &expected->tensors[expected->tensor_count++];
        assert_true(expected->tensor_count <= TENSORS_MOST);
        *to = (struct numbers){.norm = two[0], .wave = two[1]};
        strcpy(to->name, word);
        if (two[0] > expected->largest && to != &expected->statistics)
            expected->largest = two[0];
    }
}

/* All networks of the file, which the caller frees. */
static struct expected *read_golden(void)
{
    char line[1024];
    struct expected *expected = calloc(NETWORKS, sizeof *expected);
    FILE *file = fopen(GOLDEN, "r");
    size_t count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "network ", 8) == 0) {
            assert_true(count < NETWORKS);
            read_network(&expected[count++], line);
        } else {
            read_line(&expected[count - 1], line);
        }
    assert_int_equal(count, NETWORKS);
    fclose(file);
    return expected;
}

/* ---- a network on a device ---- */

struct subject {
    struct device *device;
    struct model_description *description;
    struct model *model;
    void *parameters, *gradients, *moments;
    double *squares;
};

static bool is_named(const struct model_parameter *parameter, const char *end)
{
    const size_t length = strlen(parameter->name), tail = strlen(end);
    return length >= tail && strcmp(parameter->name + length - tail, end) == 0;
}

static void set_weights(const struct subject *subject)
{
    for (size_t i = 0; i < subject->description->parameter_count; i++) {
        const struct model_parameter *parameter = &subject->description->parameters[i];
        const double scale = 1.5 / sqrt((double)(parameter->count / parameter->shape[0])),
                     mean = is_named(parameter, ".weight") ? 1 : 0;
        for (size_t k = 0; k < parameter->count; k++) {
            const double number = random_normal(i, k);
            put(subject->device, subject->parameters, parameter->offset + k,
                parameter->dimensions > 1             ? scale * number
                : is_named(parameter, ".running_var") ? 0.5 + 0.3 * fabs(number)
                                                      : mean + 0.2 * number);
        }
    }
}

static void subject_open(struct subject *subject, const struct expected *expected, const char *device, size_t batch,
                         bool frozen)
{
    struct error error = {0};
    *subject = (struct subject){.device = open_device(device, 1)};
    if (model_describe(&expected->shape, &subject->description, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    const struct parameter_rules rules = {.freeze = "*.running_mean,*.running_var"};
    if (frozen)
        assert_int_equal(parameter_rules_apply(&rules, subject->description, NULL), WEFT_OK);
    assert_int_equal(model_open(subject->description, subject->device,
                                &(struct model_options){
                                    .batch = batch, .sequence = 1, .training = true, .label_smoothing = SMOOTHING},
                                &subject->model, &error),
                     WEFT_OK);
    const size_t elements = subject->description->elements;
    subject->parameters = make_array(subject->device, elements);
    subject->gradients = make_array(subject->device, elements);
    subject->moments = make_array(subject->device, elements);
    subject->squares = calloc(tree_blocks(elements), sizeof *subject->squares);
    set_weights(subject);
}

static void subject_close(struct subject *subject)
{
    subject->device->release(subject->device, subject->parameters);
    subject->device->release(subject->device, subject->gradients);
    subject->device->release(subject->device, subject->moments);
    free(subject->squares);
    model_close(subject->model);
    model_description_free(subject->description);
    subject->device->close(subject->device);
}

/* As make_batch() of pytorch_images.py. */
struct images {
    struct model_batch batch;
    float pixels[STEP_BATCH * 64 * 64 * 3], shares[2 * STEP_BATCH];
    int32_t targets[2 * STEP_BATCH];
};

static void make_images(struct images *images, const struct model_shape *shape, uint64_t stream, size_t count)
{
    for (size_t i = 0; i < count * shape->image * shape->image * shape->channels; i++)
        images->pixels[i] = (float)random_normal(stream, i);
    for (size_t i = 0; i < 2 * count; i++)
        images->targets[i] = (int32_t)random_below(stream + 1, i, CLASSES);
    for (size_t i = 0; i < count; i++) {
        images->shares[2 * i] = (float)random_below(stream + 2, i, 64) / 64;
        images->shares[2 * i + 1] = 1 - images->shares[2 * i];
    }
    images->batch =
        (struct model_batch){.pixels = images->pixels, .targets = images->targets, .shares = images->shares};
}

static double subject_forward(const struct subject *subject, const struct images *images)
{
    double loss;
    assert_int_equal(model_forward(subject->model, subject->parameters, &images->batch, &loss, NULL), WEFT_OK);
    return loss;
}

static void subject_backward(const struct subject *subject)
{
    assert_int_equal(model_backward(subject->model, subject->parameters, subject->gradients, NULL, NULL, NULL),
                     WEFT_OK);
}

static void subject_step(const struct subject *subject, uint64_t number, double scale)
{
    optimizer_update(subject->description, subject->device, &sgd,
                     &(struct optimizer_step){.number = number, .rate = RATE, .gradient_scale = scale, .mean = 1}, 0,
                     subject->description->elements,
                     &(struct optimizer_arrays){.parameters = subject->parameters,
                                                .gradients = subject->gradients,
                                                .first_moments = subject->moments,
                                                .sums = subject->squares});
    model_weights_changed(subject->model);
}

/* Over the parameters that count: the optimizer leaves out statistics. */
static double gradient_norm(const struct subject *subject)
{
    double square = 0;
    for (size_t i = 0; i < subject->description->parameter_count; i++) {
        const struct model_parameter *parameter = &subject->description->parameters[i];
        for (size_t k = 0; optimizer_counts(parameter) && k < parameter->count; k++)
            square += pow(get(subject->device, subject->gradients, parameter->offset + k), 2);
    }
    return sqrt(square);
}

/* ---- comparisons ---- */

static void expect_close(const char *what, const struct expected *expected, double found, double wanted, double size,
                         double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance * size))
        fail_msg("%s of a %s of %zu pixels: %.15g, not %.15g", what, expected->kind, expected->shape.image, found,
                 wanted);
}

static void expect_tensor(const struct subject *subject, const struct expected *expected, size_t i, double tolerance)
{
    const struct model_parameter *parameter = &subject->description->parameters[i];
    const struct numbers *wanted = &expected->tensors[i];
    const void *array = parameter->statistic ? subject->parameters : subject->gradients;
    const double size = fmax(wanted->norm, 1e-2 * expected->largest); /* some gradients are 0 but for rounding */
    double square = 0, wave = 0;
    assert_string_equal(parameter->name, wanted->name);
    for (size_t k = 0; k < parameter->count; k++) {
        const double value = get(subject->device, array, parameter->offset + k);
        square += value * value;
        wave += value * cos((double)k);
    }
    expect_close(parameter->name, expected, sqrt(square), wanted->norm, size, tolerance);
    expect_close(parameter->name, expected, wave, wanted->wave, size, tolerance);
}

static void compare(const struct expected *expected, const char *device, double tolerance)
{
    struct images images;
    struct subject subject;
    double loss;
    make_images(&images, &expected->shape, 1000, BATCH);
    subject_open(&subject, expected, device, BATCH, false);
    assert_int_equal(subject.description->parameter_count, expected->tensor_count);
    assert_int_equal(model_evaluate(subject.model, subject.parameters, &images.batch, &loss, NULL), WEFT_OK);
    expect_close("evaluated loss", expected, loss, expected->evaluated, expected->evaluated, tolerance);
    expect_close("loss", expected, subject_forward(&subject, &images), expected->loss, expected->loss, tolerance);
    subject_backward(&subject);
    subject_step(&subject, 1, 1);
    for (size_t i = 0; i < expected->tensor_count; i++)
        expect_tensor(&subject, expected, i, tolerance);
    subject_close(&subject);

    subject_open(&subject, expected, device, BATCH, true);
    expect_close("loss with frozen norms", expected, subject_forward(&subject, &images), expected->frozen_loss,
                 expected->frozen_loss, 50 * tolerance);
    subject_backward(&subject);
    expect_close("gradient with frozen norms", expected, gradient_norm(&subject), expected->frozen_norm,
                 expected->frozen_norm, 50 * tolerance);
    subject_close(&subject);
}

static void the_reference_device_agrees_with_pytorch(void **state)
{
    struct expected *expected = read_golden();
    for (size_t i = 0; i < NETWORKS; i++)
        compare(&expected[i], "reference", 1e-12);
    free(expected);
}

/* In single precision some rectifiers of the deeper networks, which are narrow and see few images, switch to the other side:
 * gradients jump. */
static void the_fast_device_agrees_with_pytorch(void **state)
{
    struct expected *expected = read_golden();
    for (size_t i = 0; i < NETWORKS; i++)
        compare(&expected[i], "cpu", expected[i].shape.layers == 18 ? 5e-5 : 1e-2);
    free(expected);
}

/* In 16 bits the gradients of such networks are noise, but losses are not. */
static void losses_in_mixed_precision_are_near(void **state)
{
    static const char *const devices[] = {"cpu-bf16", "cpu-f16"};
    struct expected *expected = read_golden();
    for (size_t i = 0; i < 2 * NETWORKS; i++) {
        const struct expected *one = &expected[i / 2];
        struct images images;
        struct subject subject;
        make_images(&images, &one->shape, 1000, BATCH);
        subject_open(&subject, one, devices[i % 2], BATCH, false);
        expect_close("loss", one, subject_forward(&subject, &images), one->loss, one->loss, 0.2);
        subject_close(&subject);
    }
    free(expected);
}

/* ---- steps ---- */

static void take_steps(const struct expected *expected, const char *device, double tolerance)
{
    static struct images images[2];
    struct subject subject;
    double square = 0;
    for (size_t i = 0; i < 2; i++)
        make_images(&images[i], &expected->shape, 2000 + 10 * i, STEP_BATCH);
    subject_open(&subject, expected, device, STEP_BATCH, false);
    for (size_t step = 0; step < STEPS; step++) {
        expect_close("loss of a step", expected, subject_forward(&subject, &images[step % 2]), expected->steps[step],
                     expected->steps[step], tolerance);
        subject_backward(&subject);
        const double norm = gradient_norm(&subject);
        subject_step(&subject, step + 1, norm > CLIP ? CLIP / norm : 1);
    }
    for (size_t i = 0; i < subject.description->parameter_count; i++) {
        const struct model_parameter *parameter = &subject.description->parameters[i];
        for (size_t k = 0; parameter->statistic && k < parameter->count; k++)
            square += pow(get(subject.device, subject.parameters, parameter->offset + k), 2);
    }
    expect_close("running statistics", expected, sqrt(square), expected->statistics.norm, expected->statistics.norm,
                 tolerance);
    subject_close(&subject);
}

/* Each step of a narrow MobileNet amplifies what rounding has left, in PyTorch, too. */
static void twenty_steps_of_sgd_agree_with_pytorch(void **state)
{
    struct expected *expected = read_golden();
    for (size_t i = 0; i < NETWORKS; i++) {
        if (expected[i].shape.image < 64 && !expected[i].shape.layers)
            take_steps(&expected[i], "reference", 1e-6);
        if (expected[i].shape.layers == 18)
            take_steps(&expected[i], "cpu", 1e-3);
    }
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_device_agrees_with_pytorch),
        cmocka_unit_test(the_fast_device_agrees_with_pytorch),
        cmocka_unit_test(losses_in_mixed_precision_are_near),
        cmocka_unit_test(twenty_steps_of_sgd_agree_with_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
