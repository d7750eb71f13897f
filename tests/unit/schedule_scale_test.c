/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every schedule over every number of ranks from 1 to 64, and a sample to 1,024, is proved; schedules are small and agree by
 * hash. On two threads.
 */
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sanitizer makes everything slow: what it looks for is found in less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALL_TO 9
static const uint32_t samples[] = {12, 16, 17, 65};
#else
#define ALL_TO 64
static const uint32_t samples[] = {65, 96, 127, 130, 200, 255, 333, 513, 1024};
#endif
#define SAMPLES (sizeof samples / sizeof *samples)

/* Why these schedules are not as they should be, or NULL. */
static const char *fault_of(struct schedule *const *schedules, const struct algorithm *algorithm,
                            const struct schedule_shape *shape)
{
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        const struct schedule *schedule = schedules[rank];
        if (schedule->hash != schedules[0]->hash)
            return "its schedules do not agree by hash";
        if (schedule->canonical != algorithm->canonical(shape))
            return "it says of the canonical order what its schedule does not";
        /* Kilobytes: at most some steps for each rank, whatever the size of a block. */
        if (schedule->step_count > 4 * shape->ranks + 40)
            return "its schedule is too long";
    }
    return NULL;
}

static weft_status prove(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                         struct error *error)
{
    struct schedule **schedules;
    weft_status status = sweep_generate(algorithm, shape, &schedules, error);
    if (status != WEFT_OK)
        return status;
    const char *fault = fault_of(schedules, algorithm, shape);
    if (fault)
        status = error_set(error, WEFT_ERROR_SCHEDULE, "%s by %s over %u ranks: %s", collective_name(shape->collective),
                           algorithm->name, shape->ranks, fault);
    if (status == WEFT_OK)
        status = schedule_verify(schedules, shape->ranks, shape, error);
    sweep_free(schedules, shape->ranks);
    ++*(uint64_t *)context;
    return status;
}

static void every_schedule_is_proved(void **state)
{
    uint32_t ranks[ALL_TO + SAMPLES];
    for (uint32_t i = 0; i < ALL_TO; i++)
        ranks[i] = i + 1;
    memcpy(ranks + ALL_TO, samples, sizeof samples);
    struct sweep_job *jobs;
    size_t count;
    struct error error = {0};
    assert_int_equal(sweep_all(ranks, ALL_TO + SAMPLES, &jobs, &count, &error), WEFT_OK);
    if (sweep_run(jobs, count, 2, prove, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    uint64_t proved = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        proved += jobs[i].count;
        largest += jobs[i].ranks == samples[SAMPLES - 1] ? jobs[i].count : 0;
    }
    printf("%llu sets of schedules proved, %llu of them over %u ranks\n", (unsigned long long)proved,
           (unsigned long long)largest, samples[SAMPLES - 1]);
    assert_true(proved > 1000 && largest > 20);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_proved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
