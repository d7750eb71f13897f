/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and XXH3 give the published values, in one piece or in many. */
#include "base/hash.h"
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void sha256_of_the_standard(void **state)
{
    /* FIPS 180-4's examples. */
    static const struct {
        const char *text, *digest;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint8_t digest[SHA256_BYTES];
        char text[SHA256_TEXT_BYTES];
        assert_int_equal(sha256_of(known[i].text, strlen(known[i].text), digest, NULL), WEFT_OK);
        assert_string_equal(sha256_text(digest, text), known[i].digest);
        struct sha256 hash;
        assert_int_equal(sha256_begin(&hash, NULL), WEFT_OK);
        for (const char *next = known[i].text; *next; next++)
            sha256_update(&hash, next, 1);
        assert_int_equal(sha256_end(&hash, digest, NULL), WEFT_OK);
        assert_string_equal(sha256_text(digest, text), known[i].digest);
    }
}

static void a_hash_may_be_given_up(void **state)
{
    struct sha256 hash;
    assert_int_equal(sha256_begin(&hash, NULL), WEFT_OK);
    assert_int_equal(sha256_end(&hash, NULL, NULL), WEFT_OK);
}

static void fast_hashes_stay_what_they_are(void **state)
{
    assert_true(hash_bytes("", 0, 0) == 0x2d06800538d394c2u);
    assert_true(hash_text("ab", hash_text("c", 0)) != hash_text("c", hash_text("ab", 0)));
    assert_true(hash_text("bc", hash_text("a", 0)) != hash_text("c", hash_text("ab", 0)));
    assert_true(hash_number(1, 0) != hash_number(1, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_of_the_standard),
        cmocka_unit_test(a_hash_may_be_given_up),
        cmocka_unit_test(fast_hashes_stay_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
