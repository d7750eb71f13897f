/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of metrics that are written are read back as they were. */
#include "platform/metrics/read/text.h"

#include "platform/metrics/read/lines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct metric_line line;

static bool read_back(const struct metric_text *text)
{
    return metric_line_read(json_text(&text->line), json_size(&text->line), &line);
}

static void values_are_the_same_again(void **state)
{
    static const double values[] = {0,      -0.0,    1,        0.1,       1.0 / 3, (double)0.1f,      -2.5e-300,
                                    5e-324, 1.7e308, INFINITY, -INFINITY, NAN,     123456789012345.0, 16777217};
    struct metric_text text = {0};
    char name[16];
    metric_text_begin(&text, -7, 1700000000123456);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        snprintf(name, sizeof name, "v/%zu", i);
        assert_true(metric_text_put(&text, name, values[i]));
    }
    metric_text_end(&text);
    assert_true(read_back(&text));
    assert_int_equal(line.step, -7);
    assert_int_equal(line.time, 1700000000123456);
    assert_int_equal(line.count, sizeof values / sizeof *values);
    for (size_t i = 0; i < line.count; i++) {
        snprintf(name, sizeof name, "v/%zu", i);
        assert_string_equal(line.values[i].name, name);
        assert_true(isnan(values[i]) ? isnan(line.values[i].value) : line.values[i].value == values[i]);
    }
    metric_text_begin(&text, 3, -1); /* the same memory again */
    assert_true(metric_text_put(&text, "loss", 1.25));
    metric_text_end(&text);
    assert_int_equal(json_size(&text.line), strlen("{\"step\":3,\"loss\":1.25}"));
    assert_memory_equal(json_text(&text.line), "{\"step\":3,\"loss\":1.25}", json_size(&text.line));
    metric_text_free(&text);
}

static void names_may_have_quotes(void **state)
{
    struct metric_text text = {0};
    metric_text_begin(&text, 1, -1);
    assert_true(metric_text_put(&text, "a \"b\" \\ c", 1));
    assert_true(metric_text_put(&text, "\xc3\xa4", 2));
    metric_text_end(&text);
    assert_true(read_back(&text));
    assert_string_equal(line.values[0].name, "a \"b\" \\ c");
    assert_string_equal(line.values[1].name, "\xc3\xa4");
    metric_text_free(&text);
}

static void a_line_is_full_where_a_reader_would_stop(void **state)
{
    struct metric_text text = {0};
    char name[METRIC_NAME_MOST + 2];
    unsigned taken = 0;
    metric_text_begin(&text, 1, -1);
    for (;; taken++) {
        snprintf(name, sizeof name, "name-%u", taken);
        if (!metric_text_put(&text, name, taken))
            break;
    }
    assert_int_equal(taken, METRIC_LINE_VALUES);
    metric_text_end(&text);
    assert_true(read_back(&text));
    assert_int_equal(line.count, METRIC_LINE_VALUES);
    assert_int_equal(line.left_out, 0);
    /* Long names: by their bytes. */
    metric_text_begin(&text, 1, -1);
    memset(name, '"', METRIC_NAME_MOST);
    name[METRIC_NAME_MOST] = 0;
    for (taken = 0; metric_text_put(&text, name, 1.0 / 3); taken++)
        snprintf(name, 4, "%03u", taken), name[3] = '"';
    assert_in_range(taken, 100, METRIC_LINE_VALUES - 1);
    metric_text_end(&text);
    assert_true(json_size(&text.line) <= METRIC_LINE_MOST);
    assert_true(read_back(&text));
    assert_int_equal(line.count, taken);
    memset(name, 'n', METRIC_NAME_MOST + 1);
    name[METRIC_NAME_MOST + 1] = 0;
    metric_text_begin(&text, 1, -1);
    assert_false(metric_text_put(&text, name, 1));
    metric_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_same_again),
        cmocka_unit_test(names_may_have_quotes),
        cmocka_unit_test(a_line_is_full_where_a_reader_would_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
