/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of tensor/ and model/: arrays of random numbers on a device, and reading and comparing them in double. */
#ifndef WEFT_TESTS_TENSOR_SUPPORT_H
#define WEFT_TESTS_TENSOR_SUPPORT_H

#include "base/random.h"
#include "training/tensor/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/** Most threads of a device in a test. The thread sanitizer does not see libgomp's barriers and would report every one.
 */
#if defined(__SANITIZE_THREAD__)
#define TEST_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_THREADS 1
#endif
#endif
#ifdef TEST_THREADS
#define MANY_TEST_THREADS 1
#else
#define TEST_THREADS      3
#define MANY_TEST_THREADS 16
#endif

static inline struct device *open_device(const char *name, int threads)
{
    struct device *device = NULL;
    struct error error = {0};
    if (device_open(name, threads, &device, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return device;
}

static inline void finish_device(struct device *device)
{
    struct error error = {0};
    if (device->finish(device, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static inline void *make_array(struct device *device, size_t count)
{
    void *array = device->allocate(device, count * weft_type_size(device->type), "a test", NULL);
    assert_non_null(array);
    return array;
}

static inline double get(const struct device *device, const void *array, size_t i)
{
    return device->type == WEFT_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

static inline void put(const struct device *device, void *array, size_t i, double value)
{
    if (device->type == WEFT_F64)
        ((double *)array)[i] = value;
    else
        ((float *)array)[i] = (float)value;
}

/** Normal numbers times `deviation`: number i of stream `seed`, the same (rounded to f32) on every device. */
static inline void *make_random(struct device *device, size_t count, double deviation, uint64_t seed)
{
    void *array = make_array(device, count);
    for (size_t i = 0; i < count; i++)
        put(device, array, i, (float)(deviation * random_normal(seed, i)));
    return array;
}

/** The largest |a[i] - b[i]|, relative to the largest |b|. */
static inline double distance_of(const struct device *device_a, const void *a, const struct device *device_b,
                                 const void *b, size_t count)
{
    double distance = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs(get(device_a, a, i) - get(device_b, b, i));
        if (!(difference <= distance)) /* not a number is the largest */
            distance = difference;
        if (fabs(get(device_b, b, i)) > size)
            size = fabs(get(device_b, b, i));
    }
    return size > 0 ? distance / size : distance;
}

#endif
