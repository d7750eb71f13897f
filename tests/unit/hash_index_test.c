/* SPDX-License-Identifier: Apache-2.0 */
/* Values are found by their keys, however many there are and wherever they collide, and each is freed once. */
#include "base/hash.h"
#include "base/hash_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALUES 1000

/* Hashes, and from the middle on numbers that all want the same slot; one key is 0. */
static uint64_t numbered_key(uint64_t number)
{
    return number < VALUES / 2 ? hash_number(number, 0) : (number - VALUES / 2) << 32;
}

static void values_are_found_by_their_keys(void **state)
{
    struct hash_index index = {0};
    uint64_t values[VALUES];
    for (uint64_t i = 0; i < VALUES; i++) {
        assert_null(hash_index_find(&index, numbered_key(i)));
        assert_int_equal(hash_index_add(&index, numbered_key(i), &values[i], NULL), WEFT_OK);
    }
    assert_int_equal(index.count, VALUES);
    for (uint64_t i = 0; i < VALUES; i++)
        assert_ptr_equal(hash_index_find(&index, numbered_key(i)), &values[i]);
    assert_null(hash_index_find(&index, hash_number(VALUES, 0)));
    hash_index_free(&index, NULL);
    assert_null(hash_index_find(&index, numbered_key(0)));
}

static void release_value(void *value)
{
    ++*(int *)value;
}

static void each_value_is_released_once(void **state)
{
    struct hash_index index = {0};
    int released[VALUES] = {0};
    for (uint64_t i = 0; i < VALUES; i++)
        assert_int_equal(hash_index_add(&index, numbered_key(i), &released[i], NULL), WEFT_OK);
    hash_index_free(&index, release_value);
    for (size_t i = 0; i < VALUES; i++)
        assert_int_equal(released[i], 1);
    hash_index_free(&index, release_value); /* empty */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_their_keys),
        cmocka_unit_test(each_value_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
