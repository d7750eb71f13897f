/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Same kernel, same shape, same values: the same bits, wherever arrays lie, however ranges are cut, whatever else
 * computes at the same time.
 */
#include "training/tensor/adamw.h"
#include "training/tensor/tree.h"

#include "tensor_support.h"

#include <pthread.h>

static const size_t offsets[] = {0, 1, 3, 4, 8, 13, 16}; /* elements past a cache line */
#define OFFSETS (sizeof offsets / sizeof *offsets)

static void products_do_not_depend_on_addresses(void **state)
{
    static const size_t sizes[][3] = {{1, 256, 128}, {33, 17, 65}, {128, 384, 128}, {256, 128, 512}, {64, 50, 48}};
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        struct device *device = open_device("cpu", threads);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int variant = 0; variant < 8; variant++) {
                size_t rows = sizes[i][0], columns = sizes[i][1], inner = sizes[i][2];
                float *a = make_random(device, rows * inner + 16, 1, 1),
                      *b = make_random(device, inner * columns + 16, 1, 2);
                float *bias = make_random(device, columns + 16, 1, 3), *c = make_array(device, rows * columns + 16);
                float *first = make_array(device, rows * columns);
                for (size_t k = 0; k < OFFSETS; k++) {
                    size_t offset = offsets[k], other = offsets[(k * 3) % OFFSETS];
                    memmove(a + offset, a + (k ? offsets[k - 1] : 0), rows * inner * sizeof *a);
                    memmove(b + other, b + (k ? offsets[((k - 1) * 3) % OFFSETS] : 0), inner * columns * sizeof *b);
                    memmove(bias + offset, bias + (k ? offsets[k - 1] : 0), columns * sizeof *bias);
                    for (size_t j = 0; j < rows * columns; j++)
                        c[other + j] = (float)j * 1e-3f;
                    device->matmul(device, &(struct matmul){.rows = rows,
                                                            .columns = columns,
                                                            .inner = inner,
                                                            .transpose_a = variant & 1,
                                                            .transpose_b = variant & 2,
                                                            .accumulate = variant & 4,
                                                            .a = a + offset,
                                                            .b = b + other,
                                                            .bias = variant & 4 ? NULL : bias + offset,
                                                            .c = c + other});
                    finish_device(device);
                    if (k == 0)
                        memcpy(first, c, rows * columns * sizeof *c);
                    assert_memory_equal(c + other, first, rows * columns * sizeof *c);
                }
                void *all[] = {a, b, bias, c, first};
                for (size_t k = 0; k < 5; k++)
                    device->release(device, all[k]);
            }
        device->close(device);
    }
}

/* A library may cut the inner sum of a product by the number of threads: where there is little else to cut among them, and
 * with AMX wherever the sum is long. On 1, 2, 3 and 16 threads. */
static void products_do_not_depend_on_threads(void **state)
{
    static const struct {
        size_t rows, columns, inner;
        bool transpose_a, transpose_b, wide;
    } shapes[] = {
        {64, 64, 8192, true, false, true},      {128, 32, 5000, true, false, true},
        {16, 16, 16384, true, false, true},     {768, 300, 256, true, false, true},
        {5003, 48, 64, true, false, true},      {48, 5003, 64, false, true, false},
        {64, 48, 5003, false, false, false},    {2, 8, 20000, false, true, false},
        {256, 384, 128, false, false, false},   {1000, 1000, 200, false, true, false},
        {1, 4000, 300, false, true, false},     {33, 9001, 96, false, true, false},
        {500, 400, 70, true, false, false},     {70, 1300, 300, true, true, true},
        {128, 48, 5003, false, false, false},   {384, 64, 7432, false, true, false},
        {300, 96, 4096, false, false, true},    {768, 1024, 2048, true, false, true},
        {256, 512, 20000, false, false, false},
    };
    static const char *const names[] = {"cpu", "cpu-bf16", "cpu-f16"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const size_t rows = shapes[i].rows, columns = shapes[i].columns, inner = shapes[i].inner;
            void *first = NULL;
            for (int threads = 1; threads <= MANY_TEST_THREADS; threads += threads < TEST_THREADS ? 1 : 13) {
                struct device *device = NULL;
                if (device_open(names[n], threads, &device, NULL) != WEFT_OK)
                    break; /* this processor has no arithmetic in bf16 */
                float *a = make_random(device, rows * inner, 1, 1), *b = make_random(device, inner * columns, 1, 2);
                void *x = make_array(device, rows * inner), *y = make_array(device, inner * columns);
                void *c = make_array(device, rows * columns);
                device->to_activations(device, rows * inner, a, x);
                device->to_activations(device, inner * columns, b, y);
                device->matmul(device, &(struct matmul){.rows = rows,
                                                        .columns = columns,
                                                        .inner = inner,
                                                        .transpose_a = shapes[i].transpose_a,
                                                        .transpose_b = shapes[i].transpose_b,
                                                        .wide = shapes[i].wide,
                                                        .a = x,
                                                        .b = y,
                                                        .c = c});
                finish_device(device);
                if (!first)
                    first = memcpy(malloc(rows * columns * sizeof(float)), c, rows * columns * sizeof(float));
                else if (memcmp(first, c, rows * columns * sizeof(float)) != 0)
                    fail_msg("%s: %zu x %zu by %zu x %zu differs with %d threads", names[n], rows, inner, inner,
                             columns, threads);
                void *all[] = {a, b, x, y, c};
                for (size_t k = 0; k < 5; k++)
                    device->release(device, all[k]);
                device->close(device);
            }
            free(first);
        }
}

static void layers_do_not_depend_on_addresses(void **state)
{
    enum { ROWS = 21, WIDTH = 67, COUNT = ROWS * WIDTH };
    struct device *device = open_device("cpu", TEST_THREADS);
    struct attention shape = {
        .batch = 1, .sequence = ROWS, .heads = 1, .kv_heads = 1, .head_width = WIDTH / 3, .causal = true};
    float first[8][COUNT];
    int32_t targets[ROWS] = {0};
    for (size_t k = 0; k < OFFSETS; k++) {
        float *x = (float *)make_array(device, COUNT + 16) + offsets[k];
        float *y = (float *)make_array(device, COUNT + 16) + offsets[OFFSETS - 1 - k];
        float *small[5], *wide = make_array(device, COUNT);
        double losses[ROWS];
        for (size_t i = 0; i < 5; i++)
            small[i] = make_random(device, COUNT, 1, 10 + i);
        for (size_t i = 0; i < COUNT; i++) {
            x[i] = (float)random_normal(1, i);
            y[i] = (float)random_normal(2, i);
        }
        float results[8][COUNT] = {{0}};
        device->layer_norm_forward(device, ROWS, WIDTH, 1e-5, x, y, y + WIDTH, results[0], small[0], small[1]);
        device->layer_norm_backward(device, ROWS, WIDTH, y, x, small[2], small[0], small[1], false, results[1],
                                    results[2], results[3]);
        memcpy(results[4], y, sizeof results[4]);
        device->gelu_backward(device, ROWS, WIDTH, x, results[4], results[5]);
        device->attention_forward(device, &shape, x, wide, small[3]);
        memcpy(results[6], wide, ROWS * (WIDTH / 3) * sizeof *wide);
        device->cross_entropy(device, ROWS, WIDTH, WIDTH, targets, 0.1, 1, x, losses);
        memcpy(results[7], x, sizeof results[7]);
        finish_device(device);
        if (k == 0)
            memcpy(first, results, sizeof first);
        assert_memory_equal(results, first, sizeof first);
        device->release(device, x - offsets[k]);
        device->release(device, y - offsets[OFFSETS - 1 - k]);
        device->release(device, wide);
        for (size_t i = 0; i < 5; i++)
            device->release(device, small[i]);
    }
    device->close(device);
}

static void adamw_does_not_depend_on_how_a_range_is_cut(void **state)
{
    enum { COUNT = 5003 };
    struct adamw step = adamw_step(3, 1e-2, 0.9, 0.95, 1e-8, 0.1, 0.3);
    float *arrays[2][4];
    for (int run = 0; run < 2; run++) {
        struct device *device = open_device("cpu", run == 0 ? 1 : TEST_THREADS);
        for (size_t i = 0; i < 4; i++) {
            arrays[run][i] = malloc(COUNT * sizeof(float));
            for (size_t k = 0; k < COUNT; k++)
                arrays[run][i][k] = (float)fabs(random_normal(i, k));
        }
        for (size_t first = 0, i = 0; first < COUNT; i++) {
            size_t count = run == 0 ? COUNT : 1 + random_below(7, i, 300);
            count = count < COUNT - first ? count : COUNT - first;
            device->adamw(device, &step, count, arrays[run][0] + first, arrays[run][1] + first, arrays[run][2] + first,
                          arrays[run][3] + first, NULL);
            first += count;
        }
        device->close(device);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_memory_equal(arrays[0][i], arrays[1][i], COUNT * sizeof(float));
        free(arrays[0][i]);
        free(arrays[1][i]);
    }
}

static void norms_do_not_depend_on_threads_or_shares(void **state)
{
    enum { BLOCKS = 7, COUNT = BLOCKS * DEVICE_SQUARES_BLOCK - 100 }; /* some beside each other, some alone */
    double whole[BLOCKS], shares[BLOCKS];
    struct device *one = open_device("cpu", 1), *more = open_device("cpu", TEST_THREADS);
    float *x = make_random(one, COUNT, 1, 1);
    one->sum_of_squares(one, COUNT, x, whole);
    more->sum_of_squares(more, 3 * DEVICE_SQUARES_BLOCK, x, shares);
    one->sum_of_squares(one, COUNT - 3 * DEVICE_SQUARES_BLOCK, x + 3 * DEVICE_SQUARES_BLOCK, shares + 3);
    assert_memory_equal(whole, shares, sizeof whole);
    double right = ((whole[0] + whole[1]) + (whole[2] + whole[3])) + ((whole[4] + whole[5]) + whole[6]);
    assert_true(tree_sum(whole, BLOCKS) == right);
    one->release(one, x);
    one->close(one);
    more->close(more);
}

/* ---- several devices in several threads ---- */

#define RANKS 4

struct rank {
    pthread_t thread;
    float result[64 * 48];
};

static void *compute_alone(void *argument)
{
    struct rank *rank = argument;
    struct device *device = open_device("cpu", 1);
    float *a = make_random(device, 64 * 32, 1, 1), *b = make_random(device, 32 * 48, 1, 2);
    for (int i = 0; i < 20; i++)
        device->matmul(device,
                       &(struct matmul){.rows = 64, .columns = 48, .inner = 32, .a = a, .b = b, .c = rank->result});
    device->gelu_forward(device, 64 * 48, rank->result, rank->result);
    if (device->finish(device, NULL) != WEFT_OK)
        memset(rank->result, 0xff, sizeof rank->result);
    device->release(device, a);
    device->release(device, b);
    device->close(device);
    return NULL;
}

static void ranks_that_are_threads_do_not_disturb_each_other(void **state)
{
    struct rank *ranks = calloc(RANKS, sizeof *ranks), *alone = calloc(1, sizeof *alone);
    compute_alone(alone);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, compute_alone, &ranks[i]), 0);
    for (int i = 0; i < RANKS; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < RANKS; i++)
        assert_memory_equal(ranks[i].result, alone->result, sizeof alone->result);
    free(ranks);
    free(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_do_not_depend_on_addresses),
        cmocka_unit_test(products_do_not_depend_on_threads),
        cmocka_unit_test(layers_do_not_depend_on_addresses),
        cmocka_unit_test(adamw_does_not_depend_on_how_a_range_is_cut),
        cmocka_unit_test(norms_do_not_depend_on_threads_or_shares),
        cmocka_unit_test(ranks_that_are_threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
