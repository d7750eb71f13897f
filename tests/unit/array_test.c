/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow, and lists of strings. */
#include "base/string_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void items_stay_and_room_doubles(void **state)
{
    uint32_t *items = NULL;
    size_t room = 0, moves = 0;
    for (size_t count = 0; count < 100000; count++) {
        const size_t before = room;
        assert_int_equal(ARRAY_RESERVE(items, room, count + 1, "numbers", NULL), WEFT_OK);
        moves += room != before;
        items[count] = (uint32_t)count;
    }
    assert_true(moves < 20);
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(items[i], i);
    assert_int_equal(ARRAY_RESERVE(items, room, 1000000, "numbers", NULL), WEFT_OK);
    assert_true(room >= 1000000);
    free(items);
}

static void too_many_items_are_an_error(void **state)
{
    struct error error = {0};
    double *items = NULL;
    size_t room = 0;
    assert_int_equal(ARRAY_RESERVE(items, room, 1, "the hosts", &error), WEFT_OK);
    double *before = items;
    const size_t room_before = room;
    assert_int_equal(ARRAY_RESERVE(items, room, SIZE_MAX / 2, "the hosts", &error), WEFT_ERROR_MEMORY);
    assert_non_null(strstr(error.text, "the hosts"));
    assert_int_equal(ARRAY_RESERVE(items, room, SIZE_MAX / 16, "the hosts", NULL), WEFT_ERROR_MEMORY);
    assert_ptr_equal(items, before);
    assert_int_equal(room, room_before);
    free(items);
}

static void lists_own_copies_and_end_with_null(void **state)
{
    struct string_list list = {0};
    char text[16];
    for (int i = 99; i >= 0; i--) {
        snprintf(text, sizeof text, "text %02d", i);
        assert_int_equal(string_list_add(&list, text, NULL), WEFT_OK);
        assert_null(list.items[list.count]);
    }
    assert_int_equal(string_list_add_bytes(&list, "text 1000", 7, NULL), WEFT_OK);
    assert_int_equal(list.count, 101);
    assert_string_equal(list.items[0], "text 99");
    string_list_sort(&list);
    assert_string_equal(list.items[0], "text 00");
    assert_string_equal(list.items[100], "text 99");
    assert_null(list.items[101]);
    assert_int_equal(string_list_find(&list, "text 98"), 99);
    assert_int_equal(string_list_find(&list, "text"), list.count);
    string_list_free(&list);
    assert_int_equal(list.count, 0);
    assert_null(list.items);
    string_list_sort(&list);
    string_list_free(&list);
}

static void the_size_of_an_array_is_known(void **state)
{
    const uint64_t numbers[] = {1, 2, 3};
    assert_int_equal(ARRAY_SIZE(numbers), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_and_room_doubles),
        cmocka_unit_test(too_many_items_are_an_error),
        cmocka_unit_test(lists_own_copies_and_end_with_null),
        cmocka_unit_test(the_size_of_an_array_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
