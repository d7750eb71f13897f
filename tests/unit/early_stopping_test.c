/* SPDX-License-Identifier: Apache-2.0 */
/* Early stop: which evaluation is the best, when stopping is over, and that a checkpoint remembers every bit of it. */
#include "training/train/state/internal/early_stopping.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_best_and_the_end(void **state)
{
    static const struct {
        double loss;
        bool best, over;
    } evaluations[] = {
        {NAN, false, false}, {3, true, false},   {3, false, false},        {2.5, true, false},  {2.6, false, false},
        {NAN, false, false}, {2.4, true, false}, {INFINITY, false, false}, {2.4, false, false}, {2.5, false, true},
    };
    struct early_stopping stopping = {0};
    for (size_t i = 0; i < sizeof evaluations / sizeof *evaluations; i++) {
        assert_int_equal(early_stopping_note(&stopping, 10 * (i + 1), evaluations[i].loss), evaluations[i].best);
        assert_int_equal(early_stopping_is_due(&stopping, 3), evaluations[i].over);
        assert_false(early_stopping_is_due(&stopping, 0));
        const struct early_stopping before = stopping;
        assert_false(early_stopping_note(&stopping, 10 * (i + 1), 0)); /* the same step again */
        assert_memory_equal(&stopping, &before, sizeof before);
    }
    assert_int_equal(stopping.best_step, 70);
    assert_true(stopping.best_loss == 2.4);
}

static void nothing_but_no_numbers(void **state)
{
    struct early_stopping stopping = {0};
    for (uint64_t step = 1; step <= 3; step++)
        assert_false(early_stopping_note(&stopping, step, NAN));
    assert_true(early_stopping_is_due(&stopping, 3));
    assert_int_equal(stopping.best_step, 0);
}

static void a_checkpoint_remembers(void **state)
{
    const struct early_stopping written = {
        .evaluations = 9, .since_best = 2, .last_step = 90, .best_step = 70, .best_loss = 1.0 / 3};
    struct early_stopping read = {.evaluations = 1};
    cJSON *training = cJSON_CreateObject();
    assert_int_equal(early_stopping_get(training, "it", &read, NULL), WEFT_OK);
    assert_int_equal(read.evaluations, 0);
    assert_int_equal(early_stopping_get(NULL, "it", &read, NULL), WEFT_OK);
    early_stopping_put(&read, training);
    assert_null(training->child); /* nothing before the first */
    cJSON *uncounted = cJSON_CreateObject();
    early_stopping_put(&(struct early_stopping){.last_step = 30}, uncounted);
    assert_int_equal(cJSON_GetArraySize(uncounted), 1);
    assert_int_equal(early_stopping_get(uncounted, "it", &read, NULL), WEFT_OK);
    assert_memory_equal(&read, &(struct early_stopping){.last_step = 30}, sizeof read);
    cJSON_Delete(uncounted);
    read = (struct early_stopping){0};
    early_stopping_put(&written, training);
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_put_tree(&writer, NULL, training);
    cJSON *again = cJSON_Parse(json_text(&writer));
    json_end(&writer);
    assert_int_equal(early_stopping_get(again, "it", &read, NULL), WEFT_OK);
    assert_memory_equal(&read, &written, sizeof read);
    static const char *const keys[] = {"evaluations_since_best", "last_evaluation", "best_step", "best_loss"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct error error = {0};
        cJSON *lacking = cJSON_Duplicate(again, true);
        cJSON_ReplaceItemInObject(lacking, keys[i], cJSON_CreateString("many"));
        assert_int_equal(early_stopping_get(lacking, "it", &read, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, keys[i]));
        cJSON_Delete(lacking);
    }
    cJSON_Delete(again);
    cJSON_Delete(training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_and_the_end),
        cmocka_unit_test(nothing_but_no_numbers),
        cmocka_unit_test(a_checkpoint_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
