/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic loss scaling: halved when a gradient overflows, doubled after so many good steps, kept in a checkpoint. */
#include "training/train/state/internal/loss_scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_scale_follows_the_gradients(void **state)
{
    struct loss_scale scale = {.scale = LOSS_SCALE_FIRST};
    loss_scale_note(&scale, true);
    loss_scale_note(&scale, true);
    assert_true(scale.scale == LOSS_SCALE_FIRST / 4 && scale.skipped == 2);
    for (int i = 1; i < LOSS_SCALE_STEPS; i++)
        loss_scale_note(&scale, false);
    assert_true(scale.scale == LOSS_SCALE_FIRST / 4);
    loss_scale_note(&scale, false);
    assert_true(scale.scale == LOSS_SCALE_FIRST / 2 && scale.good_steps == 0);
    loss_scale_note(&scale, false);
    loss_scale_note(&scale, true); /* it counts from the beginning again */
    assert_true(scale.scale == LOSS_SCALE_FIRST / 4 && scale.good_steps == 0 && scale.skipped == 3);
    scale.scale = LOSS_SCALE_MOST;
    for (int i = 0; i < LOSS_SCALE_STEPS; i++)
        loss_scale_note(&scale, false);
    assert_true(scale.scale == LOSS_SCALE_MOST);
    scale = (struct loss_scale){0};
    loss_scale_note(&scale, true);
    assert_true(scale.scale == 0 && scale.skipped == 0);
}

static void it_survives_a_checkpoint(void **state)
{
    const struct loss_scale written = {.scale = 512, .good_steps = 7, .skipped = 9};
    struct loss_scale scale = {.scale = LOSS_SCALE_FIRST}, none = {0};
    cJSON *training = cJSON_CreateObject();
    loss_scale_put(&none, training);
    assert_int_equal(cJSON_GetArraySize(training), 0);
    assert_int_equal(loss_scale_get(training, "here", &scale, NULL), WEFT_OK); /* one of f32 */
    assert_true(scale.scale == LOSS_SCALE_FIRST);
    loss_scale_put(&written, training);
    assert_int_equal(loss_scale_get(training, "here", &scale, NULL), WEFT_OK);
    assert_true(scale.scale == 512 && scale.good_steps == 7 && scale.skipped == 9);
    assert_int_equal(loss_scale_get(training, "here", &none, NULL), WEFT_OK); /* a run in f32 has none */
    assert_true(none.scale == 0);
    static const double wrong[] = {0, -2, 3, 0.5, 2 * LOSS_SCALE_MOST};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cJSON_SetNumberValue(cJSON_GetObjectItem(training, "loss_scale"), wrong[i]);
        assert_int_equal(loss_scale_get(training, "here", &scale, NULL), WEFT_ERROR_DATA);
    }
    cJSON_SetNumberValue(cJSON_GetObjectItem(training, "loss_scale"), 512);
    cJSON_SetNumberValue(cJSON_GetObjectItem(training, "loss_scale_steps"), LOSS_SCALE_STEPS);
    assert_int_equal(loss_scale_get(training, "here", &scale, NULL), WEFT_ERROR_DATA);
    assert_true(scale.scale == 512);
    cJSON_Delete(training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_follows_the_gradients),
        cmocka_unit_test(it_survives_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
