/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for images give the same bits wherever arrays lie and on any number of threads. */
#include "tensor_support.h"

enum { MOST = 1 << 17 }; /* elements of an array */
enum { ARRAYS = 16 };

/* Arrays of random numbers, which begin `offset` elements after a cache line. */
struct arrays {
    struct device *device;
    void *memory[ARRAYS];
    void *at[ARRAYS];
};

static size_t element_size(const struct device *device, bool narrow)
{
    return weft_type_size(narrow ? device->activations : device->type);
}

/* The first six are activations. */
static bool is_narrow(size_t array)
{
    return array < 6;
}

static void arrays_make(struct arrays *arrays, struct device *device, size_t offset)
{
    float *wide = make_array(device, MOST);
    arrays->device = device;
    for (size_t i = 0; i < ARRAYS; i++) {
        arrays->memory[i] = make_array(device, MOST + 64);
        arrays->at[i] = (char *)arrays->memory[i] + offset * element_size(device, is_narrow(i));
        for (size_t k = 0; k < MOST; k++) /* cheaper than normal numbers */
            wide[k] = (float)random_below(i, k, 4096) / 1024 - (i == 10 ? 0 : 2);
        if (is_narrow(i))
            device->to_activations(device, MOST, wide, arrays->at[i]);
        else
            memcpy(arrays->at[i], wide, MOST * sizeof *wide);
    }
    device->release(device, wide);
}

static void arrays_free(struct arrays *arrays)
{
    for (size_t i = 0; i < ARRAYS; i++)
        arrays->device->release(arrays->device, arrays->memory[i]);
}

static void compute_all(struct arrays *arrays, const struct convolution *shape)
{
    struct device *device = arrays->device;
    void **a = arrays->at;
    const struct batch_norm before = {.channels = shape->inputs,
                                      .rectifier = RECTIFIER_RELU6,
                                      .gain = a[6],
                                      .bias = a[7],
                                      .means = a[8],
                                      .reciprocals = a[10],
                                      .gradient_gain = a[11],
                                      .gradient_bias = a[12]};
    struct batch_norm after = {.channels = shape->outputs,
                               .epsilon = 1e-5,
                               .gain = a[7],
                               .bias = a[6],
                               .means = (char *)a[13],
                               .variances = (char *)a[13] + 4096 * sizeof(float),
                               .reciprocals = (char *)a[13] + 8192 * sizeof(float),
                               .gradient_gain = a[9],
                               .gradient_bias = a[8]};
    device->convolution_forward(device, shape, a[0], &before, a[1], a[2], &after);
    device->convolution_backward_input(device, shape, a[1], a[3], a[2], &after, a[0], &before, a[4]);
    device->convolution_backward_weights(device, shape, a[0], &before, a[3], a[2], &after, a[14]);
    const size_t rows = convolution_rows_out(shape);
    device->batch_norm_backward(device, &after, rows, a[2], NULL, a[15], a[5]);
    finish_device(device);
}

static void expect_equal(const struct arrays *a, const struct arrays *b, const char *what)
{
    for (size_t i = 0; i < ARRAYS; i++)
        if (memcmp(a->at[i], b->at[i], MOST * element_size(a->device, is_narrow(i))) != 0)
            fail_msg("array %zu differs: %s of %s", i, what, a->device->name);
}

static void images_do_not_depend_on_threads_or_addresses(void **state)
{
    static const struct convolution shapes[] = {
        {4, 17, 16, 20, 40, 3, 2, 1, false}, {5, 20, 20, 24, 50, 1, 1, 0, false}, {3, 11, 40, 3, 32, 3, 2, 1, false},
        {5, 20, 20, 48, 48, 3, 1, 1, true},  {2, 31, 21, 48, 48, 3, 2, 1, true},  {1, 7, 7, 100, 120, 3, 1, 1, false},
        {2, 28, 28, 8, 96, 3, 2, 1, false},
    };
    static const char *const names[] = {"cpu", "cpu-bf16", "cpu-f16"};
    static const size_t offsets[] = {0, 0, 5};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct arrays first;
            struct device *one = open_device(names[n], 1);
            arrays_make(&first, one, 0);
            compute_all(&first, &shapes[i]);
            for (size_t k = 0; k < 3; k++) {
                struct arrays other;
                struct device *device = open_device(names[n], k == 2                 ? 1
                                                              : k + 2 > TEST_THREADS ? TEST_THREADS
                                                                                     : (int)k + 2);
                arrays_make(&other, device, offsets[k]);
                compute_all(&other, &shapes[i]);
                expect_equal(&first, &other, k == 2 ? "at other addresses" : "on more threads");
                arrays_free(&other);
                device->close(device);
            }
            arrays_free(&first);
            one->close(one);
        }
}

/* Pools have sums over images in parts. */
static void pools_do_not_depend_on_threads(void **state)
{
    const struct max_pool largest = {5, 13, 12, 20, 3, 2, 1};
    const struct average_pool mean = {5, 156, 20};
    const size_t out = 5 * 7 * 6 * 20;
    struct arrays first;
    struct device *one = open_device("cpu", 1);
    uint8_t *places = malloc(2 * out);
    arrays_make(&first, one, 0);
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        struct device *device = open_device("cpu", threads);
        struct arrays other;
        arrays_make(&other, device, 0);
        void **a = other.at;
        const struct batch_norm before = {.channels = 20,
                                          .rectifier = RECTIFIER_RELU,
                                          .gain = a[6],
                                          .bias = a[7],
                                          .means = a[8],
                                          .reciprocals = a[10],
                                          .gradient_gain = a[11],
                                          .gradient_bias = a[12]};
        device->max_pool_forward(device, &largest, a[0], &before, a[13], places + (threads > 1 ? out : 0));
        device->max_pool_backward(device, &largest, a[14], places, a[0], &before, a[1]);
        device->average_pool_forward(device, &mean, a[0], &before, a[15]);
        device->average_pool_backward(device, &mean, a[14], a[0], &before, a[2]);
        if (threads > 1) {
            expect_equal(&first, &other, "on more threads");
            assert_memory_equal(places, places + out, out);
        } else {
            for (size_t i = 0; i < ARRAYS; i++)
                memcpy(first.at[i], other.at[i], MOST * element_size(one, is_narrow(i)));
        }
        arrays_free(&other);
        device->close(device);
    }
    free(places);
    arrays_free(&first);
    one->close(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_do_not_depend_on_threads_or_addresses),
        cmocka_unit_test(pools_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
