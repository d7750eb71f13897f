/* SPDX-License-Identifier: Apache-2.0 */
/* Values of secrets never come through, however their bytes arrive. */
#include "platform/agent/internal/redactor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Give `text` in pieces of `piece` bytes, and return all that came out. */
static const char *redact(const struct redactor *redactor, const char *text, size_t piece, struct buffer *output)
{
    struct buffer held = {0};
    buffer_consume(output, buffer_size(output));
    for (size_t at = 0, size = strlen(text); at < size; at += piece) {
        const size_t some = size - at < piece ? size - at : piece;
        buffer_put(&held, text + at, some);
        buffer_consume(&held,
                       redactor_take(redactor, buffer_begin(&held), buffer_size(&held), at + some == size, output));
    }
    assert_int_equal(buffer_size(&held), 0);
    buffer_free(&held);
    buffer_put(output, "", 1);
    return (const char *)buffer_begin(output);
}

static void values_are_replaced_however_they_come(void **state)
{
    static const char *const cases[][2] = {
        {"nothing here\n", "nothing here\n"},
        {"the key is s3cret-value!\n", "the key is [secret KEY]!\n"},
        {"s3cret-values3cret-value", "[secret KEY][secret KEY]"},
        {"s3cret-s3cret-value.", "s3cret-[secret KEY]."},
        {"s3cret-valu", "s3cret-valu"},
        {"s3cret-value-and-more s3cret-value-and-mor", "[secret LONG] [secret KEY]-and-mor"},
        {"a\nline one\nline two\nb", "a\n[secret LINES]\nb"},
        {"aaaaaaaaaaaab", "[secret A]aaaab"},
    };
    struct redactor redactor = {0};
    struct buffer output = {0};
    assert_true(redactor_add(&redactor, "KEY", "s3cret-value", 12));
    assert_true(redactor_add(&redactor, "LONG", "s3cret-value-and-more", 21));
    assert_true(redactor_add(&redactor, "LINES", "line one\nline two", 17));
    assert_true(redactor_add(&redactor, "A", "aaaaaaaa", 8));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= strlen(cases[i][0]); piece++)
            assert_string_equal(redact(&redactor, cases[i][0], piece, &output), cases[i][1]);
    redactor_free(&redactor);
    assert_string_equal(redact(&redactor, "s3cret-value", 3, &output), "s3cret-value");
    buffer_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_replaced_however_they_come)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
