/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units: read in the base unit, written with the fitting one, refused with the units that are known. */
#include "base/format/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void numbers_are_read_in_the_base_unit(void **state)
{
    static const struct {
        const char *text;
        enum quantity quantity;
        double value;
    } cases[] = {
        {"80 GB", QUANTITY_BYTES, 80e9},
        {"64KiB", QUANTITY_BYTES, 65536},
        {"123", QUANTITY_BYTES, 123},
        {"1.5 us", QUANTITY_SECONDS, 1.5e-6},
        {"2e-6", QUANTITY_SECONDS, 2e-6},
        {"200 Gbit/s", QUANTITY_BYTES_PER_SECOND, 25e9},
        {"25  GB/s", QUANTITY_BYTES_PER_SECOND, 25e9},
        {"312 TFLOP/s", QUANTITY_OPERATIONS_PER_SECOND, 312e12},
        {"2 GFLOP", QUANTITY_OPERATIONS, 2e9},
        {"67.1 GFLOP/s", QUANTITY_OPERATIONS_PER_SECOND, 67.1e9},
        {"148.4 ns", QUANTITY_SECONDS, 148.4e-9},
        {"0.25", QUANTITY_NUMBER, 0.25},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 0;
        struct error error = {0};
        if (quantity_parse(cases[i].text, "x", cases[i].quantity, 0, 1e18, &value, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_true(value == cases[i].value);
    }
}

static void other_text_is_refused(void **state)
{
    static const struct {
        const char *text;
        enum quantity quantity;
        const char *says;
    } cases[] = {
        {"", QUANTITY_BYTES, "'x' is ''; it must be a size"},
        {"GB", QUANTITY_BYTES, "it must be a size, as in"},
        {"nan", QUANTITY_SECONDS, "it must be a time"},
        {"inf s", QUANTITY_SECONDS, "it must be a time"},
        {"5 GB", QUANTITY_SECONDS, "'GB' is not a unit of it"},
        {"5 gb", QUANTITY_BYTES, "'gb' is not a unit of it"},
        {"5 GB ", QUANTITY_BYTES, "is not a unit of it"},
        {"5 GB", QUANTITY_BYTES_PER_SECOND, "it must be a bandwidth"},
        {"5 x", QUANTITY_NUMBER, "a number without a unit"},
        {"5 EB", QUANTITY_BYTES, "is not a unit"},
        {"5000 TB", QUANTITY_BYTES, "'x' is 5000 TB; it must be from 1 B to 1 TB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = 7;
        struct error error = {0};
        assert_int_equal(quantity_parse(cases[i].text, "x", cases[i].quantity, 1, 1e12, &value, &error),
                         WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, cases[i].says))
            fail_msg("'%s' does not say '%s'", error.text, cases[i].says);
        assert_true(value == 7);
    }
}

static void numbers_are_written_with_the_largest_unit(void **state)
{
    char text[QUANTITY_TEXT_BYTES];
    assert_string_equal(quantity_text(1.6e12, QUANTITY_BYTES_PER_SECOND, text), "1.6 TB/s");
    assert_string_equal(quantity_text(2e-6, QUANTITY_SECONDS, text), "2 us");
    assert_string_equal(quantity_text(1e-6, QUANTITY_SECONDS, text), "1 us");
    assert_string_equal(quantity_text(0, QUANTITY_SECONDS, text), "0");
    assert_string_equal(quantity_text(1e-12, QUANTITY_SECONDS, text), "0.001 ns");
    assert_string_equal(quantity_text(999, QUANTITY_BYTES, text), "999 B");
    assert_string_equal(quantity_text(0.5, QUANTITY_NUMBER, text), "0.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_in_the_base_unit),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(numbers_are_written_with_the_largest_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
