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

static void what_others_wrote_becomes_printable(void **state)
{
    static const char *const cases[][2] = {
        {"plain text", "plain text"},
        {"a\033[2Jb\nc\177", "a?[2Jb?c?"},
        {"Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x90\x91", "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x90\x91"},
        {"\xc2\x9b"
         "2J",
         "??2J"}, /* a terminal's CSI, as UTF-8 */
        {"\x9b"
         "2J",
         "?2J"},       /* and as it is */
        {"\xc3", "?"}, /* cut short */
        {"\xe2\x82", "??"},
        {"\xf0\x9f\x90", "???"},
        {"\xc0\xaf\xe0\x80\xaf", "?????"},           /* overlong */
        {"\xed\xa0\x80\xf4\x90\x80\x80", "???????"}, /* half of a pair; beyond the last */
    };
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(text, cases[i][0]);
        assert_string_equal(text_printable(text), cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(bad_sizes_get_a_sentence_and_leave_the_output_alone),
        cmocka_unit_test(integers_within_bounds),
        cmocka_unit_test(the_nearest_name),
        cmocka_unit_test(what_others_wrote_becomes_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
