/* SPDX-License-Identifier: Apache-2.0 */
/* A copy moves exactly its bytes, whatever its length and wherever its ends lie on cache lines, streamed or not. */
#include "core/transport/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MARGIN 192

static void copies_exactly(void **state)
{
    static const uint64_t lengths[] = {0, 1, 7, 8, 63, 64, 65, 255, 256, 257, 319, 320, 511, 1000, 4096, 4161, 65536};
    static _Alignas(64) unsigned char source[65536 + 2 * MARGIN], target[65536 + 2 * MARGIN];
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (unsigned from = 0; from < 67; from += 11)
            for (unsigned to = 0; to < 67; to += 3)
                for (int streaming = 0; streaming < 2; streaming++) {
                    uint64_t bytes = lengths[l], end = MARGIN + to + bytes;
                    memset(target, 0xee, bytes + 2 * MARGIN);
                    copy_bytes(target + MARGIN + to, source + from, bytes, streaming);
                    assert_memory_equal(target + MARGIN + to, source + from, bytes);
                    for (unsigned i = 0; i < MARGIN + to; i++)
                        assert_int_equal(target[i], 0xee);
                    for (uint64_t i = end; i < bytes + 2 * MARGIN; i++)
                        assert_int_equal(target[i], 0xee);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_exactly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
