/* SPDX-License-Identifier: Apache-2.0 */
/* A curve as letters: each letter where it belongs, and nothing that is no number. */
#include "platform/metrics/chart/text_chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const struct text_chart *chart, const char *expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *output = open_memstream(&text, &size);
    assert_int_equal(text_chart_print(chart, output, NULL), WEFT_OK);
    fclose(output);
    assert_string_equal(text, expected);
    free(text);
}

static void means_are_stars_and_ranges_colons(void **state)
{
    const double x[] = {0, 1, 2, 3}, mean[] = {4, 2, 1, 1}, low[] = {4, 1, 0, 1}, high[] = {4, 4, 2, 1};
    expect(&(struct text_chart){x, mean, low, high, 4, 20, 5, NULL, NULL}, "         4 |* :\n"
                                                                           "           |  :\n"
                                                                           "           |  * :\n"
                                                                           "           |  : *  *\n"
                                                                           "         0 |    :\n"
                                                                           "           +--------\n"
                                                                           "            0      3\n");
}

static void what_is_no_number_is_a_gap(void **state)
{
    const double x[] = {10, 11, 12}, values[] = {1, NAN, 2}, none[] = {NAN, INFINITY, -INFINITY};
    expect(&(struct text_chart){x, values, values, values, 3, 20, 2, "begin", "end"}, "         2 |       *\n"
                                                                                      "         1 |*\n"
                                                                                      "           +--------\n"
                                                                                      "            begin end\n");
    expect(&(struct text_chart){x, none, none, none, 3, 20, 2, NULL, NULL},
           "            (nothing of it is a number)\n");
    expect(&(struct text_chart){x, values, values, values, 0, 20, 2, NULL, NULL},
           "            (nothing of it is a number)\n");
}

static void one_value_is_a_line_in_the_middle(void **state)
{
    const double x[] = {5, 6}, values[] = {2, 2};
    expect(&(struct text_chart){x, values, values, values, 2, 0, 3, NULL, NULL}, "         3 |\n"
                                                                                 "           |*      *\n"
                                                                                 "         1 |\n"
                                                                                 "           +--------\n"
                                                                                 "            5      6\n");
    expect(&(struct text_chart){x, values, values, values, 1, 0, 3, NULL, NULL}, "         3 |\n"
                                                                                 "           |*\n"
                                                                                 "         1 |\n"
                                                                                 "           +--------\n"
                                                                                 "            5      5\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_stars_and_ranges_colons),
        cmocka_unit_test(what_is_no_number_is_a_gap),
        cmocka_unit_test(one_value_is_a_line_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
