/* SPDX-License-Identifier: Apache-2.0 */
/* Opening devices, their memory, and how a failure of a kernel is reported. */
#include "tensor_support.h"

#include <limits.h>
#include <unistd.h>

static void every_device_opens_by_its_name(void **state)
{
    for (size_t i = 0; device_names[i]; i++) {
        struct device *device = open_device(device_names[i], 1);
        assert_string_equal(device->name, device_names[i]);
        assert_int_equal(device->threads, 1);
        assert_int_equal(device->type, strcmp(device->name, "reference") == 0 ? WEFT_F64 : WEFT_F32);
        device->close(device);
    }
}

static void a_wrong_name_or_number_of_threads_gets_a_message(void **state)
{
    struct device *device = NULL;
    struct error error = {0};
    assert_int_equal(device_open("refrence", 1, &device, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "did you mean 'reference'"));
    static const int threads[] = {0, -1, 100000};
    for (size_t i = 0; i < 3; i++) {
        error_clear(&error);
        assert_int_equal(device_open("cpu", threads[i], &device, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "threads"));
    }
    assert_null(device);
}

/* The limit is read when a program starts, so this test starts itself once more. */
static void threads_that_openmp_refuses_are_no_device(void **state)
{
    if (TEST_THREADS == 1)
        skip();
    char command[PATH_MAX + 64], path[PATH_MAX] = {0};
    assert_true(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    snprintf(command, sizeof command, "OMP_THREAD_LIMIT=2 '%s' --limited", path);
    assert_int_equal(system(command), 0);
}

/* What that second program does: 0 if 2 threads are given, and 3 refused with a message. */
static int open_limited(void)
{
    struct device *device = NULL;
    struct error error = {0};
    if (device_open("cpu", 3, &device, &error) != WEFT_ERROR_ARGUMENT || !strstr(error.text, "OMP_THREAD_LIMIT"))
        return 1;
    if (device_open("cpu", 2, &device, NULL) != WEFT_OK)
        return 1;
    device->close(device);
    return 0;
}

static void memory_is_zeroed_aligned_and_refused_with_a_message(void **state)
{
    for (size_t i = 0; device_names[i]; i++) {
        struct device *device = open_device(device_names[i], 1);
        static const size_t bytes[] = {0, 1, 63, 64, 1000};
        for (size_t k = 0; k < 5; k++) {
            unsigned char *memory = device->allocate(device, bytes[k], "a test", NULL);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 64, 0);
            for (size_t j = 0; j < bytes[k]; j++)
                assert_int_equal(memory[j], 0);
            device->release(device, memory);
        }
        struct error error = {0};
        assert_null(device->allocate(device, SIZE_MAX - 5, "a very large test", &error));
        assert_int_equal(error.status, WEFT_ERROR_MEMORY);
        assert_non_null(strstr(error.text, "a very large test"));
        device->release(device, NULL);
        device->close(device);
    }
}

static void the_first_failure_of_a_kernel_waits_for_finish(void **state)
{
    struct device *device = open_device("cpu", 1);
    float a[4] = {1, 2, 3, 4}, c[4] = {0};
    struct matmul right = {.rows = 2, .columns = 2, .inner = 2, .a = a, .b = a, .c = c}, wrong = right;
    wrong.columns = (size_t)1 << 63; /* no number of columns for oneDNN */
    device->matmul(device, &wrong);
    device->matmul(device, &right);
    struct error error = {0};
    assert_int_not_equal(device->finish(device, &error), WEFT_OK);
    assert_non_null(strstr(error.text, "oneDNN"));
    device->matmul(device, &right);
    error_clear(&error);
    assert_int_equal(device->finish(device, &error), WEFT_OK);
    assert_true(c[0] == 7 && c[1] == 10 && c[2] == 15 && c[3] == 22);
    device->close(device);
}

static void hundreds_of_shapes_are_kept_at_once(void **state)
{
    struct device *device = open_device("cpu", 1), *exact = open_device("reference-f32", 1);
    float *a = make_random(device, 20 * 20, 1, 1), *b = make_random(device, 20 * 20, 1, 2);
    float *c = make_array(device, 20 * 20), *right = make_array(device, 20 * 20);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 200; i++) {
            struct matmul matmul = {.rows = 1 + i % 20, .columns = 1 + i / 20, .inner = 1 + i * 7 % 20, .a = a, .b = b};
            matmul.c = c;
            device->matmul(device, &matmul);
            matmul.c = right;
            exact->matmul(exact, &matmul);
            finish_device(device);
            assert_true(distance_of(device, c, exact, right, matmul.rows * matmul.columns) < 1e-5);
        }
    void *all[] = {a, b, c, right};
    for (size_t i = 0; i < 4; i++)
        device->release(device, all[i]);
    device->close(device);
    exact->close(exact);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--limited") == 0)
        return open_limited();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_opens_by_its_name),
        cmocka_unit_test(a_wrong_name_or_number_of_threads_gets_a_message),
        cmocka_unit_test(threads_that_openmp_refuses_are_no_device),
        cmocka_unit_test(memory_is_zeroed_aligned_and_refused_with_a_message),
        cmocka_unit_test(the_first_failure_of_a_kernel_waits_for_finish),
        cmocka_unit_test(hundreds_of_shapes_are_kept_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
