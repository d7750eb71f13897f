/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronized batch norms in double precision: models of several threads, each with some of the images, have the mean loss
 * and the mean gradients of one model with all of them, and the same bits where they compute the same. The kernel that joins
 * statistics, and their formulas.
 */
#include "training/model/model.h"
#include "training/model/norm_group.h"

#include "tensor_support.h"

#include <pthread.h>

#define RANKS_MOST 4
#define IMAGES     2 /* of a rank */
#define CLASSES    5

static const struct model_shape shapes[] = {
    {.kind = "mobilenet-v1", .image = 8, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "mobilenet-v2", .image = 8, .channels = 3, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "resnet", .layers = 18, .image = 8, .channels = 3, .classes = CLASSES, .multiplier = 0.125},
    {.kind = "resnet", .layers = 18, .image = 64, .channels = 1, .classes = CLASSES, .multiplier = 0.125},
};

/* ---- models ---- */

/* What threads exchange. */
struct exchange {
    size_t ranks;
    pthread_barrier_t barrier;
    const void *own[RANKS_MOST];
};

struct participant {
    struct exchange *exchange;
    struct norm_group group;
    size_t rank;
    char *gathered;
    const struct model_shape *shape;
    struct model_options options;
    size_t gathers;
    double loss, *gradients;
    weft_status status;
};

static const void *gather_by_threads(void *context, const void *own, size_t bytes)
{
    struct participant *participant = context;
    struct exchange *exchange = participant->exchange;
    exchange->own[participant->rank] = own;
    participant->gathers++;
    participant->gathered = realloc(participant->gathered, exchange->ranks * bytes);
    pthread_barrier_wait(&exchange->barrier);
    for (size_t rank = 0; rank < exchange->ranks; rank++)
        memcpy(participant->gathered + rank * bytes, exchange->own[rank], bytes);
    pthread_barrier_wait(&exchange->barrier);
    return participant->gathered;
}

/* The images of a rank follow those of the ranks before it. */
static void make_images(const struct model_shape *shape, size_t first, size_t count, float *pixels, int32_t *targets,
                        float *shares)
{
    const size_t each = shape->image * shape->image * shape->channels;
    for (size_t i = 0; i < count * each; i++)
        pixels[i] = (float)random_normal(77, first * each + i);
    for (size_t i = 0; i < count; i++) {
        targets[2 * i] = (int32_t)random_below(78, 2 * (first + i), CLASSES);
        targets[2 * i + 1] = (int32_t)random_below(78, 2 * (first + i) + 1, CLASSES);
        shares[2 * i] = (float)random_below(79, first + i, 64) / 64;
        shares[2 * i + 1] = 1 - shares[2 * i];
    }
}

static weft_status run_passes(struct participant *participant, const struct model_description *description,
                              struct device *device, struct model *model)
{
    const struct model_shape *shape = participant->shape;
    const size_t images = participant->options.batch;
    float *pixels = calloc(images * shape->image * shape->image * shape->channels, sizeof *pixels);
    float shares[2 * RANKS_MOST * IMAGES];
    int32_t targets[2 * RANKS_MOST * IMAGES];
    double *parameters = make_array(device, description->elements);
    make_images(shape, participant->rank * images, images, pixels, targets, shares);
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        for (size_t k = 0; k < parameter->count; k++)
            parameters[parameter->offset + k] =
                parameter->mean + (parameter->dimensions > 1 ? parameter->deviation : 0.1) * random_normal(i, k);
    }
    const struct model_batch batch = {.pixels = pixels, .targets = targets, .shares = shares};
    weft_status status = model_forward(model, parameters, &batch, &participant->loss, NULL);
    if (status == WEFT_OK)
        status = model_backward(model, parameters, participant->gradients, NULL, NULL, NULL);
    device->release(device, parameters);
    free(pixels);
    return status;
}

static void *participate(void *argument)
{
    struct participant *participant = argument;
    struct model_description *description;
    struct model *model;
    struct device *device = open_device("reference", 1);
    participant->status = model_describe(participant->shape, &description, NULL);
    if (participant->status == WEFT_OK)
        participant->status = model_open(description, device, &participant->options, &model, NULL);
    if (participant->status != WEFT_OK)
        return NULL;
    participant->gradients = calloc(description->elements, sizeof *participant->gradients);
    participant->status = run_passes(participant, description, device, model);
    free(participant->gathered);
    model_close(model);
    model_description_free(description);
    device->close(device);
    return NULL;
}

static void participants_run(const struct model_shape *shape, size_t ranks, enum model_recompute recompute,
                             struct participant participants[])
{
    struct exchange exchange = {.ranks = ranks};
    pthread_t threads[RANKS_MOST];
    pthread_barrier_init(&exchange.barrier, NULL, (unsigned)ranks);
    for (size_t rank = 0; rank < ranks; rank++) {
        struct participant *participant = &participants[rank];
        *participant =
            (struct participant){.exchange = &exchange,
                                 .group = {.ranks = ranks, .context = participant, .gather = gather_by_threads},
                                 .rank = rank,
                                 .shape = shape,
                                 .options = {.batch = IMAGES, .sequence = 1, .training = true, .recompute = recompute}};
        participant->options.norms = &participant->group;
        assert_int_equal(pthread_create(&threads[rank], NULL, participate, participant), 0);
    }
    for (size_t rank = 0; rank < ranks; rank++)
        pthread_join(threads[rank], NULL);
    pthread_barrier_destroy(&exchange.barrier);
    for (size_t rank = 0; rank < ranks; rank++)
        assert_int_equal(participants[rank].status, WEFT_OK);
}

/* The largest difference between the mean gradient of a tensor and that of one model, relative to the largest element. */
static double gradient_difference(const struct model_parameter *parameter, const struct participant participants[],
                                  size_t ranks, const double *whole)
{
    double largest = 1e-3, difference = 0;
    for (size_t i = parameter->offset; i < parameter->offset + parameter->count; i++) {
        double mean = 0;
        for (size_t rank = 0; rank < ranks; rank++)
            mean += participants[rank].gradients[i] / (double)ranks;
        largest = fmax(largest, fabs(whole[i]));
        difference = fmax(difference, fabs(mean - whole[i]));
    }
    return difference / largest;
}

static void compare_with_one_model(const struct model_shape *shape, size_t ranks)
{
    struct participant participants[RANKS_MOST],
        one = {.shape = shape, .options = {.batch = ranks * IMAGES, .sequence = 1, .training = true}};
    struct model_description *description;
    double loss = 0;
    participants_run(shape, ranks, MODEL_RECOMPUTE_NOTHING, participants);
    participate(&one);
    assert_int_equal(one.status, WEFT_OK);
    assert_int_equal(model_describe(shape, &description, NULL), WEFT_OK);
    for (size_t rank = 0; rank < ranks; rank++)
        loss += participants[rank].loss / (double)ranks;
    assert_true(fabs(loss / one.loss - 1) < 1e-10);
    size_t norms = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        const double difference = gradient_difference(parameter, participants, ranks, one.gradients);
        if (!(difference < 1e-8))
            fail_msg("%s of a %s on %zu ranks: relative difference %g", parameter->name, shape->kind, ranks,
                     difference);
        norms += parameter->statistic;
        /* All ranks have the same statistics. */
        for (size_t rank = 1; parameter->statistic && rank < ranks; rank++)
            assert_memory_equal(participants[rank].gradients + parameter->offset,
                                participants[0].gradients + parameter->offset, parameter->count * sizeof(double));
    }
    assert_int_equal(participants[0].gathers, norms); /* two statistics and two passes of each norm */
    model_description_free(description);
    free(one.gradients);
    for (size_t rank = 0; rank < ranks; rank++)
        free(participants[rank].gradients);
}

static void models_together_have_the_gradients_of_one(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t ranks = 2; ranks <= RANKS_MOST; ranks += 2)
            compare_with_one_model(&shapes[i], ranks);
}

static void recomputation_sees_the_same_statistics(void **state)
{
    struct participant kept[2], again[2];
    struct model_description *description;
    assert_int_equal(model_describe(&shapes[1], &description, NULL), WEFT_OK);
    participants_run(&shapes[1], 2, MODEL_RECOMPUTE_NOTHING, kept);
    participants_run(&shapes[1], 2, MODEL_RECOMPUTE_ALL, again);
    for (size_t rank = 0; rank < 2; rank++) {
        assert_true(kept[rank].loss == again[rank].loss);
        assert_memory_equal(kept[rank].gradients, again[rank].gradients, description->elements * sizeof(double));
        assert_true(again[rank].gathers > kept[rank].gathers);
        free(kept[rank].gradients);
        free(again[rank].gradients);
    }
    model_description_free(description);
}

/* ---- the kernel ---- */

#define CHANNELS 5
#define STRIDE   16

/* From rows of all parts: the sums that define mean and variance. */
static void expect_joined(const char *name, size_t rows, size_t parts, double tolerance)
{
    struct device *device = open_device(name, 1);
    double statistics[RANKS_MOST * 2 * STRIDE] = {0}, found[3][CHANNELS];
    void *all = make_array(device, sizeof statistics / sizeof *statistics), *joined[3];
    for (size_t k = 0; k < 3; k++)
        joined[k] = make_array(device, CHANNELS);
    for (size_t j = 0; j < CHANNELS; j++)
        for (size_t part = 0; part < parts; part++) {
            double *mean = &statistics[2 * part * STRIDE + j], *variance = mean + STRIDE;
            for (size_t i = 0; i < rows; i++)
                *mean += random_normal(j, part * rows + i) / (double)rows;
            for (size_t i = 0; i < rows && rows > 1; i++)
                *variance += pow(random_normal(j, part * rows + i) - *mean, 2) / (double)(rows - 1);
        }
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++)
        put(device, all, i, statistics[i]);
    const struct batch_norm norm = {
        .channels = CHANNELS, .epsilon = 1e-3, .means = joined[0], .variances = joined[1], .reciprocals = joined[2]};
    device->batch_norm_join(device, &norm, rows, parts, STRIDE, all);
    for (size_t k = 0; k < 3; k++)
        for (size_t j = 0; j < CHANNELS; j++)
            found[k][j] = get(device, joined[k], j);
    for (size_t j = 0; j < CHANNELS; j++) {
        const double count = (double)(rows * parts);
        double mean = 0, scatter = 0;
        for (size_t i = 0; i < rows * parts; i++)
            mean += random_normal(j, i) / count;
        for (size_t i = 0; i < rows * parts; i++)
            scatter += pow(random_normal(j, i) - mean, 2);
        assert_true(fabs(found[0][j] - mean) < tolerance);
        assert_true(fabs(found[1][j] - scatter / (count - 1)) < tolerance);
        assert_true(fabs(found[2][j] * sqrt(scatter / count + 1e-3) - 1) < tolerance);
    }
    device->release(device, all);
    for (size_t k = 0; k < 3; k++)
        device->release(device, joined[k]);
    device->close(device);
}

static void joined_statistics_are_those_of_all_rows(void **state)
{
    for (size_t rows = 1; rows < 40; rows += 13)
        for (size_t parts = 2; parts <= RANKS_MOST; parts++) {
            expect_joined("reference", rows, parts, 1e-12);
            expect_joined("reference-f32", rows, parts, 1e-5);
            expect_joined("cpu", rows, parts, 1e-5);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_together_have_the_gradients_of_one),
        cmocka_unit_test(recomputation_sees_the_same_statistics),
        cmocka_unit_test(joined_statistics_are_those_of_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
