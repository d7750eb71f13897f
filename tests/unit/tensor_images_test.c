/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for images of the fast device, for each instruction set and type of activations that this processor has, against
 * the reference in double precision, at odd sizes, kernels, strides and paddings. Inputs are the same numbers.
 */
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

static struct device *fast, *exact;
static double tolerance; /* of results in the device's `type` */
static double rounding;  /* of activations */

/* The same numbers on both devices; `narrow`: activations. */
struct pair {
    void *fast, *exact;
    bool narrow;
    size_t count;
};

static struct pair pair_random(size_t count, double deviation, uint64_t seed, bool narrow)
{
    struct pair pair = {.narrow = narrow, .count = count};
    float *wide = make_random(fast, count, deviation, seed);
    pair.fast = make_array(fast, count);
    pair.exact = make_array(exact, count);
    if (narrow) {
        fast->to_activations(fast, count, wide, pair.fast);
        fast->from_activations(fast, count, pair.fast, wide);
    } else {
        memcpy(pair.fast, wide, count * sizeof *wide);
    }
    for (size_t i = 0; i < count; i++)
        put(exact, pair.exact, i, (double)wide[i]);
    fast->release(fast, wide);
    return pair;
}

static void pairs_release(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fast->release(fast, pairs[i].fast);
        exact->release(exact, pairs[i].exact);
    }
}

static void expect_same(const struct pair *pair, const char *what, const char *where)
{
    float *wide = make_array(fast, pair->count);
    if (pair->narrow)
        fast->from_activations(fast, pair->count, pair->fast, wide);
    else
        memcpy(wide, pair->fast, pair->count * sizeof *wide);
    finish_device(fast);
    const double distance = distance_of(fast, wide, exact, pair->exact, pair->count),
                 most = tolerance + (pair->narrow ? rounding : 0);
    fast->release(fast, wide);
    if (!(distance <= most))
        fail_msg("%s of %s with %s of %s: relative error %g is above %g", what, where, fast->kernels, fast->name,
                 distance, most);
}

/* ---- batch norms ---- */

enum { GAIN, BIAS, MEANS, VARIANCES, RECIPROCALS, GRADIENT_GAIN, GRADIENT_BIAS, NORM_ARRAYS };

struct norm_pair {
    struct pair arrays[NORM_ARRAYS];
    struct batch_norm fast, exact;
};

/* With statistics and gradients that might belong to normal numbers. */
static void norm_make(struct norm_pair *norm, size_t channels, enum rectifier rectifier, bool frozen, uint64_t seed)
{
    for (size_t i = 0; i < NORM_ARRAYS; i++)
        norm->arrays[i] = pair_random(channels, i == BIAS ? 2 : 0.5, seed + i, false);
    for (size_t j = 0; j < channels; j++) {
        const double reciprocal = (double)(float)(0.5 + fabs(get(exact, norm->arrays[RECIPROCALS].exact, j)));
        put(exact, norm->arrays[RECIPROCALS].exact, j, reciprocal);
        put(fast, norm->arrays[RECIPROCALS].fast, j, reciprocal);
    }
    const struct pair *p = norm->arrays;
    norm->fast = (struct batch_norm){.channels = channels,
                                     .epsilon = 1e-3,
                                     .rectifier = rectifier,
                                     .frozen = frozen,
                                     .gain = p[GAIN].fast,
                                     .bias = p[BIAS].fast,
                                     .means = p[MEANS].fast,
                                     .variances = p[VARIANCES].fast,
                                     .reciprocals = p[RECIPROCALS].fast,
                                     .gradient_gain = p[GRADIENT_GAIN].fast,
                                     .gradient_bias = p[GRADIENT_BIAS].fast};
    norm->exact = (struct batch_norm){.channels = channels,
                                      .epsilon = 1e-3,
                                      .rectifier = rectifier,
                                      .frozen = frozen,
                                      .gain = p[GAIN].exact,
                                      .bias = p[BIAS].exact,
                                      .means = p[MEANS].exact,
                                      .variances = p[VARIANCES].exact,
                                      .reciprocals = p[RECIPROCALS].exact,
                                      .gradient_gain = p[GRADIENT_GAIN].exact,
                                      .gradient_bias = p[GRADIENT_BIAS].exact};
}

static void norm_release(struct norm_pair *norm)
{
    pairs_release(norm->arrays, NORM_ARRAYS);
}

static void expect_norm_gradients(const struct norm_pair *norm, const char *where)
{
    expect_same(&norm->arrays[GRADIENT_GAIN], "gradient of gain", where);
    expect_same(&norm->arrays[GRADIENT_BIAS], "gradient of bias", where);
}

/* ---- convolution ---- */

static const struct convolution shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, false},      {2, 5, 7, 3, 8, 3, 2, 1, false},    {3, 9, 8, 3, 5, 7, 2, 3, false},
    {2, 6, 5, 17, 33, 1, 1, 0, false},    {2, 7, 7, 9, 18, 1, 2, 0, false},   {1, 13, 11, 40, 24, 3, 1, 1, false},
    {2, 4, 4, 70, 20, 3, 2, 1, false},    {1, 6, 6, 5, 7, 2, 2, 0, false},    {2, 9, 9, 4, 3, 4, 3, 2, false},
    {1, 12, 16, 500, 40, 1, 1, 0, false}, {2, 3, 3, 2, 2, 3, 1, 2, false},    {1, 5, 5, 6, 7, 5, 1, 2, false},
    {1, 20, 20, 8, 96, 3, 2, 1, false}, /* a phase of the backward pass has a longer panel than the whole */
    {4, 14, 14, 8, 16, 3, 1, 1, false},   {2, 5, 7, 19, 19, 3, 1, 1, true},   {2, 6, 9, 40, 40, 3, 2, 1, true},
    {1, 8, 7, 5, 5, 5, 2, 2, true},       {1, 4, 4, 17, 17, 2, 1, 0, true},   {2, 9, 5, 3, 3, 4, 3, 1, true},
    {1, 3, 3, 1, 1, 1, 1, 0, true},       {2, 4, 200, 70, 70, 3, 1, 1, true}, {3, 1, 1, 24, 24, 3, 1, 1, true},
};

/* `before` and `after` may be NULL. */
static void convolve(const struct convolution *shape, struct norm_pair *before, struct norm_pair *after)
{
    char where[160];
    snprintf(where, sizeof where, "%zu x %zu x %zu x %zu to %zu, kernel %zu, stride %zu, padding %zu%s%s%s",
             shape->batch, shape->height, shape->width, shape->inputs, shape->outputs, shape->kernel, shape->stride,
             shape->padding, shape->depthwise ? ", depthwise" : "", before ? ", normalized" : "",
             after ? after->fast.frozen ? ", then frozen" : ", then normalized" : "");
    const size_t in = convolution_rows_in(shape) * shape->inputs, out = convolution_rows_out(shape) * shape->outputs,
                 weights = convolution_weights(shape);
    struct pair p[] = {pair_random(in, 1, 1, true),  pair_random(weights, 0.3, 2, true),
                       pair_random(out, 1, 3, true), pair_random(out, 1, 4, true),
                       pair_random(in, 1, 5, true),  pair_random(weights, 1, 6, false),
                       pair_random(out, 1, 7, true)};
    const struct pair *x = &p[0], *w = &p[1], *y = &p[2], *gradient = &p[3], *to_x = &p[4], *to_w = &p[5], *o = &p[6];
    const struct batch_norm *fast_before = before ? &before->fast : NULL, *fast_after = after ? &after->fast : NULL,
                            *exact_before = before ? &before->exact : NULL, *exact_after = after ? &after->exact : NULL;
    fast->convolution_backward_input(fast, shape, w->fast, gradient->fast, y->fast, fast_after, x->fast, fast_before,
                                     to_x->fast);
    exact->convolution_backward_input(exact, shape, w->exact, gradient->exact, y->exact, exact_after, x->exact,
                                      exact_before, to_x->exact);
    expect_same(to_x, "gradient of input", where);
    if (before)
        expect_norm_gradients(before, where);
    fast->convolution_backward_weights(fast, shape, x->fast, fast_before, gradient->fast, y->fast, fast_after,
                                       to_w->fast);
    exact->convolution_backward_weights(exact, shape, x->exact, exact_before, gradient->exact, y->exact, exact_after,
                                        to_w->exact);
    expect_same(to_w, "gradient of weights", where);
    fast->convolution_forward(fast, shape, x->fast, fast_before, w->fast, o->fast, fast_after);
    exact->convolution_forward(exact, shape, x->exact, exact_before, w->exact, o->exact, exact_after);
    expect_same(o, "output", where);
    if (after) {
        expect_same(&after->arrays[MEANS], "means", where);
        expect_same(&after->arrays[RECIPROCALS], "reciprocals", where);
        if (!after->fast.frozen && convolution_rows_out(shape) > 1)
            expect_same(&after->arrays[VARIANCES], "variances", where);
    }
    pairs_release(p, sizeof p / sizeof *p);
}

static void convolutions(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        convolve(&shapes[i], NULL, NULL);
        for (int variant = 0; variant < 4; variant++) {
            struct norm_pair before, after;
            norm_make(&before, shapes[i].inputs, (enum rectifier)(variant % 3), false, 100);
            norm_make(&after, shapes[i].outputs, RECTIFIER_RELU6, variant == 2, 200);
            convolve(&shapes[i], variant == 3 ? NULL : &before, &after);
            norm_release(&before);
            norm_release(&after);
        }
    }
}

/* With a mean a thousand times the deviation, what a square of sums would lose. */
static void statistics_of_a_large_mean(void **state)
{
    const struct convolution shape = {
        .batch = 4, .height = 30, .width = 30, .inputs = 1, .outputs = 1, .kernel = 1, .stride = 1};
    const size_t rows = convolution_rows_in(&shape);
    if (fast->activations != WEFT_F32)
        return;
    struct pair p[] = {pair_random(rows, 1, 1, true), pair_random(1, 1, 2, true), pair_random(rows, 1, 3, true)};
    struct norm_pair after;
    norm_make(&after, 1, RECTIFIER_NONE, false, 3);
    for (size_t i = 0; i < rows; i++) {
        const double moved = (double)(float)(get(exact, p[0].exact, i) + 1000);
        put(fast, p[0].fast, i, moved);
        put(exact, p[0].exact, i, moved);
    }
    put(fast, p[1].fast, 0, 1);
    put(exact, p[1].exact, 0, 1);
    fast->convolution_forward(fast, &shape, p[0].fast, NULL, p[1].fast, p[2].fast, &after.fast);
    exact->convolution_forward(exact, &shape, p[0].exact, NULL, p[1].exact, p[2].exact, &after.exact);
    expect_same(&after.arrays[MEANS], "means", "a large mean");
    expect_same(&after.arrays[VARIANCES], "variances", "a large mean");
    norm_release(&after);
    pairs_release(p, 3);
}

/* ---- batch norms and pools ---- */

static void batch_norms(void **state)
{
    static const size_t sizes[][2] = {{1, 1}, {5, 7}, {97, 17}, {200, 33}, {64, 64}};
    for (size_t i = 0; i < 5; i++)
        for (int variant = 0; variant < 6; variant++) {
            const size_t rows = sizes[i][0], channels = sizes[i][1], count = rows * channels;
            struct norm_pair norm;
            norm_make(&norm, channels, (enum rectifier)(variant % 3), false, 10);
            struct pair p[] = {pair_random(count, 1, 1, true), pair_random(count, 1, 2, false),
                               pair_random(count, 1, 3, false), pair_random(count, 1, 4, true),
                               pair_random(count, 1, 5, false)};
            fast->batch_norm_forward(fast, &norm.fast, rows, p[0].fast, variant < 3 ? NULL : p[1].fast, p[2].fast);
            exact->batch_norm_forward(exact, &norm.exact, rows, p[0].exact, variant < 3 ? NULL : p[1].exact,
                                      p[2].exact);
            expect_same(&p[2], "output", "a batch norm");
            fast->batch_norm_backward(fast, &norm.fast, rows, p[0].fast, variant < 3 ? NULL : p[1].fast, p[4].fast,
                                      p[3].fast);
            exact->batch_norm_backward(exact, &norm.exact, rows, p[0].exact, variant < 3 ? NULL : p[1].exact,
                                       p[4].exact, p[3].exact);
            expect_same(&p[4], "gradient", "a batch norm");
            expect_same(&p[3], "slope", "a batch norm");
            expect_norm_gradients(&norm, "a batch norm");
            fast->scale(fast, channels, 2, norm.fast.reciprocals);
            exact->scale(exact, channels, 2, norm.exact.reciprocals);
            fast->batch_norm_reciprocals(fast, channels, 1e-3, norm.fast.reciprocals, norm.fast.means);
            exact->batch_norm_reciprocals(exact, channels, 1e-3, norm.exact.reciprocals, norm.exact.means);
            expect_same(&norm.arrays[MEANS], "reciprocals", "a batch norm");
            norm_release(&norm);
            pairs_release(p, 5);
        }
}

static void max_pools(void **state)
{
    static const struct max_pool pools[] = {
        {2, 9, 8, 17, 3, 2, 1}, {1, 5, 5, 3, 2, 2, 0}, {2, 7, 6, 40, 3, 1, 1}, {1, 1, 1, 5, 3, 2, 1}};
    for (size_t i = 0; i < 4; i++)
        for (int variant = 0; variant < 3; variant++) {
            const struct max_pool *shape = &pools[i];
            const size_t in = shape->batch * shape->height * shape->width * shape->channels,
                         out = shape->batch * shape->channels *
                               window_count(shape->height, shape->kernel, shape->stride, shape->padding) *
                               window_count(shape->width, shape->kernel, shape->stride, shape->padding);
            struct norm_pair norm;
            norm_make(&norm, shape->channels, (enum rectifier)variant, false, 10);
            struct pair p[] = {pair_random(in, 1, 1, true), pair_random(out, 1, 2, false),
                               pair_random(out, 1, 3, false), pair_random(in, 1, 4, true)};
            uint8_t *places = malloc(2 * out);
            fast->max_pool_forward(fast, shape, p[0].fast, variant ? &norm.fast : NULL, p[1].fast, places);
            exact->max_pool_forward(exact, shape, p[0].exact, variant ? &norm.exact : NULL, p[1].exact, places + out);
            expect_same(&p[1], "output", "a pool");
            assert_memory_equal(places, places + out, out);
            fast->max_pool_backward(fast, shape, p[2].fast, places, p[0].fast, variant ? &norm.fast : NULL, p[3].fast);
            exact->max_pool_backward(exact, shape, p[2].exact, places, p[0].exact, variant ? &norm.exact : NULL,
                                     p[3].exact);
            expect_same(&p[3], "gradient", "a pool");
            if (variant)
                expect_norm_gradients(&norm, "a pool");
            free(places);
            norm_release(&norm);
            pairs_release(p, 4);
        }
}

static void average_pools(void **state)
{
    static const struct average_pool pools[] = {{1, 1, 1}, {3, 49, 17}, {2, 130, 40}};
    for (size_t i = 0; i < 3; i++)
        for (int variant = 0; variant < 3; variant++) {
            const struct average_pool *shape = &pools[i];
            const size_t in = shape->batch * shape->positions * shape->channels, out = shape->batch * shape->channels;
            struct norm_pair norm;
            norm_make(&norm, shape->channels, (enum rectifier)variant, false, 10);
            struct pair p[] = {pair_random(in, 1, 1, true), pair_random(out, 1, 2, false),
                               pair_random(out, 1, 3, false), pair_random(in, 1, 4, true)};
            fast->average_pool_forward(fast, shape, p[0].fast, variant ? &norm.fast : NULL, p[1].fast);
            exact->average_pool_forward(exact, shape, p[0].exact, variant ? &norm.exact : NULL, p[1].exact);
            expect_same(&p[1], "output", "an average");
            fast->average_pool_backward(fast, shape, p[2].fast, p[0].fast, variant ? &norm.fast : NULL, p[3].fast);
            exact->average_pool_backward(exact, shape, p[2].exact, p[0].exact, variant ? &norm.exact : NULL,
                                         p[3].exact);
            expect_same(&p[3], "gradient", "an average");
            if (variant)
                expect_norm_gradients(&norm, "an average");
            norm_release(&norm);
            pairs_release(p, 4);
        }
}

/* ---- loss and pixels ---- */

static void losses_of_mixed_samples(void **state)
{
    enum { ROWS = 4, CLASSES = 37, STRIDE = 40 };
    const int32_t targets[2 * ROWS] = {0, 5, 36, 36, 7, 7, 12, 3};
    const float shares[2 * ROWS] = {0.25f, 0.75f, 0.5f, 0.5f, 1, 0, 0.875f, 0.125f};
    for (int variant = 0; variant < 4; variant++) {
        const double smoothing = variant & 1 ? 0.1 : 0, scale = variant & 2 ? 0.5 : 0;
        struct pair p[] = {pair_random(ROWS * STRIDE, 1, 1, true)};
        double losses[2][ROWS], right[2][ROWS];
        fast->mixed_cross_entropy(fast, ROWS, CLASSES, STRIDE, targets, shares, smoothing, scale, p[0].fast, losses[0],
                                  right[0]);
        exact->mixed_cross_entropy(exact, ROWS, CLASSES, STRIDE, targets, shares, smoothing, scale, p[0].exact,
                                   losses[1], right[1]);
        expect_same(&p[0], "gradient", "a loss");
        for (size_t i = 0; i < ROWS; i++)
            assert_true(fabs(losses[0][i] - losses[1][i]) < 1e-5);
        assert_memory_equal(right[0], right[1], sizeof right[0]);
        pairs_release(p, 1);
    }
    /* The first of two equal ones is the prediction. */
    struct pair p[] = {pair_random(2 * 4, 0, 1, true)};
    const int32_t equal[] = {0, 0, 1, 1};
    double losses[2], right[2];
    fast->mixed_cross_entropy(fast, 2, 4, 4, equal, shares, 0, 0, p[0].fast, losses, right);
    assert_true(right[0] == 1 && right[1] == 0);
    assert_true(fabs(losses[0] - log(4)) < 1e-6);
    pairs_release(p, 1);
}

static void pixels(void **state)
{
    const float values[] = {1, -2.5f, 0, 0.125f, 3, 4, 5, 6, 7};
    struct pair p = pair_random(9, 1, 1, true);
    fast->pixels_to_activations(fast, 9, values, p.fast);
    exact->pixels_to_activations(exact, 9, values, p.exact);
    assert_true(get(exact, p.exact, 1) == -2.5);
    expect_same(&p, "pixels", "an image");
    pairs_release(&p, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),  cmocka_unit_test(statistics_of_a_large_mean),
        cmocka_unit_test(batch_norms),   cmocka_unit_test(max_pools),
        cmocka_unit_test(average_pools), cmocka_unit_test(losses_of_mixed_samples),
        cmocka_unit_test(pixels),
    };
    static const struct {
        weft_type type;
        double rounding;
    } types[] = {{WEFT_F32, 0}, {WEFT_BF16, 0x1p-8}, {WEFT_F16, 0x1p-11}};
    int failed = 0;
    exact = open_device("reference", 1);
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        size_t count;
        const struct kernels *const *tables = kernels_supported(types[type].type, &count);
        tolerance = 1e-5;
        rounding = types[type].rounding;
        for (size_t i = 0; i < count; i++)
            for (int threads = 1; threads <= TEST_THREADS; threads += 2) {
                if (cpu_open_with(tables[i], threads, &fast, NULL) != WEFT_OK)
                    return 1;
                printf("kernels of %s for %s, threads: %d\n", weft_type_name(types[type].type), tables[i]->name,
                       threads);
                failed += cmocka_run_group_tests(tests, NULL, NULL);
                fast->close(fast);
            }
    }
    exact->close(exact);
    return failed;
}
