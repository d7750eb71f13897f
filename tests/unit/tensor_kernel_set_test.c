/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel sets: which this process can use, that none above is opened, and which kernels have the same bits in all. */
#include "training/tensor/devices.h"
#include "training/tensor/kernels/kernels.h"

#include "tensor_support.h"

#include <stdlib.h>

enum { COUNT = 3 * DEVICE_SQUARES_BLOCK + 77 };

static enum kernel_set best_with(const char *variable, const char *value, weft_type activations)
{
    setenv(variable, value, 1);
    const enum kernel_set best = kernel_set_best(activations);
    unsetenv(variable);
    return best;
}

static void the_variable_of_onednn_is_a_limit(void **state)
{
    static const char *const variables[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
    static const struct {
        const char *value;
        enum kernel_set set;
    } limits[] = {
        {"SSE41", KERNEL_SET_BASELINE},
        {"AVX", KERNEL_SET_BASELINE},
        {"avx2", KERNEL_SET_AVX2},
        {"AVX2_VNNI", KERNEL_SET_AVX2},
        {"AVX512_CORE", KERNEL_SET_AVX512},
        {"avx512_core_vnni", KERNEL_SET_AVX512},
        {"AVX512_CORE_BF16", KERNEL_SET_AVX512BF16},
        {"AVX512_CORE_AMX", KERNEL_SET_AMX},
        {"DEFAULT", KERNEL_SET_AMX},
        {"", KERNEL_SET_AMX},
    };
    static const weft_type types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (size_t t = 0; t < 3; t++) {
        const enum kernel_set free_best = kernel_set_best(types[t]);
        assert_true(free_best <= kernel_set_highest(types[t]));
        for (size_t v = 0; v < 2; v++)
            for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
                assert_int_equal(best_with(variables[v], limits[i].value, types[t]),
                                 limits[i].set < free_best ? limits[i].set : free_best);
    }
}

static void a_set_that_the_process_lacks_is_refused(void **state)
{
    struct device *device;
    struct error error = {0};
    setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
    if (kernel_set_highest(WEFT_F32) > KERNEL_SET_BASELINE) {
        assert_int_equal(device_open_with("cpu", KERNEL_SET_AVX2, 1, &device, &error), WEFT_ERROR_ARGUMENT);
        assert_string_equal(error.text, "this process can use the kernels baseline at most, not avx2");
    }
    assert_int_equal(device_open("cpu", 1, &device, NULL), WEFT_OK);
    assert_string_equal(device->kernels, "baseline");
    device->close(device);
    unsetenv("ONEDNN_MAX_CPU_ISA");
    for (enum kernel_set set = 0; set <= kernel_set_best(WEFT_BF16); set++) {
        assert_int_equal(device_open_with("cpu-bf16", set, 1, &device, NULL), WEFT_OK);
        assert_string_equal(device->kernels, kernel_set_names[set]);
        device->close(device);
    }
}

/* Random numbers, some of them too small to be normal. */
static float *random_array(uint64_t key)
{
    float *array = malloc(COUNT * sizeof *array);
    for (size_t i = 0; i < COUNT; i++)
        array[i] = (float)random_normal(key, i) * (i % 7 ? 1.0f : 1e-40f);
    return array;
}

/* What the optimizer's kernels of one table make of the same numbers. */
struct updated {
    float *arrays[6];
    uint16_t *narrowed;
    double sums[4];
};

static struct updated update_with(const struct kernels *kernels)
{
    static const struct adamw adamw = {1e-3, 0.9, 0.99, 1e-8, 0.1, 10, 100, 0.37};
    static const struct sgd sgd = {1e-2, 0.9, 0.1, 0.37};
    struct updated updated = {.narrowed = calloc(COUNT, sizeof(uint16_t))};
    struct device *device;
    assert_int_equal(cpu_open_with(kernels, 1, &device, NULL), WEFT_OK);
    for (uint64_t i = 0; i < 6; i++)
        updated.arrays[i] = random_array(i);
    for (size_t i = 0; i < COUNT; i++) /* second moments are squares */
        updated.arrays[3][i] *= updated.arrays[3][i];
    float *const *a = updated.arrays;
    device->adamw(device, &adamw, COUNT, a[0], a[1], a[2], a[3], NULL);
    device->sgd(device, &sgd, COUNT, a[0], a[1], a[4]);
    device->adamw_direction(device, &adamw, COUNT, a[0], a[1], a[2], a[3]);
    device->combine(device, COUNT, 0.3, a[1], -1.7, a[0], a[5]);
    device->add(device, COUNT, a[5], a[4], a[5]);
    device->scale(device, COUNT, 1 / 3.0, a[5]);
    device->sum_of_squares(device, COUNT, a[5], updated.sums);
    if (kernels->activations != WEFT_F32) {
        device->to_activations(device, COUNT, a[5], updated.narrowed);
        device->from_activations(device, COUNT, updated.narrowed, a[4]);
    }
    finish_device(device);
    device->close(device);
    return updated;
}

static void updated_free(struct updated *updated)
{
    for (size_t i = 0; i < 6; i++)
        free(updated->arrays[i]);
    free(updated->narrowed);
}

/* Thus weft/train.h gives the same bits on all processors. */
static void the_optimizers_kernels_are_the_same_in_all_sets(void **state)
{
    static const weft_type types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    for (size_t t = 0; t < 3; t++) {
        size_t count;
        const struct kernels *const *tables = kernels_supported(types[t], &count);
        struct updated first = update_with(tables[0]);
        for (size_t i = 1; i < count; i++) {
            struct updated other = update_with(tables[i]);
            for (size_t k = 0; k < 6; k++)
                assert_memory_equal(other.arrays[k], first.arrays[k], COUNT * sizeof(float));
            assert_memory_equal(other.narrowed, first.narrowed, COUNT * sizeof *first.narrowed);
            assert_memory_equal(other.sums, first.sums, sizeof first.sums);
            updated_free(&other);
        }
        updated_free(&first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_variable_of_onednn_is_a_limit),
        cmocka_unit_test(a_set_that_the_process_lacks_is_refused),
        cmocka_unit_test(the_optimizers_kernels_are_the_same_in_all_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
