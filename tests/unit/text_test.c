/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, numbers and names as people write them. */
#include "base/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

static void bad_sizes_get_a_message_and_leave_the_output_alone(void **state)
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

static void durations_with_units(void **state)
{
    static const struct {
        const char *text, *written;
        int64_t seconds;
    } good[] = {
        {"90s", "1m30s", 90},
        {"30m", "30m", 1800},
        {"30min", "30m", 1800},
        {"6h", "6h", 21600},
        {"1.5h", "1h30m", 5400},
        {"1d12h", "1d12h", 129600},
        {"1w", "7d", 604800},
        {"0.5m", "30s", 30},
        {"1d1h1m1s", "1d1h1m1s", 90061},
        {"36500days", "36500d", 3153600000},
        {"0d1s", "1s", 1},
    };
    static const char *const bad[] = {"",    "6",    "h",      "-1h",  "1h1d", "1h1h", "1e3s",
                                      "0s",  "0.5s", "1.2.3h", "1 h",  "0x1h", "nans", "inf",
                                      "1hh", "1H",   "99999w", "1h30", ".5h",  "1h ",  "1.h.5m"};
    struct error error = {0};
    char buffer[64], again[64];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t seconds = 0;
        if (text_parse_duration(good[i].text, "--time", &seconds, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(seconds, good[i].seconds);
        assert_string_equal(text_duration(seconds, buffer, sizeof buffer), good[i].written);
        assert_int_equal(text_parse_duration(buffer, "--time", &seconds, NULL), WEFT_OK);
        assert_string_equal(text_duration(seconds, again, sizeof again), buffer);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t seconds = 17;
        error_clear(&error);
        if (text_parse_duration(bad[i], "--time", &seconds, &error) != WEFT_ERROR_ARGUMENT)
            fail_msg("'%s' is taken for a duration", bad[i]);
        assert_non_null(strstr(error.text, "--time"));
        assert_int_equal(seconds, 17);
    }
    assert_string_equal(text_duration(0, buffer, sizeof buffer), "0s");
    assert_string_equal(text_duration(90061, buffer, 4), "1d1");
}

static void whole_numbers_keep_their_digits(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {25000000000, "25000000000"},
                 {-9007199254740991, "-9007199254740991"},
                 {0x1p53, "9007199254740992"},
                 {2.5, "2.5"},
                 {1e300, "1e+300"},
                 {INFINITY, "inf"}};
    char buffer[TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_string_equal(text_number_exact(cases[i].value, buffer), cases[i].text);
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
        assert_int_equal(text_is_printable(text, false), strcmp(cases[i][0], cases[i][1]) == 0);
        assert_string_equal(text_printable(text), cases[i][1]);
    }
    assert_true(text_is_printable("a\tb\r\n", true) && !text_is_printable("a\tb", false));
    assert_false(text_is_printable("a\033[2J\n", true));
}

static void characters_that_reorder_or_hide_text_are_replaced(void **state)
{
    static const struct {
        const char *character, *code;
        bool joins;
    } cases[] = {
        {"\xe2\x80\xae", "U+202E", false},      {"\xe2\x80\xaa", "U+202A", false}, {"\xe2\x81\xa6", "U+2066", false},
        {"\xe2\x81\xaf", "U+206F", false},      {"\xe2\x80\x8b", "U+200B", false}, {"\xe2\x80\x8f", "U+200F", false},
        {"\xef\xbb\xbf", "U+FEFF", false},      {"\xd8\x9c", "U+061C", false},     {"\xe2\x80\xa8", "U+2028", false},
        {"\xe2\x80\xa9", "U+2029", false},      {"\xc2\x85", "U+0085", false},     {"\177", "U+007F", false},
        {"\xf3\xa0\x81\x81", "U+E0041", false}, {"\xff", "byte 0xFF", false},      {"\xe2\x80\x8c", "U+200C", true},
        {"\xe2\x80\x8d", "U+200D", true},       {"\xc2\xad", "U+00AD", true},      {"\xe3\x85\xa4", "U+3164", true},
        {"\xe1\xa0\x8e", "U+180E", true},       {"\xcd\x8f", "U+034F", true},      {"\xef\xbe\xa0", "U+FFA0", true},
        {"\xf0\x9d\x85\xb3", "U+1D173", true},
    };
    char text[64], code[TEXT_CODE_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "a%sb", cases[i].character);
        assert_false(text_is_printable(text, false));
        assert_string_equal(text_unprintable_code(text, false, code), cases[i].code);
        assert_int_equal(text_is_printable(text, true), cases[i].joins);
        assert_int_equal(strchr(text_printable(text), '?') != NULL, !cases[i].joins);
        assert_non_null(strchr(text_printable_name(text), '?'));
        assert_true(text_is_printable(text, false));
    }
    assert_string_equal(text_unprintable_code("plain \xe2\x82\xac", false, code), "");
    assert_string_equal(text_unprintable_code("a\tb", true, code), "");
}

static void names_are_in_the_order_of_their_numbers(void **state)
{
    static const char *const ordered[] = {"",
                                          "-",
                                          "0",
                                          "00",
                                          "1",
                                          "2",
                                          "10",
                                          "a",
                                          "a-1",
                                          "host",
                                          "host-",
                                          "host-01",
                                          "host-1",
                                          "host-1-1",
                                          "host-1-2",
                                          "host-1-10",
                                          "host-1a",
                                          "host-2",
                                          "host-10",
                                          "host-18446744073709551616",
                                          "host-18446744073709551617",
                                          "host-x"};
    const size_t count = sizeof ordered / sizeof *ordered;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            const char *one = ordered[i], *other = ordered[k];
            const int order = text_compare_natural(one, strlen(one), other, strlen(other));
            if ((order > 0) - (order < 0) != (i > k) - (i < k))
                fail_msg("'%s' and '%s': %d", one, other, order);
        }
    assert_int_equal(text_compare_natural("host-12", 6, "host-1", 6), 0); /* no more than the bytes that are given */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(bad_sizes_get_a_message_and_leave_the_output_alone),
        cmocka_unit_test(integers_within_bounds),
        cmocka_unit_test(durations_with_units),
        cmocka_unit_test(whole_numbers_keep_their_digits),
        cmocka_unit_test(the_nearest_name),
        cmocka_unit_test(what_others_wrote_becomes_printable),
        cmocka_unit_test(characters_that_reorder_or_hide_text_are_replaced),
        cmocka_unit_test(names_are_in_the_order_of_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
