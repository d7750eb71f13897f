/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules with random bytes in their steps: each is refused by a message or runs on the verifier's machine without
 * touching what is not its own (the address sanitizer watches).
 */
#include "../support/verify_chaos.h"
#include "base/random.h"
#include "core/schedule/verify/internal/machine.h"
#include "core/schedule/verify/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CORRUPTIONS 300

struct tally {
    uint64_t drawn, unchecked, passed;
};

static void corrupt(struct schedule *schedule, struct tally *tally)
{
    unsigned char *bytes = (unsigned char *)schedule->steps;
    uint64_t changes = 1 + random_below(1, tally->drawn++, 3);
    for (uint64_t i = 0; i < changes; i++) {
        uint64_t at = random_below(2, tally->drawn++, schedule->step_count * sizeof *schedule->steps);
        /* Small numbers are nearer to the truth than any numbers. */
        uint64_t value = random_bits(3, tally->drawn++);
        bytes[at] = (unsigned char)(value & 256 ? value & 3 : value & 255);
    }
}

static weft_status corrupt_some(const struct algorithm *algorithm, const struct schedule_shape *shape, void *context,
                                struct error *error)
{
    struct tally *tally = context;
    struct schedule **schedules;
    if (shape->root > 1)
        return WEFT_OK;
    assert_int_equal(sweep_generate(algorithm, shape, &schedules, error), WEFT_OK);
    for (unsigned i = 0; i < CORRUPTIONS; i++) {
        struct schedule *schedule = schedules[random_below(4, tally->drawn++, shape->ranks)];
        if (!schedule->step_count)
            continue;
        struct step *steps = malloc(schedule->step_count * sizeof *steps);
        memcpy(steps, schedule->steps, schedule->step_count * sizeof *steps);
        corrupt(schedule, tally);
        struct error message = {0};
        if (schedule_check(schedule, &message) != WEFT_OK) {
            tally->unchecked++;
            assert_true(strlen(message.text) > 20);
        } else {
            uint32_t count;
            const struct verify_binding *bindings = verify_bindings(schedules, shape->ranks, shape, &count);
            bool right = verify_run(schedules, shape->ranks, shape, bindings, count, false, &message) == WEFT_OK;
            tally->passed += right;
            if (!right)
                assert_true(strlen(message.text) > 20);
            verify_chaos(schedules, shape->ranks, shape, &bindings[0], i, NULL);
        }
        memcpy(schedule->steps, steps, schedule->step_count * sizeof *steps);
        free(steps);
    }
    sweep_free(schedules, shape->ranks);
    return WEFT_OK;
}

static void random_bytes_do_no_harm(void **state)
{
    struct tally tally = {0};
    for (unsigned collective = 0; collective < COLLECTIVES; collective++) {
        size_t count;
        const struct algorithm *algorithms = algorithms_of((enum collective)collective, &count);
        for (size_t i = 0; i < count; i++)
            for (uint32_t ranks = 2; ranks <= 4; ranks++)
                sweep_shapes((enum collective)collective, &algorithms[i], ranks, corrupt_some, &tally, NULL);
    }
    assert_true(tally.unchecked > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
