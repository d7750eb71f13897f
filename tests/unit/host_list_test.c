/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists of hosts: names with brackets, leading zeros, several brackets; texts that are not such lists. */
#include "platform/engine/slurm/host_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The names of a list, joined by spaces. */
static void expect_names(const char *text, const char *expected)
{
    char joined[1000] = "";
    struct error error = {0};
    struct string_list names = {0};
    if (slurm_host_list(text, &names, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0, size = 0; i < names.count; i++)
        size += (size_t)snprintf(joined + size, sizeof joined - size, "%s%s", i ? " " : "", names.items[i]);
    assert_string_equal(joined, expected);
    string_list_free(&names);
}

static void lists_are_expanded(void **state)
{
    (void)state;
    expect_names("", "");
    expect_names("(null)", "");
    expect_names("None", "");
    expect_names("n1", "n1");
    expect_names("n1,login", "n1 login");
    expect_names("n[1-4,7]", "n1 n2 n3 n4 n7");
    expect_names("n[08-11],n[3]-ib,m", "n08 n09 n10 n11 n3-ib m");
    expect_names("n[098-101]", "n098 n099 n100 n101");
    expect_names("n[9-11]", "n9 n10 n11");
    expect_names("r[1-2]n[01-02].x", "r1n01.x r1n02.x r2n01.x r2n02.x");
    expect_names("[1-2]a", "1a 2a");
    expect_names("a[1][2,3]", "a12 a13");
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {",",
                                      "a,",
                                      ",a",
                                      "a,,b",
                                      "n[",
                                      "n[1",
                                      "n]",
                                      "n[]",
                                      "n[a]",
                                      "n[1-]",
                                      "n[-1]",
                                      "n[2-1]",
                                      "n[1,]",
                                      "n[,1]",
                                      "n[1-2-3]",
                                      "n[1 2]",
                                      "n 1",
                                      "n[1]]",
                                      "n[[1]]",
                                      "n[1-2",
                                      "n[0-65536]",
                                      "n[0-999][0-999]",
                                      "n[1-999999999999999999]",
                                      "n[1-99999999999999999999]",
                                      "a[1][1][1][1][1][1][1][1][1]",
                                      "n\n"};
    struct string_list names = {0};
    assert_int_equal(string_list_add(&names, "kept", NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        if (slurm_host_list(bad[i], &names, &error) != WEFT_ERROR_DATA)
            fail_msg("'%s' was taken for a list", bad[i]);
        assert_non_null(strstr(error.text, bad[i]));
        assert_int_equal(names.count, 1);
    }
    string_list_free(&names);
}

static void the_largest_list_is_taken(void **state)
{
    (void)state;
    struct string_list names = {0};
    assert_int_equal(slurm_host_list("n[00000-65535]", &names, NULL), WEFT_OK);
    assert_int_equal(names.count, SLURM_HOSTS_MOST);
    assert_string_equal(names.items[SLURM_HOSTS_MOST - 1], "n65535");
    string_list_free(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_expanded),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(the_largest_list_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
