/* SPDX-License-Identifier: Apache-2.0 */
/* What tells one dataset from another: its tokens, their number and order, and which are held out; not the format, the
 * path, or how it is read. Of large ones, parts are looked at. */
#include "temporary.h"
#include "training/data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TOKENS 10000

static struct dataset_identity identify(const char *path, uint64_t sequence)
{
    struct error error = {0};
    struct dataset *dataset = NULL;
    struct dataset_identity identity = {0};
    const struct dataset_options options = {.sequence = sequence, .seed = sequence, .vocabulary = 65536};
    if (dataset_open(&path, 1, &options, &dataset, &error) != WEFT_OK ||
        dataset_identify(dataset, &identity, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    dataset_close(dataset);
    return identity;
}

static bool same(struct dataset_identity left, struct dataset_identity right)
{
    return left.tokens == right.tokens && left.hash == right.hash;
}

/* Tokens from 0 to 255, in either format. */
static void fill(uint8_t bytes[TOKENS], uint16_t wide[TOKENS])
{
    for (unsigned i = 0; i < TOKENS; i++)
        wide[i] = bytes[i] = (uint8_t)(i * i / 7);
}

static void the_tokens_and_not_where_they_lie(void **state)
{
    uint8_t bytes[TOKENS];
    uint16_t wide[TOKENS];
    fill(bytes, wide);
    const struct dataset_identity text = identify(temporary_file(*state, "a.txt", bytes, TOKENS), 16);
    assert_int_equal(text.tokens, TOKENS);
    assert_true(same(identify(temporary_file(*state, "b.txt", bytes, TOKENS), 99), text));
    assert_true(same(identify(temporary_file(*state, "a.bin", wide, sizeof wide), 16), text));
    assert_false(same(identify(temporary_file(*state, "a.txt", bytes, TOKENS - 1), 16), text));
    for (unsigned i = 0; i < TOKENS; i += 777) {
        bytes[i] ^= 1;
        assert_false(same(identify(temporary_file(*state, "a.txt", bytes, TOKENS), 16), text));
        bytes[i] ^= 1;
    }
}

/* A directory of two files. */
static struct dataset_identity identify_two(const char *directory, const char *first, const char *second,
                                            const uint16_t *tokens, size_t count)
{
    const char *path = temporary_path(directory, "two");
    assert_int_equal(file_make_directory(path, NULL), WEFT_OK);
    temporary_file(path, first, tokens, count * sizeof *tokens);
    temporary_file(path, second, tokens + count, (TOKENS - count) * sizeof *tokens);
    const struct dataset_identity identity = identify(path, 16);
    assert_int_equal(file_remove_tree(path, NULL), WEFT_OK);
    return identity;
}

static void the_files_and_what_is_held_out(void **state)
{
    uint8_t bytes[TOKENS];
    uint16_t wide[TOKENS];
    fill(bytes, wide);
    const struct dataset_identity whole = identify(temporary_file(*state, "a.bin", wide, sizeof wide), 16),
                                  two = identify_two(*state, "1.bin", "2.bin", wide, TOKENS / 2);
    assert_int_equal(two.tokens, TOKENS);
    assert_false(same(two, whole)); /* samples do not go from one file into the next */
    assert_true(same(identify_two(*state, "x.bin", "y.bin", wide, TOKENS / 2), two));
    assert_false(same(identify_two(*state, "2.bin", "1.bin", wide, TOKENS / 2), two));
    assert_false(same(identify_two(*state, "1.bin", "2.bin", wide, TOKENS / 4), two));
    assert_false(same(identify_two(*state, "1.bin", "2_val.bin", wide, TOKENS / 2), two));
}

/* The first and the last token of a file that is too large to be looked at as a whole. */
static void both_ends_of_a_large_file(void **state)
{
    const size_t count = (size_t)24 << 20;
    uint8_t *bytes = calloc(count, 1);
    assert_non_null(bytes);
    const struct dataset_identity before = identify(temporary_file(*state, "a.txt", bytes, count), 16);
    const size_t places[] = {0, count - 1};
    for (size_t i = 0; i < 2; i++) {
        bytes[places[i]] = 1;
        assert_false(same(identify(temporary_file(*state, "a.txt", bytes, count), 16), before));
        bytes[places[i]] = 0;
    }
    free(bytes);
}

static void random_tokens_have_none(void **state)
{
    struct dataset *dataset;
    struct dataset_identity identity = {.tokens = 1};
    assert_int_equal(dataset_open_random(&(struct dataset_options){.sequence = 4}, &dataset, NULL), WEFT_OK);
    assert_int_equal(dataset_identify(dataset, &identity, NULL), WEFT_OK);
    assert_int_equal(identity.tokens, 0);
    dataset_close(dataset);
}

/* A resumed run of a newer version finds the data that an older one has recorded: this number must never change. */
static void the_identity_stays_what_it_is(void **state)
{
    uint8_t bytes[TOKENS];
    uint16_t wide[TOKENS];
    fill(bytes, wide);
    assert_int_equal(identify(temporary_file(*state, "a.txt", bytes, TOKENS), 16).hash, 0xb1d90fbd3c2ba642);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(the_tokens_and_not_where_they_lie),
        in_temporary_directory(the_files_and_what_is_held_out),
        in_temporary_directory(both_ends_of_a_large_file),
        cmocka_unit_test(random_tokens_have_none),
        in_temporary_directory(the_identity_stays_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
