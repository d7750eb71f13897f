/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs are ill, as a stand-in for NVIDIA's library reports them: every kind of illness, and what does not count. */
#include "observe/telemetry/gpu_health.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nvml_stand_in.h"

/* Its own header's layout, which this must not drift from: see nvml.h. */
_Static_assert(sizeof(struct nvml_event) == 32 && offsetof(struct nvml_event, data) == 16, "nvmlEventData_t");

#define SECOND UINT64_C(1000000000)

static const uint32_t watched[] = {0, 2, 7}; /* there is no GPU 7 */

static void *loaded;
static struct nvml_script *script;
static struct gpu_metrics *metrics;
static struct gpu_health *health;
static uint64_t now;

static int load_library(const char *path)
{
    loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    script = loaded ? dlsym(loaded, "nvml_script") : NULL;
    if (!script)
        return -1;
    *script = (struct nvml_script){.count = 3};
    for (unsigned i = 0; i < STAND_IN_GPUS; i++) {
        snprintf(script->gpus[i].name_text, sizeof script->gpus[i].name_text, "NVIDIA Stand-in");
        snprintf(script->gpus[i].uuid_text, sizeof script->gpus[i].uuid_text, "GPU-%08u", i);
    }
    now = 1000 * SECOND;
    return gpu_metrics_open(path, &metrics, NULL) != WEFT_OK ||
           gpu_health_open(metrics, watched, sizeof watched / sizeof *watched, &health, NULL) != WEFT_OK;
}

static int load(void **state)
{
    return load_library(NVML_STAND_IN);
}

static int load_old(void **state)
{
    return load_library(NVML_STAND_IN_OLD);
}

static int unload(void **state)
{
    gpu_health_close(health);
    gpu_metrics_close(metrics);
    const int left = script->users + script->sets; /* everything that was opened is closed */
    dlclose(loaded);
    return left;
}

/* A sample, `seconds` after the last one. */
static void sample(unsigned seconds)
{
    now += seconds * SECOND;
    gpu_metrics_sample(metrics);
    gpu_health_sample(health, now);
}

/* GPU 2 is ill, in these words; GPU 0 is not. */
static void assert_illness(const char *words)
{
    char whole[GPU_ILLNESS_BYTES];
    snprintf(whole, sizeof whole, "GPU 2 (NVIDIA Stand-in, GPU-00000002): %s", words);
    assert_string_equal(gpu_health_illness(health, 1), whole);
    assert_string_equal(gpu_health_illness(health, 0), "");
    assert_string_equal(gpu_health_illness(health, 2), "");
}

static void assert_fit(void)
{
    for (uint32_t i = 0; i < sizeof watched / sizeof *watched; i++)
        assert_string_equal(gpu_health_illness(health, i), "");
}

/* A GPU's critical XID. */
static void report_xid(unsigned gpu, unsigned long long xid)
{
    assert_true(script->queued < STAND_IN_EVENTS);
    script->queue[script->queued++] = (struct nvml_scripted_event){gpu, NVML_EVENT_CRITICAL_XID, xid, false};
}

static void gpus_that_work_are_fit(void **state)
{
    assert_fit();
    for (int i = 0; i < 5; i++)
        sample(4);
    assert_fit();
    assert_true(script->gpus[0].registered && script->gpus[2].registered);
}

static void uncorrectable_memory_errors_are_an_illness(void **state)
{
    script->gpus[2].uncorrected = 1;
    sample(4);
    assert_illness("1 uncorrectable memory error since its driver was started; reset it or replace it");
    script->gpus[2].uncorrected = 2;
    sample(4);
    assert_illness("2 uncorrectable memory errors since its driver was started; reset it or replace it");
    script->gpus[2].uncorrected = 0; /* it was reset */
    sample(4);
    assert_fit();
}

static void a_row_that_cannot_be_remapped_is_an_illness(void **state)
{
    script->gpus[2].rows_failed = 1;
    script->gpus[2].uncorrected = 3; /* the graver illness is reported */
    sample(4);
    assert_illness("a bad row of its memory could not be replaced by a spare one; replace the GPU");
}

static void a_critical_xid_is_an_illness(void **state)
{
    report_xid(2, 79);
    report_xid(2, 119);
    sample(4);
    static const char words[] = "its driver reported the critical error XID 79; NVIDIA's \"XID Errors\" says what that "
                                "means; reset the GPU";
    assert_illness(words);
    sample(4); /* and stays one */
    assert_illness(words);
}

static void an_event_with_another_handle_is_its_gpu_s(void **state)
{
    report_xid(2, 48);
    script->queue[0].other_handle = true;
    sample(4);
    assert_non_null(strstr(gpu_health_illness(health, 1), "XID 48;"));
    assert_string_equal(gpu_health_illness(health, 0), "");
}

static void xids_of_a_program_do_not_count(void **state)
{
    static const unsigned of_programs[] = {13, 31, 43, 45, 68, 109};
    for (size_t i = 0; i < sizeof of_programs / sizeof *of_programs; i++)
        report_xid(2, of_programs[i]);
    sample(4);
    assert_fit();
    report_xid(1, 79);                                                                /* another node's GPU */
    script->queue[script->queued++] = (struct nvml_scripted_event){2, 0x2, 1, false}; /* another event */
    sample(4);
    assert_fit();
    assert_int_equal(script->queued, 0);
}

static void hardware_that_is_slow_for_a_minute_is_an_illness(void **state)
{
    script->gpus[2].reasons = NVML_SLOWED_BY_HARDWARE;
    for (unsigned i = 0; i < 15; i++) {
        sample(4);
        assert_fit();
    }
    sample(4);
    assert_illness(
        "its hardware has slowed it down for a minute, by half or more; look at its cooling and power supply");
    script->gpus[2].reasons = NVML_SLOWED_BY_HARDWARE | NVML_SLOWED_BY_HEAT;
    sample(4);
    assert_illness("its hardware has slowed it down for a minute, as it is too hot; look at its cooling");
    script->gpus[2].reasons = NVML_SLOWED_BY_HARDWARE | NVML_SLOWED_BY_BRAKE;
    sample(4);
    assert_illness("its hardware has slowed it down for a minute, as its power supply asks for it; look at the host's "
                   "power supply");
    script->gpus[2].reasons = 0;
    sample(4);
    assert_fit();
}

static void clocks_that_are_lower_otherwise_are_no_illness(void **state)
{
    script->gpus[0].reasons = 0x1 | 0x4 | 0x20; /* idle, limited by power or by software */
    script->gpus[2].reasons = NVML_SLOWED_BY_HEAT;
    for (unsigned i = 0; i < 60; i++) { /* slow in three samples of four */
        script->gpus[2].reasons = i % 4 ? NVML_SLOWED_BY_HEAT : 0;
        sample(10);
        assert_fit();
    }
    script->gpus[2].reasons = 0;
    sample(4);
    script->gpus[2].reasons = NVML_SLOWED_BY_HEAT;
    sample(4);
    sample(600); /* nothing is known of the time between */
    assert_fit();
    sample(4);
    assert_non_null(strstr(gpu_health_illness(health, 1), "too hot"));
}

static void a_lost_gpu_is_ill_and_asked_nothing(void **state)
{
    sample(4);
    script->gpus[2].utilization = NVML_ERROR_GPU_IS_LOST;
    script->gpus[2].uncorrected = 1;
    script->gpus[2].questions = 0;
    sample(4);
    assert_illness("it cannot be reached: GPU is lost (15); reset it or restart its host");
    assert_int_equal(script->gpus[2].questions, 1);
    script->gpus[2].utilization = NVML_ERROR_RESET_REQUIRED;
    sample(4);
    assert_non_null(strstr(gpu_health_illness(health, 1), "(16)"));
    script->gpus[2].utilization = NVML_SUCCESS;
    script->gpus[2].uncorrected = 0;
    sample(4);
    assert_fit();
}

static void a_gpu_that_comes_back_is_registered_for_events(void **state)
{
    gpu_health_close(health);
    gpu_metrics_close(metrics);
    script->gpus[2].handle = NVML_ERROR_GPU_IS_LOST;
    script->gpus[2].registered = false;
    assert_int_equal(gpu_metrics_open(NVML_STAND_IN, &metrics, NULL), WEFT_OK);
    assert_int_equal(gpu_health_open(metrics, watched, 3, &health, NULL), WEFT_OK);
    sample(4);
    assert_string_equal(gpu_health_illness(health, 1),
                        "GPU 2 (not known): it cannot be reached: GPU is lost (15); reset it or restart its host");
    script->gpus[2].handle = NVML_SUCCESS;
    sample(4);
    assert_fit();
    assert_true(script->gpus[2].registered);
}

/* Not supported, or not permitted: nothing is known, which is no illness. */
static void what_a_gpu_does_not_answer_is_no_illness(void **state)
{
    script->gpus[2].ecc = script->gpus[2].remapping = script->gpus[2].clocks = NVML_ERROR_NOT_SUPPORTED;
    script->gpus[2].uncorrected = script->gpus[2].rows_failed = 1;
    script->gpus[2].reasons = NVML_SLOWED_BY_HEAT;
    script->gpus[0].handle = script->gpus[0].utilization = NVML_ERROR_UNKNOWN;
    for (unsigned i = 0; i < 20; i++)
        sample(4);
    assert_fit();
}

static void a_library_without_these_functions_is_not_asked(void **state)
{
    script->gpus[2].uncorrected = script->gpus[2].rows_failed = 1;
    script->gpus[2].reasons = NVML_SLOWED_BY_HEAT;
    report_xid(2, 79);
    for (unsigned i = 0; i < 20; i++)
        sample(4);
    assert_fit();
    assert_int_equal(script->queued, 1);
    script->gpus[2].memory = NVML_ERROR_GPU_IS_LOST; /* which its functions show, too */
    sample(4);
    assert_illness("it cannot be reached: GPU is lost (15); reset it or restart its host");
}

static void without_a_library_every_gpu_is_fit(void **state)
{
    struct gpu_metrics *no_metrics;
    struct gpu_health *no_health;
    assert_int_equal(gpu_metrics_open("/nowhere/libnvidia-ml.so.1", &no_metrics, NULL), WEFT_OK);
    assert_int_equal(gpu_health_open(no_metrics, watched, 3, &no_health, NULL), WEFT_OK);
    gpu_metrics_sample(no_metrics);
    gpu_health_sample(no_health, now);
    assert_string_equal(gpu_health_illness(no_health, 1), "");
    gpu_health_close(no_health);
    gpu_metrics_close(no_metrics);
    gpu_health_close(NULL);
}

static void long_names_leave_room_for_the_illness(void **state)
{
    memset(script->gpus[3].name_text, 'x', sizeof script->gpus[3].name_text);
    memset(script->gpus[3].uuid_text, 'y', sizeof script->gpus[3].uuid_text);
    script->count = 4;
    gpu_health_close(health);
    gpu_metrics_close(metrics);
    const uint32_t last[] = {3};
    assert_int_equal(gpu_metrics_open(NVML_STAND_IN, &metrics, NULL), WEFT_OK);
    assert_int_equal(gpu_health_open(metrics, last, 1, &health, NULL), WEFT_OK);
    report_xid(3, UINT64_MAX);
    sample(4);
    assert_non_null(strstr(gpu_health_illness(health, 0), "what that means; reset the GPU"));
}

int main(void)
{
#define STANDING_IN(test) cmocka_unit_test_setup_teardown(test, load, unload)
    const struct CMUnitTest tests[] = {
        STANDING_IN(gpus_that_work_are_fit),
        STANDING_IN(uncorrectable_memory_errors_are_an_illness),
        STANDING_IN(a_row_that_cannot_be_remapped_is_an_illness),
        STANDING_IN(a_critical_xid_is_an_illness),
        STANDING_IN(an_event_with_another_handle_is_its_gpu_s),
        STANDING_IN(xids_of_a_program_do_not_count),
        STANDING_IN(hardware_that_is_slow_for_a_minute_is_an_illness),
        STANDING_IN(clocks_that_are_lower_otherwise_are_no_illness),
        STANDING_IN(a_lost_gpu_is_ill_and_asked_nothing),
        STANDING_IN(a_gpu_that_comes_back_is_registered_for_events),
        STANDING_IN(what_a_gpu_does_not_answer_is_no_illness),
        STANDING_IN(without_a_library_every_gpu_is_fit),
        STANDING_IN(long_names_leave_room_for_the_illness),
        cmocka_unit_test_setup_teardown(a_library_without_these_functions_is_not_asked, load_old, unload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
