/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which elements dropout takes away: known answers of Philox, the same elements with every instruction set, type of
 * activations, number of threads and cut into micro-batches, as many as was asked for, and none because of another.
 */
#include "training/model/model.h"
#include "training/tensor/devices.h"
#include "training/tensor/dropout.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

static void philox_gives_the_known_answers(void **state)
{
    /* From kat_vectors of the authors' Random123. */
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t words[4];
        memcpy(words, cases[i].counter, sizeof words);
        philox(cases[i].key[0], cases[i].key[1], words);
        assert_memory_equal(words, cases[i].words, sizeof words);
    }
}

static const struct dropout some = {
    .share = 0.3, .seed = 0x123456789abcdef0, .sample = 0xfffffffe, .layer = 65535, .sequence = 7};

/* Every kernel of `device` at one width, against what training/tensor/dropout.h says of each element. */
static void expect_defined_masks(struct device *device, size_t width)
{
    enum { ROWS = 30 };
    const size_t count = ROWS * width;
    const bool narrow = device->activations != device->type;
    float *x = make_random(device, count, 1, 1), *y = make_array(device, count),
          *branch = make_random(device, count, 1, 2);
    void *activations = make_array(device, count);
    uint16_t *halves = activations;
    const float factor = (float)dropout_factor(&some);
    memcpy(y, x, count * sizeof *y);
    device->dropout(device, &some, ROWS, width, y);
    for (size_t i = 0; i < count; i++)
        assert_true(y[i] == (dropout_keeps(&some, i / width, i % width) ? x[i] * factor : 0));
    device->dropout_to_activations(device, &some, ROWS, width, x, activations);
    for (size_t i = 0; i < count; i++) {
        uint16_t rounded;
        if (narrow) {
            device->to_activations(device, 1, &y[i], &rounded);
            assert_int_equal(halves[i], rounded);
        } else {
            assert_memory_equal((float *)activations + i, &y[i], sizeof *y);
        }
    }
    device->to_activations(device, count, branch, activations);
    device->dropout_add_branch(device, &some, ROWS, width, x, activations, y);
    for (size_t i = 0; i < count; i++) {
        float value = ((float *)activations)[narrow ? 0 : i];
        if (narrow)
            device->from_activations(device, 1, &halves[i], &value);
        value = dropout_keeps(&some, i / width, i % width) ? value * factor : 0;
        assert_true(y[i] == x[i] + value);
    }
    device->release(device, x);
    device->release(device, y);
    device->release(device, branch);
    device->release(device, activations);
}

static void all_kernels_drop_the_same_elements(void **state)
{
    static const size_t widths[] = {1, 3, 4, 8, 15, 16, 17, 100, 112, 127, 128, 129, 255, 300};
    static const weft_type types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (size_t type = 0; type < 3; type++) {
        size_t count;
        const struct kernels *const *tables = kernels_supported(types[type], &count);
        for (size_t i = 0; i < count; i++)
            for (int threads = 1; threads <= TEST_THREADS; threads += 2) {
                struct device *device;
                assert_int_equal(cpu_open_with(tables[i], threads, &device, NULL), WEFT_OK);
                for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
                    expect_defined_masks(device, widths[w]);
                device->close(device);
            }
    }
    struct device *reference = open_device("reference-f32", 1);
    expect_defined_masks(reference, 130);
    reference->close(reference);
}

/* ---- statistics ---- */

#define SAMPLES   4
#define POSITIONS 64
#define COLUMNS   512
#define PLACES    ((size_t)SAMPLES * POSITIONS * COLUMNS)

/* 1 where an element is dropped. */
static unsigned char *dropped_of(struct dropout dropout)
{
    unsigned char *dropped = malloc(PLACES);
    assert_non_null(dropped);
    dropout.sequence = POSITIONS;
    for (size_t i = 0; i < PLACES; i++)
        dropped[i] = !dropout_keeps(&dropout, i / COLUMNS, i % COLUMNS);
    return dropped;
}

/* Of `count` independent trials with this probability, five standard deviations hold all but one in a million. */
static void expect_binomial(size_t found, size_t count, double probability, const char *what)
{
    const double expected = (double)count * probability, deviation = sqrt(expected * (1 - probability));
    if (!(fabs((double)found - expected) <= 5 * deviation))
        fail_msg("%s: %zu of %zu, where %.0f +- %.0f were to be expected", what, found, count, expected, deviation);
}

/* Elements of a and, `apart` further on, of b are dropped together as often as chance has it. */
static void expect_independent(const unsigned char *a, const unsigned char *b, size_t apart, double share,
                               const char *what)
{
    size_t both = 0;
    for (size_t i = 0; i + apart < PLACES; i++)
        both += a[i] & b[i + apart];
    expect_binomial(both, PLACES - apart, share * share, what);
}

static void the_share_is_the_one_asked_for(void **state)
{
    static const double shares[] = {0.0001, 0.05, 0.1, 0.5, 0.9};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct dropout dropout = {.share = shares[i], .seed = i};
        unsigned char *dropped = dropped_of(dropout);
        size_t found = 0;
        for (size_t k = 0; k < PLACES; k++)
            found += dropped[k];
        const double share = 1 - 1 / dropout_factor(&dropout); /* the nearest multiple of 2^-16 */
        assert_true(fabs(share - shares[i]) <= 0.5 / 65536 + 1e-12);
        expect_binomial(found, PLACES, share, "dropped");
        free(dropped);
    }
}

static void masks_have_nothing_to_do_with_each_other(void **state)
{
    const struct dropout first = {.share = 0.25, .seed = 1, .sample = 1000, .layer = 3};
    struct dropout others[] = {first, first, first, first, first, first};
    static const char *const names[] = {"next layer",
                                        "next seed",
                                        "samples of the next step",
                                        "another upper half of the sample",
                                        "another upper half of the seed",
                                        "layer and sample exchanged"};
    others[0].layer++;
    others[1].seed++;
    others[2].sample += SAMPLES;
    others[3].sample += (uint64_t)1 << 32;
    others[4].seed += (uint64_t)1 << 32;
    others[5].layer = 1000;
    others[5].sample = 3;
    unsigned char *dropped = dropped_of(first);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        unsigned char *other = dropped_of(others[i]);
        expect_independent(dropped, other, 0, first.share, names[i]);
        free(other);
    }
    static const size_t apart[] = {1, 2, 8, 16, 32, 64, 128, COLUMNS, 2 * COLUMNS, POSITIONS * COLUMNS};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) /* columns, numbers of a counter, positions, samples */
        expect_independent(dropped, dropped, apart[i], first.share, "elements of one mask");
    free(dropped);
}

/* ---- models ---- */

#define SEQUENCE 9
#define BATCH    4

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 2, .heads = 2, .width = 20, .context = SEQUENCE, .vocabulary = 31};
static const struct model_shape llama = {
    .kind = "llama", .layers = 2, .heads = 2, .width = 20, .context = SEQUENCE, .vocabulary = 31};

struct passes {
    double loss, evaluated;
    float *gradients;
};

/* The mean over micro-batches of `batch` sequences; the first sequence is sample `sample`. */
static struct passes passes_of(const struct model_shape *shape, struct model_options options, uint64_t sample,
                               size_t *elements)
{
    struct device *device = open_device("cpu", 1);
    struct model_description *description;
    struct model *model;
    int32_t tokens[BATCH * SEQUENCE + 1];
    for (size_t i = 0; i <= BATCH * SEQUENCE; i++)
        tokens[i] = (int32_t)random_below(99, i, shape->vocabulary);
    options.sequence = SEQUENCE;
    options.training = true;
    assert_int_equal(model_describe(shape, &description, NULL), WEFT_OK);
    assert_int_equal(model_open(description, device, &options, &model, NULL), WEFT_OK);
    float *parameters = make_random(device, description->elements, 0.3, 1);
    struct passes result = {.gradients = calloc(description->elements, sizeof(float))};
    float *gradients = make_array(device, description->gradient_elements);
    for (size_t first = 0; first < BATCH; first += options.batch) {
        const struct model_batch batch = {.tokens = tokens + first * SEQUENCE,
                                          .targets = tokens + first * SEQUENCE + 1,
                                          .seed = 7,
                                          .sample = sample + first};
        const double share = (double)options.batch / BATCH;
        double loss, evaluated;
        assert_int_equal(model_evaluate(model, parameters, &batch, &evaluated, NULL), WEFT_OK);
        assert_int_equal(model_forward(model, parameters, &batch, &loss, NULL), WEFT_OK);
        assert_int_equal(model_backward(model, parameters, gradients, NULL, NULL, NULL), WEFT_OK);
        result.loss += share * loss;
        result.evaluated += share * evaluated;
        for (size_t i = 0; i < description->elements; i++)
            result.gradients[i] += (float)share * gradients[i];
    }
    *elements = description->elements;
    device->release(device, parameters);
    device->release(device, gradients);
    model_close(model);
    model_description_free(description);
    device->close(device);
    return result;
}

static double gradient_distance(const struct passes *a, const struct passes *b, size_t elements)
{
    double distance = 0, size = 0;
    for (size_t i = 0; i < elements; i++) {
        distance = fmax(distance, fabs((double)a->gradients[i] - b->gradients[i]));
        size = fmax(size, fabs((double)b->gradients[i]));
    }
    return distance / size;
}

static void models_drop_the_same_however_they_compute(void **state)
{
    static const struct model_shape *const shapes[] = {&gpt, &llama};
    for (size_t i = 0; i < 2; i++) {
        size_t elements;
        struct passes one = passes_of(shapes[i], (struct model_options){.batch = BATCH, .dropout = 0.2}, 11, &elements);
        struct passes cut = passes_of(shapes[i], (struct model_options){.batch = 1, .dropout = 0.2}, 11, &elements);
        struct passes other = passes_of(shapes[i], (struct model_options){.batch = 1, .dropout = 0.2}, 12, &elements);
        struct passes none = passes_of(shapes[i], (struct model_options){.batch = BATCH}, 11, &elements);
        struct passes none_of_other = passes_of(shapes[i], (struct model_options){.batch = BATCH}, 12, &elements);

        assert_true(fabs(one.loss - cut.loss) < 1e-5); /* sums in another order */
        assert_true(gradient_distance(&one, &cut, elements) < 1e-5);
        assert_true(fabs(one.loss - other.loss) > 1e-3);
        assert_true(gradient_distance(&one, &other, elements) > 1e-3);
        assert_true(fabs(one.loss - none.loss) > 1e-3);
        assert_true(one.evaluated == none.evaluated); /* nothing is dropped there */
        assert_true(fabs(none.loss - none.evaluated) < 1e-12);
        assert_memory_equal(none.gradients, none_of_other.gradients, elements * sizeof(float));

        for (enum model_recompute recompute = 1; recompute <= MODEL_RECOMPUTE_ALL; recompute++) {
            const struct model_options options = {.batch = BATCH, .dropout = 0.2, .recompute = recompute};
            struct passes anew = passes_of(shapes[i], options, 11, &elements);
            assert_true(anew.loss == one.loss);
            assert_memory_equal(anew.gradients, one.gradients, elements * sizeof(float));
            free(anew.gradients);
        }
        free(one.gradients);
        free(cut.gradients);
        free(other.gradients);
        free(none.gradients);
        free(none_of_other.gradients);
    }
}

static void impossible_shares_are_refused(void **state)
{
    static const double shares[] = {-0.1, 1, 2, NAN};
    struct device *device = open_device("cpu", 1);
    struct model_description *description;
    struct model *model = NULL;
    assert_int_equal(model_describe(&gpt, &description, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct error error = {0};
        const struct model_options options = {.batch = 1, .sequence = 4, .training = true, .dropout = shares[i]};
        assert_int_equal(model_open(description, device, &options, &model, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "dropout"));
        assert_null(model);
    }
    model_description_free(description);
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(all_kernels_drop_the_same_elements),
        cmocka_unit_test(the_share_is_the_one_asked_for),
        cmocka_unit_test(masks_have_nothing_to_do_with_each_other),
        cmocka_unit_test(models_drop_the_same_however_they_compute),
        cmocka_unit_test(impossible_shares_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
