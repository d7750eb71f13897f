/* SPDX-License-Identifier: Apache-2.0 */
/* Files of metrics: runs that went on, lines that were torn, and files of other kinds. */
#include "platform/metrics/read/metrics_file.h"

#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START                                                                                                          \
    "{\"event\":\"start\",\"run\":\"first\",\"model\":\"gpt\",\"step\":0,\"batch\":8,\"sequence\":64,\"ranks\":2}\n"
#define STEP(n, l) "{\"event\":\"step\",\"step\":" n ",\"loss\":" l ",\"rate\":0.1,\"tokens_per_second\":5}\n"
#define HELD(n, l) "{\"event\":\"evaluation\",\"step\":" n ",\"loss\":" l "}\n"
#define TORN       "{\"event\":\"step\",\"step\":3,\"lo"

static weft_status read_bytes(const char *text, size_t size, struct metrics *metrics, struct error *error)
{
    const char *directory = temporary_directory(), *path = temporary_file(directory, "metrics.jsonl", text, size);
    weft_status status = metrics_read(path, metrics, error);
    file_remove_tree(directory, NULL);
    return status;
}

static weft_status read_text(const char *text, struct metrics *metrics, struct error *error)
{
    return read_bytes(text, strlen(text), metrics, error);
}

static void a_run_is_read(void **state)
{
    struct metrics metrics;
    assert_int_equal(read_text(START STEP("1", "5.5") "\n{\"event\":\"later\"}\n" STEP("2", "null")
                                   HELD("2", "4.5") "{\"event\":\"end\"}",
                               &metrics, NULL),
                     WEFT_OK);
    assert_string_equal(metrics.run, "first");
    assert_string_equal(metrics.model, "gpt");
    assert_true(metrics.batch == 8 && metrics.sequence == 64 && metrics.ranks == 2 && metrics.parameters == 0);
    const struct metrics_values *loss = &metrics.figures[METRICS_LOSS];
    assert_int_equal(loss->count, 2);
    assert_true(loss->steps[0] == 1 && loss->values[0] == 5.5 && loss->steps[1] == 2 && isnan(loss->values[1]));
    assert_true(metrics.figures[METRICS_RATE].values[1] == 0.1);
    assert_true(isnan(metrics.figures[METRICS_UTILIZATION].values[0]));
    assert_int_equal(metrics.held_out.count, 1);
    assert_true(metrics.held_out.values[0] == 4.5);
    metrics_free(&metrics);
    metrics_free(&metrics);
}

static void what_was_done_again_counts_once(void **state)
{
    struct metrics metrics;
    assert_int_equal(read_text(START STEP("1", "5") STEP("2", "4") HELD("2", "4.1") STEP("3", "3") HELD("3", "3.1")
                                   START STEP("3", "2.5") STEP("4", "2") HELD("4", "2.1") HELD("4", "2.2"),
                               &metrics, NULL),
                     WEFT_OK);
    const struct metrics_values *loss = &metrics.figures[METRICS_LOSS];
    assert_int_equal(loss->count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(loss->steps[i] == (double)i + 1);
    assert_true(loss->values[2] == 2.5);
    assert_int_equal(metrics.held_out.count, 2);
    assert_true(metrics.held_out.values[0] == 4.1 && metrics.held_out.values[1] == 2.2);
    metrics_free(&metrics);
}

static void a_torn_line_is_passed_over_where_a_process_died(void **state)
{
    static const char *const texts[] = {STEP("1", "5") STEP("2", "4") TORN, STEP("1", "5") STEP("2", "4") TORN "\n",
                                        STEP("1", "5") TORN "\n" START STEP("2", "4"),
                                        STEP("1", "5") TORN "\n\n" START STEP("2", "4") TORN};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct metrics metrics;
        assert_int_equal(read_text(texts[i], &metrics, NULL), WEFT_OK);
        assert_int_equal(metrics.figures[METRICS_LOSS].count, 2);
        metrics_free(&metrics);
    }
}

static void anything_else_is_refused_with_its_line(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"", "has no step"},
        {"\n\n", "has no step"},
        {START, "has no step"},
        {"hello\n", "has no step"},
        {"hello\n" STEP("1", "5"), "line 1"},
        {STEP("1", "5") TORN "\n" STEP("2", "4"), "line 2"},
        {STEP("1", "5") TORN "\n" TORN "\n", "line 2"},
        {STEP("1", "5") "[1]\n" STEP("2", "4"), "line 2"},
        {STEP("1", "5") "{\"event\":7}\n" STEP("2", "4"), "line 2"},
        {STEP("-1", "5") STEP("2", "4"), "line 1"},
        {STEP("1.5", "5") STEP("2", "4"), "line 1"},
        {STEP("1e300", "5") STEP("2", "4"), "line 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct metrics metrics;
        struct error error = {0};
        assert_int_equal(read_text(wrong[i].text, &metrics, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, wrong[i].said))
            fail_msg("%zu: '%s' does not say '%s'", i, error.text, wrong[i].said);
        assert_null(metrics.figures[METRICS_LOSS].steps);
    }
    struct metrics metrics;
    struct error error = {0};
    assert_int_equal(metrics_read("/no/such/file", &metrics, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "/no/such/file"));
    error_clear(&error);
    static const char with_nul[] = STEP("1", "5") "{\"event\":\"step\"\0}\n" STEP("2", "4");
    assert_int_equal(read_bytes(with_nul, sizeof with_nul - 1, &metrics, &error), WEFT_ERROR_DATA);
}

static void names_are_made_printable(void **state)
{
    struct metrics metrics;
    assert_int_equal(
        read_text("{\"event\":\"start\",\"run\":\"a\\u001b[2Jb\",\"model\":5}\n" STEP("1", "5"), &metrics, NULL),
        WEFT_OK);
    assert_string_equal(metrics.run, "a?[2Jb");
    assert_string_equal(metrics.model, "");
    metrics_free(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_read),
        cmocka_unit_test(what_was_done_again_counts_once),
        cmocka_unit_test(a_torn_line_is_passed_over_where_a_process_died),
        cmocka_unit_test(anything_else_is_refused_with_its_line),
        cmocka_unit_test(names_are_made_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
