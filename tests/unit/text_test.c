/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, numbers and names as people write them. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void sizes_with_units(void **state)
{
    uint64_t bytes = 0;
    assert_int_equal(text_parse_bytes("64K", "size", &bytes, NULL), WEFT_OK);
    assert_int_equal(bytes, 65536);
    assert_int_equal(text_parse_bytes("1GiB", "size", &bytes, NULL), WEFT_OK);
    assert_int_equal(bytes, 1u << 30);
}

static void bad_sizes_get_a_sentence_and_leave_the_output_alone(void **state)
{
    static const char *const bad[] = {"", "-1", "K", "12X", "99999999999999999999", "99999999999T", " 4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        uint64_t bytes = 7;
        assert_int_equal(text_parse_bytes(bad[i], "--min", &bytes, &error), WEFT_ERROR_ARGUMENT);
        assert_int_equal(bytes, 7);
        assert_non_null(strstr(error.text, "--min"));
    }
}

static void integers_within_bounds(void **state)
{
    struct error error = {0};
    int64_t number = 0;
    assert_int_equal(text_parse_integer("12", "-n", 1, 12, &number, &error), WEFT_OK);
    assert_int_equal(number, 12);
    assert_int_equal(text_parse_integer("13", "-n", 1, 12, &number, &error), WEFT_ERROR_ARGUMENT);
    assert_string_equal(error.text, "-n is 13, but must be from 1 to 12");
}

static void the_nearest_name(void **state)
{
    static const char *const names[] = {"train", "topo", "bench"};
    assert_string_equal(text_nearest("tarin", names, 3), "train");
    assert_null(text_nearest("zzz", names, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(bad_sizes_get_a_sentence_and_leave_the_output_alone),
        cmocka_unit_test(integers_within_bounds),
        cmocka_unit_test(the_nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
