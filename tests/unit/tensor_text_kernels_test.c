/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast kernels that models of whole texts have besides others, for each instruction set that this processor has,
 * against the reference in double precision, at sizes that are no multiple of anything.
 */
#include "training/tensor/class_sums.h"
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

static struct device *fast, *exact;
static const size_t widths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100, 257};
#define WIDTHS (sizeof widths / sizeof *widths)

/* The same numbers on both devices. */
struct pair {
    void *fast, *exact;
};

static struct pair pair_random(size_t count, double deviation, uint64_t seed)
{
    return (struct pair){make_random(fast, count, deviation, seed), make_random(exact, count, deviation, seed)};
}

static void pair_release(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fast->release(fast, pairs[i].fast);
        exact->release(exact, pairs[i].exact);
    }
}

static void expect_near(struct pair pair, size_t count, double tolerance, const char *what, size_t size)
{
    const double distance = distance_of(fast, pair.fast, exact, pair.exact, count);
    if (!(distance <= tolerance))
        fail_msg("%s at %zu with %s: relative error %g is above %g", what, size, fast->kernels, distance, tolerance);
}

static void activations(void **state)
{
    for (size_t i = 0; i < WIDTHS; i++) {
        const size_t rows = 7, width = widths[i], n = rows * width;
        struct pair p[] = {pair_random(n, 2, 1), pair_random(n, 1, 2), pair_random(n, 1, 3), pair_random(width, 1, 4)};
        fast->gelu_erf_forward(fast, n, p[0].fast, p[1].fast);
        exact->gelu_erf_forward(exact, n, p[0].exact, p[1].exact);
        expect_near(p[1], n, 1e-6, "gelu_erf_forward", width);
        fast->gelu_erf_backward(fast, rows, width, p[0].fast, p[2].fast, p[3].fast);
        exact->gelu_erf_backward(exact, rows, width, p[0].exact, p[2].exact, p[3].exact);
        expect_near(p[2], n, 2e-6, "gelu_erf_backward", width);
        expect_near(p[3], width, 3e-6, "gelu_erf_backward bias", width);
        fast->tanh_forward(fast, n, p[0].fast);
        exact->tanh_forward(exact, n, p[0].exact);
        expect_near(p[0], n, 1e-6, "tanh_forward", width);
        fast->tanh_backward(fast, n, p[0].fast, p[2].fast);
        exact->tanh_backward(exact, n, p[0].exact, p[2].exact);
        expect_near(p[2], n, 3e-6, "tanh_backward", width);
        pair_release(p, 4);
    }
}

static void activations_of_extreme_values(void **state)
{
    float huge[4] = {-1e4f, 1e4f, -1e30f, 1e30f}, turned[5] = {-1e30f, -50, 0, 50, 1e30f}, none = NAN;
    fast->gelu_erf_forward(fast, 4, huge, huge);
    assert_true(fabsf(huge[0]) < 1e-20f && huge[1] == 1e4f && fabsf(huge[2]) < 1e-5f && huge[3] == 1e30f);
    fast->tanh_forward(fast, 5, turned);
    assert_true(turned[0] == -1 && turned[1] == -1 && turned[2] == 0 && turned[3] == 1 && turned[4] == 1);
    fast->tanh_forward(fast, 1, &none);
    assert_true(isnan(none));
    fast->gelu_erf_forward(fast, 1, &none, &none);
    assert_true(isnan(none));
}

static void stream_norm(void **state)
{
    for (size_t i = 3; i < WIDTHS; i++) {
        const size_t rows = 135, width = widths[i], n = rows * width;
        enum { X, GAIN, BIAS, OUT, MEANS, RECIPROCALS, GRADIENT, TO_X, TO_GAIN, TO_BIAS, ALL };
        struct pair p[ALL];
        for (size_t k = 0; k < ALL; k++)
            p[k] = pair_random(n, 1, k);
        fast->stream_norm_forward(fast, rows, width, 1e-5, p[X].fast, p[GAIN].fast, p[BIAS].fast, p[OUT].fast,
                                  p[MEANS].fast, p[RECIPROCALS].fast);
        exact->stream_norm_forward(exact, rows, width, 1e-5, p[X].exact, p[GAIN].exact, p[BIAS].exact, p[OUT].exact,
                                   p[MEANS].exact, p[RECIPROCALS].exact);
        expect_near(p[OUT], n, 1e-5, "stream_norm_forward", width);
        fast->stream_norm_backward(fast, rows, width, p[GRADIENT].fast, p[X].fast, p[GAIN].fast, p[MEANS].fast,
                                   p[RECIPROCALS].fast, false, p[TO_X].fast, p[TO_GAIN].fast, p[TO_BIAS].fast);
        exact->stream_norm_backward(exact, rows, width, p[GRADIENT].exact, p[X].exact, p[GAIN].exact, p[MEANS].exact,
                                    p[RECIPROCALS].exact, false, p[TO_X].exact, p[TO_GAIN].exact, p[TO_BIAS].exact);
        expect_near(p[TO_X], n, 3e-5, "stream_norm_backward", width);
        expect_near(p[TO_GAIN], width, 1e-5, "stream_norm_backward gain", width);
        expect_near(p[TO_BIAS], width, 1e-5, "stream_norm_backward bias", width);
        fast->stream_norm_backward(fast, rows, width, p[GRADIENT].fast, p[X].fast, p[GAIN].fast, p[MEANS].fast,
                                   p[RECIPROCALS].fast, false, p[GRADIENT].fast, p[TO_GAIN].fast, p[TO_BIAS].fast);
        assert_memory_equal(p[GRADIENT].fast, p[TO_X].fast, n * sizeof(float)); /* in place */
        pair_release(p, ALL);
    }
}

/* Padding changes nothing: neither what it holds nor how long the rows are that the others are in. */
static void attention_with_padding(void **state)
{
    enum { BATCH = 3, HEADS = 2, HEAD_WIDTH = 20, WIDTH = HEADS * HEAD_WIDTH, ROW = 3 * WIDTH };
    static const size_t sequences[] = {1, 5, 16, 33, 70, 130};
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        const size_t sequence = sequences[i], tokens = BATCH * sequence;
        const int32_t lengths[BATCH] = {(int32_t)sequence, 1, (int32_t)(sequence + 1) / 2};
        struct attention shape = {.batch = BATCH,
                                  .sequence = sequence,
                                  .heads = HEADS,
                                  .kv_heads = HEADS,
                                  .head_width = HEAD_WIDTH,
                                  .lengths = lengths};
        struct pair p[] = {pair_random(tokens * ROW, 1, 1), pair_random(tokens * WIDTH, 1, 2),
                           pair_random(tokens * HEADS, 1, 3), pair_random(tokens * WIDTH, 1, 4),
                           pair_random(tokens * ROW, 1, 5)};
        fast->attention_forward(fast, &shape, p[0].fast, p[1].fast, p[2].fast);
        exact->attention_forward(exact, &shape, p[0].exact, p[1].exact, p[2].exact);
        expect_near(p[1], tokens * WIDTH, 5e-6, "attention_forward", sequence);
        expect_near(p[2], tokens * HEADS, 5e-6, "attention_forward logsums", sequence);
        fast->attention_backward(fast, &shape, p[0].fast, p[1].fast, p[2].fast, p[3].fast, p[4].fast);
        exact->attention_backward(exact, &shape, p[0].exact, p[1].exact, p[2].exact, p[3].exact, p[4].exact);
        expect_near(p[4], tokens * ROW, 1e-5, "attention_backward", sequence);
        for (size_t b = 0; b < BATCH; b++)
            for (size_t t = (size_t)lengths[b]; t < sequence; t++)
                for (size_t d = WIDTH; d < ROW; d++) /* keys and values of padding */
                    assert_true(get(fast, p[4].fast, (b * sequence + t) * ROW + d) == 0);

        /* The first half of the third sample alone is the same as a sample without padding. */
        const size_t length = (size_t)lengths[2];
        void *alone = make_array(fast, sequence * WIDTH);
        shape = (struct attention){
            .batch = 1, .sequence = length, .heads = HEADS, .kv_heads = HEADS, .head_width = HEAD_WIDTH};
        fast->attention_forward(fast, &shape, (float *)p[0].fast + 2 * sequence * ROW, alone, NULL);
        assert_memory_equal(alone, (float *)p[1].fast + 2 * sequence * WIDTH, length * WIDTH * sizeof(float));
        fast->release(fast, alone);
        pair_release(p, 5);
    }
}

static void rows_by_position(void **state)
{
    enum { BATCH = 3, SEQUENCE = 5, COUNT = 4 };
    const int32_t positions[BATCH * COUNT] = {4, 0, 0, 2, 1, 1, 1, 1, 0, 1, 2, 3}; /* some come twice */
    for (size_t i = 0; i < WIDTHS; i++)
        for (size_t chosen = 0; chosen < 2; chosen++) {
            const size_t width = widths[i], all = BATCH * SEQUENCE * width;
            const struct row_choice choice = {.batch = BATCH,
                                              .sequence = SEQUENCE,
                                              .width = width,
                                              .count = chosen ? COUNT : 2,
                                              .positions = chosen ? positions : NULL};
            const size_t few = BATCH * choice.count * width;
            struct pair p[] = {pair_random(all, 1, 1), pair_random(few, 1, 2), pair_random(few, 1, 3)};
            fast->gather_rows(fast, &choice, p[0].fast, p[1].fast);
            exact->gather_rows(exact, &choice, p[0].exact, p[1].exact);
            expect_near(p[1], few, 0, "gather_rows", width);
            fast->scatter_rows(fast, &choice, p[2].fast, p[0].fast);
            exact->scatter_rows(exact, &choice, p[2].exact, p[0].exact);
            expect_near(p[0], all, 1e-6, "scatter_rows", width);
            pair_release(p, 3);
        }
    const float x[] = {1, 2, 3, 4, 5, 6};
    float first[2];
    fast->gather_rows(fast, &(struct row_choice){.batch = 2, .sequence = 3, .width = 1, .count = 1}, x, first);
    assert_true(first[0] == 1 && first[1] == 4);
}

/* Rows without a target have no loss, gradients of 0, and are never right; the others are as if alone. */
static void rows_without_targets(void **state)
{
    enum { ROWS = 5, CLASSES = 37 };
    const int32_t targets[ROWS] = {3, DEVICE_NO_TARGET, 36, 0, DEVICE_NO_TARGET};
    struct device *const devices[] = {fast, exact};
    for (size_t d = 0; d < 2; d++)
        for (double smoothing = 0; smoothing < 0.2; smoothing += 0.1) {
            struct device *device = devices[d];
            const size_t bytes = CLASSES * weft_type_size(device->type);
            char *together = make_random(device, ROWS * CLASSES, 3, 1),
                 *apart = make_random(device, ROWS * CLASSES, 3, 1),
                 *divided = make_random(device, ROWS * CLASSES, 3, 1);
            const struct divided_classes shape = {.rows = ROWS,
                                                  .classes = CLASSES,
                                                  .all = CLASSES,
                                                  .ranks = 1,
                                                  .stride = CLASSES,
                                                  .targets = targets,
                                                  .smoothing = smoothing,
                                                  .scale = 0.25};
            struct class_sums sums[ROWS];
            double losses[ROWS], alone, of_divided[ROWS];
            device->class_sums(device, &shape, divided, sums);
            device->divided_cross_entropy(device, &shape, sums, divided, of_divided);
            device->cross_entropy(device, ROWS, CLASSES, CLASSES, targets, smoothing, 0, together, losses);
            assert_memory_equal(together, apart, ROWS * bytes);
            device->cross_entropy(device, ROWS, CLASSES, CLASSES, targets, smoothing, 0.25, together, losses);
            for (size_t i = 0; i < ROWS; i++) {
                assert_true(fabs(losses[i] - of_divided[i]) < 1e-5);
                if (targets[i] == DEVICE_NO_TARGET) {
                    assert_true(losses[i] == 0 && of_divided[i] == 0);
                    assert_false(class_sums_are_right(&sums[i]));
                    for (size_t j = i * CLASSES; j < (i + 1) * CLASSES; j++)
                        assert_true(get(device, together, j) == 0 && get(device, divided, j) == 0);
                    continue;
                }
                bool is_largest = true;
                for (size_t j = i * CLASSES; j < (i + 1) * CLASSES; j++)
                    is_largest =
                        is_largest && get(device, apart, j) <= get(device, apart, i * CLASSES + (size_t)targets[i]);
                assert_int_equal(class_sums_are_right(&sums[i]), is_largest);
                device->cross_entropy(device, 1, CLASSES, CLASSES, &targets[i], smoothing, 0.25, apart + i * bytes,
                                      &alone);
                assert_true(alone == losses[i]);
                assert_memory_equal(apart + i * bytes, together + i * bytes, bytes);
            }
            device->release(device, together);
            device->release(device, apart);
            device->release(device, divided);
        }
}

/* Of equal logits the first one is the prediction, also where the classes are divided over ranks. */
static void first_of_equal_logits_is_the_prediction(void **state)
{
    enum { CLASSES = 6, RANKS = 2, OWN = CLASSES / RANKS };
    static const struct {
        double logits[CLASSES];
        int32_t prediction;
    } rows[] = {
        {{0, 2, 1, 2, 2, -1}, 1}, {{3, 3, 3, 3, 3, 3}, 0}, {{-1, -2, -3, -4, 0, 0}, 4}, {{0, 1, 2, 5, 4, 5}, 3}};
    struct device *const devices[] = {fast, exact};
    for (size_t d = 0; d < 2; d++)
        for (size_t r = 0; r < ARRAY_SIZE(rows); r++)
            for (int32_t target = 0; target < CLASSES; target++) {
                struct class_sums sums[RANKS], all;
                char *logits = make_random(devices[d], CLASSES, 1, 1);
                for (size_t j = 0; j < CLASSES; j++)
                    put(devices[d], logits, j, rows[r].logits[j]);
                const int32_t targets[RANKS] = {target, target - OWN};
                struct divided_classes shape = {.rows = 1, .all = CLASSES, .stride = CLASSES};
                shape.classes = CLASSES;
                shape.ranks = 1;
                shape.targets = &target;
                devices[d]->class_sums(devices[d], &shape, logits, sums);
                all = class_sums_join(&shape, sums, 0);
                assert_int_equal(class_sums_are_right(&sums[0]), target == rows[r].prediction);
                assert_int_equal(class_sums_are_right(&all), target == rows[r].prediction);
                shape.classes = OWN;
                shape.ranks = RANKS;
                for (size_t rank = 0; rank < RANKS; rank++) {
                    shape.targets = &targets[rank];
                    devices[d]->class_sums(devices[d], &shape, logits + rank * OWN * weft_type_size(devices[d]->type),
                                           sums + rank);
                }
                all = class_sums_join(&shape, sums, 0);
                assert_int_equal(class_sums_are_right(&all), target == rows[r].prediction);
                devices[d]->release(devices[d], logits);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(activations_of_extreme_values),
        cmocka_unit_test(stream_norm),
        cmocka_unit_test(attention_with_padding),
        cmocka_unit_test(rows_by_position),
        cmocka_unit_test(rows_without_targets),
        cmocka_unit_test(first_of_equal_logits_is_the_prediction),
    };
    size_t count;
    const struct kernels *const *tables = kernels_supported(WEFT_F32, &count);
    int failed = 0;
    exact = open_device("reference", 1);
    for (size_t i = 0; i < count; i++)
        for (int threads = 1; threads <= TEST_THREADS; threads += 2) {
            if (cpu_open_with(tables[i], threads, &fast, NULL) != WEFT_OK)
                return 1;
            printf("kernels for %s, threads: %d\n", tables[i]->name, threads);
            failed += cmocka_run_group_tests(tests, NULL, NULL);
            fast->close(fast);
        }
    exact->close(exact);
    return failed;
}
