/* SPDX-License-Identifier: Apache-2.0 */
/* Goodput counts each step once: steps taken again after going back are lost time. */
#include "training/train/report/goodput.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void steps_count_once(void **state)
{
    struct goodput goodput = {0};
    char text[GOODPUT_TEXT_BYTES];
    assert_float_equal(goodput_share(&goodput), 0, 0);
    for (uint64_t step = 1; step <= 4; step++) {
        usleep(10000);
        goodput_note_step(&goodput, step, 0.01, false);
    }
    goodput_note_recovery(&goodput, 0.02);
    for (uint64_t step = 3; step <= 5; step++) { /* back to step 2 */
        usleep(10000);
        goodput_note_step(&goodput, step, 0.01, false);
    }
    assert_float_equal(goodput.useful, 0.05, 1e-9);
    assert_float_equal(goodput.repeated, 0.02, 1e-9);
    assert_int_equal(goodput.newest, 5);
    assert_true(goodput_seconds(&goodput) >= 0.07);
    assert_true(goodput_share(&goodput) > 0 && goodput_share(&goodput) < 0.05 / 0.07 + 0.01);
    assert_non_null(strstr(goodput_describe(&goodput, text), "lost: 1 recovery 0.0 s, repeated steps 0.0 s"));
}

static void checkpoints_cost_waits_and_slower_steps(void **state)
{
    struct goodput goodput = {0};
    char text[GOODPUT_TEXT_BYTES];
    goodput_note_step(&goodput, 1, 9, false); /* the first is slow */
    for (uint64_t step = 2; step <= 6; step++)
        goodput_note_step(&goodput, step, 0.5, false);
    goodput_note_step(&goodput, 7, 0.8, true);
    goodput_note_step(&goodput, 8, 0.6, true);
    goodput_note_checkpoint(&goodput, 0.25, 0.05);
    assert_float_equal(goodput.slowed, 0.4, 1e-9);
    assert_float_equal(goodput_checkpoint_seconds(&goodput), 0.45, 1e-9); /* 0.05 between steps, 0.4 in them */
    assert_non_null(strstr(goodput_describe_checkpoints(&goodput, text),
                           "training waited 0.25 s for 1, and steps beside them took 0.40 s longer"));

    /* Steps beside it that were faster, by chance: what they waited is lost all the same. */
    goodput_note_step(&goodput, 9, 0.1, true);
    assert_float_equal(goodput_checkpoint_seconds(&goodput), 0.25, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_count_once),
                                       cmocka_unit_test(checkpoints_cost_waits_and_slower_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
