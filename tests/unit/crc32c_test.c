/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C: known values, the processor's instruction against the plain form, and CRCs in parts. */
#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST 4099

static void known_values(void **state)
{
    uint8_t zeros[32] = {0};
    assert_int_equal(crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(zeros, sizeof zeros), 0x8a9136aau); /* RFC 3720, B.4 */
    assert_int_equal(crc32c(NULL, 0), 0);
}

static void both_forms_agree_at_any_size_and_place(void **state)
{
    static uint8_t bytes[MOST + 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t size = 0; size <= MOST; size = size < 100 ? size + 1 : size * 2 + 1)
        for (size_t at = 0; at < 8; at++)
            assert_int_equal(crc32c(bytes + at, size), crc32c_plain(0, bytes + at, size));
}

static void parts_have_the_crc_of_the_whole(void **state)
{
    const char text[] = "the quick brown fox jumps over the lazy dog";
    for (size_t first = 0; first < sizeof text; first++)
        assert_int_equal(crc32c_extend(crc32c(text, first), text + first, sizeof text - first),
                         crc32c(text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(both_forms_agree_at_any_size_and_place),
        cmocka_unit_test(parts_have_the_crc_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
