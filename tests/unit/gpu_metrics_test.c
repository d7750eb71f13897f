/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as a stand-in for NVIDIA's library reports them: ones that work, fail, and come back. */
#include "observe/telemetry/gpu_metrics.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nvml_stand_in.h"
#include "temporary.h"

/* Its own header's layouts, which this must not drift from: see nvml.h. */
_Static_assert(sizeof(struct nvml_memory) == 24 && offsetof(struct nvml_memory, used) == 16, "nvmlMemory_t");
_Static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t");

#define GIB (1ull << 30)

static void *loaded;
static struct nvml_script *script;
static struct gpu_metrics *metrics;

static int load_stand_in(void **state)
{
    loaded = dlopen(NVML_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    script = loaded ? dlsym(loaded, "nvml_script") : NULL;
    if (!script)
        return -1;
    *script = (struct nvml_script){.count = 2};
    for (unsigned i = 0; i < STAND_IN_GPUS; i++) {
        struct nvml_scripted_gpu *gpu = &script->gpus[i];
        snprintf(gpu->name_text, sizeof gpu->name_text, "NVIDIA Stand-in %u", i);
        snprintf(gpu->uuid_text, sizeof gpu->uuid_text, "GPU-%08u", i);
        gpu->shares = (struct nvml_utilization){40 + i, 90};
        gpu->bytes = (struct nvml_memory){80 * GIB, 70 * GIB, 10 * GIB + i};
        gpu->milliwatts = 312500;
        gpu->celsius = 61;
        gpu->millijoules = 7000500;
    }
    metrics = NULL;
    return 0;
}

static int unload_stand_in(void **state)
{
    gpu_metrics_close(metrics);
    const int users = script->users;
    dlclose(loaded);
    return users; /* every user that started the library has ended it */
}

static void open_and_sample(void)
{
    assert_int_equal(gpu_metrics_open(NVML_STAND_IN, &metrics, NULL), WEFT_OK);
    gpu_metrics_sample(metrics);
}

static const struct gpu_reading *gpu(uint32_t index)
{
    uint32_t count;
    const struct gpu_reading *gpus = gpu_metrics_gpus(metrics, &count);
    assert_true(index < count);
    return &gpus[index];
}

static void every_gpu_tells_its_figures(void **state)
{
    struct measured_values values = {0};
    uint32_t count;
    open_and_sample();
    gpu_metrics_gpus(metrics, &count);
    assert_int_equal(count, 2);
    assert_string_equal(gpu(1)->name, "NVIDIA Stand-in 1");
    assert_string_equal(gpu(1)->uuid, "GPU-00000001");
    assert_true(gpu(1)->used == 0.41 && !gpu(1)->lost);
    assert_true(gpu(1)->energy == 7000.5);
    assert_string_equal(gpu_metrics_trouble(metrics), "");
    assert_int_equal(gpu_metrics_tell(metrics, &values, NULL), WEFT_OK);
    assert_int_equal(values.count, 10);
    assert_true(measured_values_find(&values, "machine/gpu/0/used") == 0.4);
    assert_true(measured_values_find(&values, "machine/gpu/1/memory/used") == (double)(10 * GIB + 1));
    assert_true(measured_values_find(&values, "machine/gpu/1/memory/total") == (double)(80 * GIB));
    assert_true(measured_values_find(&values, "machine/gpu/0/power") == 312.5);
    assert_true(measured_values_find(&values, "machine/gpu/0/temperature") == 61);
    measured_values_free(&values);
}

static void a_machine_without_the_library_has_no_gpus(void **state)
{
    uint32_t count = 7;
    assert_int_equal(gpu_metrics_open("/nowhere/libnvidia-ml.so.1", &metrics, NULL), WEFT_OK);
    gpu_metrics_sample(metrics);
    gpu_metrics_gpus(metrics, &count);
    assert_int_equal(count, 0);
    assert_string_equal(gpu_metrics_trouble(metrics), "");
}

static void neither_has_one_without_the_driver(void **state)
{
    uint32_t count = 7;
    script->init = NVML_ERROR_DRIVER_NOT_LOADED;
    open_and_sample();
    gpu_metrics_gpus(metrics, &count);
    assert_int_equal(count, 0);
    assert_string_equal(gpu_metrics_trouble(metrics), "");
    assert_int_equal(script->users, 0);
}

static void a_library_that_cannot_be_used_says_why(void **state)
{
    uint32_t count = 7;
    script->init = 18;
    open_and_sample();
    gpu_metrics_gpus(metrics, &count);
    assert_int_equal(count, 0);
    assert_non_null(strstr(gpu_metrics_trouble(metrics), "Driver/library version mismatch (18)"));
    gpu_metrics_close(metrics);
    script->init = 55; /* one that the library has no text for */
    open_and_sample();
    assert_non_null(strstr(gpu_metrics_trouble(metrics), "(55)"));
    gpu_metrics_close(metrics);
    assert_int_equal(gpu_metrics_open("libm.so.6", &metrics, NULL), WEFT_OK);
    assert_non_null(strstr(gpu_metrics_trouble(metrics), "nvmlInit_v2"));
    gpu_metrics_close(metrics);
    const char *directory = temporary_directory();
    assert_int_equal(gpu_metrics_open(temporary_file(directory, "no_library.so", "text", 4), &metrics, NULL), WEFT_OK);
    assert_non_null(strstr(gpu_metrics_trouble(metrics), "no_library.so"));
    file_remove_tree(directory, NULL);
}

static void what_a_gpu_does_not_tell_is_left_out(void **state)
{
    struct measured_values values = {0};
    script->gpus[0].power = NVML_ERROR_NOT_SUPPORTED;
    script->gpus[0].utilization = NVML_ERROR_NOT_SUPPORTED;
    script->gpus[1].temperature = NVML_ERROR_UNKNOWN;
    open_and_sample();
    assert_true(isnan(gpu(0)->power) && isnan(gpu(0)->used));
    assert_true(gpu(0)->temperature == 61 && !gpu(0)->lost);
    assert_true(isnan(gpu(1)->temperature) && gpu(1)->power == 312.5);
    gpu_metrics_tell(metrics, &values, NULL);
    assert_int_equal(values.count, 7);
    assert_string_equal(gpu_metrics_trouble(metrics), "");
    measured_values_free(&values);
}

static void figures_that_cannot_be_are_left_out(void **state)
{
    script->gpus[0].shares.gpu = 4000000000u;
    script->gpus[0].bytes.used = 81 * GIB;
    script->gpus[0].milliwatts = UINT32_MAX;
    script->gpus[0].celsius = UINT32_MAX;
    open_and_sample();
    assert_true(isnan(gpu(0)->used) && isnan(gpu(0)->memory_used) && isnan(gpu(0)->memory_total));
    assert_true(isnan(gpu(0)->power) && isnan(gpu(0)->temperature));
    assert_true(gpu(1)->used == 0.41);
}

static void a_gpu_that_is_lost_is_told_of_and_may_come_back(void **state)
{
    int *const places[] = {&script->gpus[1].utilization, &script->gpus[1].memory, &script->gpus[1].power,
                           &script->gpus[1].temperature, &script->gpus[1].energy};
    open_and_sample();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct measured_values values = {0};
        *places[i] = i % 2 ? NVML_ERROR_RESET_REQUIRED : NVML_ERROR_GPU_IS_LOST;
        gpu_metrics_sample(metrics);
        assert_true(gpu(1)->lost && !gpu(0)->lost);
        assert_true(isnan(gpu(1)->used) && isnan(gpu(1)->memory_used) && isnan(gpu(1)->energy));
        assert_string_equal(gpu(1)->uuid, "GPU-00000001");
        assert_non_null(strstr(gpu_metrics_trouble(metrics), "GPU 1 (NVIDIA Stand-in 1, GPU-00000001)"));
        assert_non_null(strstr(gpu_metrics_trouble(metrics), i % 2 ? "(16)" : "GPU is lost (15)"));
        gpu_metrics_tell(metrics, &values, NULL);
        assert_int_equal(values.count, 5);
        measured_values_free(&values);
        *places[i] = NVML_SUCCESS;
        gpu_metrics_sample(metrics);
        assert_true(!gpu(1)->lost && gpu(1)->used == 0.41);
        assert_string_equal(gpu_metrics_trouble(metrics), "");
    }
}

/* Each question may take seconds of one that fails. */
static void a_gpu_that_is_lost_is_asked_once_a_sample(void **state)
{
    open_and_sample();
    script->gpus[0].utilization = NVML_ERROR_GPU_IS_LOST;
    script->gpus[0].questions = 0;
    gpu_metrics_sample(metrics);
    assert_int_equal(script->gpus[0].questions, 1);
}

static void a_gpu_that_was_lost_from_the_start_is_found_later(void **state)
{
    script->gpus[0].handle = NVML_ERROR_GPU_IS_LOST;
    open_and_sample();
    assert_true(gpu(0)->lost && !gpu(1)->lost);
    assert_string_equal(gpu(0)->name, "");
    assert_non_null(strstr(gpu_metrics_trouble(metrics), "GPU 0 (not known)"));
    script->gpus[0].handle = NVML_SUCCESS;
    gpu_metrics_sample(metrics);
    assert_true(!gpu(0)->lost && gpu(0)->used == 0.40);
    assert_string_equal(gpu(0)->name, "NVIDIA Stand-in 0");
}

static void names_are_ended_and_printable(void **state)
{
    memset(script->gpus[0].name_text, 'x', sizeof script->gpus[0].name_text);
    snprintf(script->gpus[0].uuid_text, sizeof script->gpus[0].uuid_text, "GPU\x1b[2J\n");
    script->gpus[1].name = NVML_ERROR_UNKNOWN;
    open_and_sample();
    assert_int_equal(strlen(gpu(0)->name), NVML_NAME_BYTES - 1);
    assert_string_equal(gpu(0)->uuid, "GPU?[2J?");
    assert_string_equal(gpu(1)->name, "");
}

static void a_count_that_fails_is_none(void **state)
{
    uint32_t count = 7;
    script->count_result = NVML_ERROR_UNKNOWN;
    open_and_sample();
    gpu_metrics_gpus(metrics, &count);
    assert_int_equal(count, 0);
}

int main(void)
{
#define STANDING_IN(test) cmocka_unit_test_setup_teardown(test, load_stand_in, unload_stand_in)
    const struct CMUnitTest tests[] = {
        STANDING_IN(every_gpu_tells_its_figures),
        STANDING_IN(a_machine_without_the_library_has_no_gpus),
        STANDING_IN(neither_has_one_without_the_driver),
        STANDING_IN(a_library_that_cannot_be_used_says_why),
        STANDING_IN(what_a_gpu_does_not_tell_is_left_out),
        STANDING_IN(figures_that_cannot_be_are_left_out),
        STANDING_IN(a_gpu_that_is_lost_is_told_of_and_may_come_back),
        STANDING_IN(a_gpu_that_is_lost_is_asked_once_a_sample),
        STANDING_IN(a_gpu_that_was_lost_from_the_start_is_found_later),
        STANDING_IN(names_are_ended_and_printable),
        STANDING_IN(a_count_that_fails_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
