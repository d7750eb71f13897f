/* SPDX-License-Identifier: Apache-2.0 */
/* Growing buffers: appending, formatting, consuming, strings, and memory that is not there. */
#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void bytes_come_out_as_they_went_in(void **state)
{
    struct buffer buffer = {0};
    for (unsigned i = 0; i < 10000; i++)
        buffer_put(&buffer, &(uint8_t){(uint8_t)(i * 7)}, 1);
    assert_int_equal(buffer_size(&buffer), 10000);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(buffer_begin(&buffer)[i], (uint8_t)(i * 7));
    buffer_free(&buffer);
    assert_int_equal(buffer_size(&buffer), 0);
    assert_null(buffer_begin(&buffer));
}

static void consumed_bytes_make_room(void **state)
{
    struct buffer buffer = {0};
    buffer_put(&buffer, "abcdef", 6);
    const size_t room = buffer.room;
    for (int i = 0; i < 1000; i++) {
        buffer_consume(&buffer, 3);
        assert_memory_equal(buffer_begin(&buffer), i % 2 ? "abc" : "def", 3);
        buffer_put(&buffer, i % 2 ? "def" : "abc", 3);
    }
    assert_int_equal(buffer.room, room);
    buffer_consume(&buffer, 6);
    assert_int_equal(buffer_size(&buffer), 0);
    buffer_free(&buffer);
}

static void strings_are_ended(void **state)
{
    struct buffer buffer = {0};
    assert_string_equal(buffer_string(&buffer), "");
    buffer_put_string(&buffer, "one ");
    buffer_print(&buffer, "%d %s", 2, "three");
    assert_string_equal(buffer_string(&buffer), "one 2 three");
    buffer_consume(&buffer, 4);
    buffer_print(&buffer, "%*d", 2000, 4);
    assert_int_equal(buffer_size(&buffer), 7 + 2000);
    assert_int_equal(strlen(buffer_string(&buffer)), 7 + 2000);
    buffer_free(&buffer);
}

static void lack_of_memory_stays_noted(void **state)
{
    struct buffer buffer = {0};
    buffer_put(&buffer, "kept", 4);
    assert_null(buffer_reserve(&buffer, SIZE_MAX - 1));
    assert_null(buffer_reserve(&buffer, SIZE_MAX / 2));
    assert_true(buffer.failed);
    buffer_put(&buffer, "!", 1);
    assert_true(buffer.failed);
    assert_null(buffer_string(&buffer));
    assert_memory_equal(buffer_begin(&buffer), "kept!", 5);
    buffer_free(&buffer);
    assert_false(buffer.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(consumed_bytes_make_room),
        cmocka_unit_test(strings_are_ended),
        cmocka_unit_test(lack_of_memory_stays_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
