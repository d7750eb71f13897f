/* SPDX-License-Identifier: Apache-2.0 */
/* A remote shell with its options is one text: what is in its words comes back. */
#include "launch/agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *agent, const char *const *wanted)
{
    struct string_list words = {0};
    assert_true(agent_words(agent, &words));
    for (uint32_t i = 0; i < words.count; i++) {
        assert_non_null(wanted[i]);
        assert_string_equal(words.items[i], wanted[i]);
    }
    assert_null(wanted[words.count]);
    string_list_free(&words);
}

static void blanks_divide_words(void **state)
{
    expect("", (const char *const[]){NULL});
    expect("  ", (const char *const[]){NULL});
    expect("ssh", (const char *const[]){"ssh", NULL});
    expect(" ssh  -p 2222 ", (const char *const[]){"ssh", "-p", "2222", NULL});
}

static void a_backslash_keeps_a_blank(void **state)
{
    expect("/a\\ b/weft x", (const char *const[]){"/a b/weft", "x", NULL});
    expect("a\\\\ b", (const char *const[]){"a\\", "b", NULL});
    expect("\\ ", (const char *const[]){" ", NULL});
}

/* As in the name of an account of a domain. */
static void any_other_backslash_is_one(void **state)
{
    expect("ssh -l DOMAIN\\user", (const char *const[]){"ssh", "-l", "DOMAIN\\user", NULL});
    expect("a\\", (const char *const[]){"a\\", NULL});
}

static void words_come_back(void **state)
{
    static const char *const words[] = {"/a b/weft", "node-reach", "c\\ d", "\\\\", " ", "é\"'$", NULL};
    struct buffer text = {0};
    for (int i = 0; words[i]; i++)
        agent_put_word(&text, words[i]);
    buffer_put(&text, "", 1);
    assert_false(text.failed);
    expect((const char *)buffer_begin(&text), words);
    buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_divide_words),
        cmocka_unit_test(a_backslash_keeps_a_blank),
        cmocka_unit_test(any_other_backslash_is_one),
        cmocka_unit_test(words_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
