/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal may come at any time: its handler must find a stack. Some kernels of oneDNN let the stack pointer point into
 * their scratch memory, so that a handler would write over what lies before it.
 */
#include "tensor_support.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static struct {
    uintptr_t low, high; /* of the stack */
    volatile sig_atomic_t heard, astray;
} stack;

static void hear(int number)
{
    volatile char here = 0;
    const uintptr_t at = (uintptr_t)&here;
    stack.heard = stack.heard + 1;
    if (at < stack.low || at >= stack.high)
        stack.astray = stack.astray + 1;
}

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &low, &size), 0);
    pthread_attr_destroy(&attributes);
    stack.low = (uintptr_t)low;
    stack.high = stack.low + size;
}

static void handlers_find_a_stack(void **state)
{
    static const struct {
        size_t rows, columns, inner;
        bool transpose_a, transpose_b, wide;
    } shapes[] = {
        {64, 256, 128, false, true, false}, {256, 64, 512, true, false, true},  {64, 192, 128, true, false, true},
        {128, 256, 64, false, true, false}, {512, 300, 256, true, false, true}, {33, 65, 1000, true, true, true},
    };
    static const char *const names[] = {"cpu", "cpu-bf16", "cpu-f16"};
    find_stack();
    struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct device *device = NULL;
        if (device_open(names[n], 1, &device, NULL) != WEFT_OK)
            break; /* this processor has no arithmetic in bf16 */
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const size_t rows = shapes[i].rows, columns = shapes[i].columns, inner = shapes[i].inner;
            float *a = make_random(device, rows * inner, 1, 1), *b = make_random(device, inner * columns, 1, 2);
            void *x = make_array(device, rows * inner), *y = make_array(device, inner * columns);
            void *c = make_array(device, rows * columns);
            device->to_activations(device, rows * inner, a, x);
            device->to_activations(device, inner * columns, b, y);
            const struct itimerval often = {.it_interval.tv_usec = 100, .it_value.tv_usec = 100}, never = {0};
            stack.heard = 0;
            setitimer(ITIMER_REAL, &often, NULL);
            for (int k = 0; k < 20000 && stack.heard < 300; k++)
                device->matmul(device, &(struct matmul){.rows = rows,
                                                        .columns = columns,
                                                        .inner = inner,
                                                        .transpose_a = shapes[i].transpose_a,
                                                        .transpose_b = shapes[i].transpose_b,
                                                        .wide = shapes[i].wide,
                                                        .a = x,
                                                        .b = y,
                                                        .c = c});
            setitimer(ITIMER_REAL, &never, NULL);
            finish_device(device);
            if (stack.astray)
                fail_msg("%s, %zu x %zu by %zu x %zu: %d of %d signals came while there was no stack", names[n], rows,
                         inner, inner, columns, (int)stack.astray, (int)stack.heard);
            assert_true(stack.heard > 0); /* else this has shown nothing */
            void *all[] = {a, b, x, y, c};
            for (size_t k = 0; k < 5; k++)
                device->release(device, all[k]);
        }
        device->close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_find_a_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
