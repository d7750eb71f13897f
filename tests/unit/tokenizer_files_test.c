/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer's two files: read, written again as they were, and every fault told with its place. */
#include "tokenizer_support.h"

static const char *directory;

#define SOME_TOKENS ((const char *const[]){"th", "the", "<|endoftext|>", NULL})
#define NO_TOKENS   ((const char *const[]){NULL})

/* Opening fails with a message that has all of `words` (up to a NULL). */
static void must_fail(const char *path, const char *const *words)
{
    struct error error = {0};
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_open(path, &tokenizer, &error), WEFT_ERROR_DATA);
    assert_null(tokenizer);
    for (; *words; words++)
        if (!strstr(error.text, *words))
            fail_msg("'%s' is not in: %s", *words, error.text);
}
#define FAILS(...) must_fail(directory, (const char *const[]){__VA_ARGS__, NULL})

static void put_vocabulary(const char *text)
{
    temporary_file(directory, TOKENIZER_VOCABULARY, text, strlen(text));
    temporary_file(directory, TOKENIZER_MERGES, "", 0);
}

static void what_is_read_is_written_again(void **state)
{
    write_tokenizer(directory, SOME_TOKENS, "#version: 0.2\nt h\nth e\n");
    struct tokenizer *tokenizer = must_open_tokenizer(directory);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 259);
    assert_int_equal(tokenizer_merges(tokenizer), 2);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 258);
    const char *copy = temporary_path(directory, "copy");
    assert_int_equal(file_make_directory(copy, NULL), WEFT_OK);
    assert_int_equal(tokenizer_write(tokenizer, copy, NULL), WEFT_OK);
    struct tokenizer *again = must_open_tokenizer(copy);
    static const char text[] = "the other <|endoftext|>\n";
    struct token_list one = must_encode(tokenizer, text, sizeof text - 1),
                      two = must_encode(again, text, sizeof text - 1);
    assert_int_equal(one.count, two.count);
    assert_memory_equal(one.tokens, two.tokens, one.count * sizeof *one.tokens);
    assert_int_equal(one.tokens[0], 257);
    for (size_t i = 0; i < one.count; i++)
        assert_int_not_equal(one.tokens[i], 258); /* the letters of the mark are text to an encoder */
    token_list_free(&one);
    token_list_free(&two);
    tokenizer_close(again);
    tokenizer_close(tokenizer);
}

static void the_other_names_are_known(void **state)
{
    write_tokenizer(directory, SOME_TOKENS, "t h\nth e"); /* no version, no last line's end */
    const char *other = temporary_path(directory, "other");
    assert_int_equal(file_make_directory(other, NULL), WEFT_OK);
    rename(temporary_path(directory, "vocab.json"), temporary_path(other, "encoder.json"));
    rename(temporary_path(directory, "merges.txt"), temporary_path(other, "vocab.bpe"));
    struct tokenizer *tokenizer = must_open_tokenizer(other);
    assert_int_equal(tokenizer_merges(tokenizer), 2);
    tokenizer_close(tokenizer);
}

static void missing_files_are_named(void **state)
{
    const char *empty = temporary_path(directory, "empty");
    must_fail(empty, (const char *const[]){"/empty' is not a directory", NULL});
    assert_int_equal(file_make_directory(empty, NULL), WEFT_OK);
    must_fail(empty, (const char *const[]){"vocab.json (or encoder.json) and no merges.txt (or vocab.bpe)", NULL});
    temporary_file(empty, "vocab.json", "{}", 2);
    must_fail(empty, (const char *const[]){"it has no merges.txt", NULL});
    remove(temporary_path(empty, "vocab.json"));
    temporary_file(empty, "merges.txt", "", 0);
    must_fail(empty, (const char *const[]){"it has no vocab.json", NULL});
    assert_false(tokenizer_is_in(empty));
}

static void a_malformed_vocabulary_is_told(void **state)
{
    put_vocabulary("{\"a\": 0, \"b\"");
    FAILS("vocab.json' is no valid JSON", "at byte");
    put_vocabulary("[1, 2]");
    FAILS("vocab.json' is not a JSON object");
    put_vocabulary("{}");
    FAILS("0 tokens", "none is the byte 0x00");
    put_vocabulary("{\"a\": 0, \"b\": 2}");
    FAILS("token 'b'", "the number 2", "0 to 1");
    put_vocabulary("{\"a\": 0, \"b\": 1e300}");
    FAILS("token 'b'");
    put_vocabulary("{\"a\": 1, \"b\": 1}");
    FAILS("'a' and 'b'", "both have the number 1");
    put_vocabulary("{\"a\": 0, \"b\": -1}");
    FAILS("'b'", "no number");
    put_vocabulary("{\"a\": 0, \"b\": 0.5}");
    FAILS("'b'", "no number");
    put_vocabulary("{\"a\": 0, \"b\": \"1\"}");
    FAILS("'b'", "no number");
    put_vocabulary("{\"a\": 0, \"a\": 1}");
    FAILS("'a'", "twice");
    put_vocabulary("{\"a\": 0, \"\": 1}");
    FAILS("token 1", "empty");
    put_vocabulary("{\"a\": 0, \"a b\": 1}");
    FAILS("token 1", "'a b'", "alphabet");
    put_vocabulary("{\"a\": 0, \"b\": 1}");
    FAILS("2 tokens", "none is the byte 0x00");
}

static void a_malformed_merge_is_told(void **state)
{
    write_tokenizer(directory, SOME_TOKENS, "#version: 0.2\nt h\nth\n");
    FAILS("line 3", "merges.txt", "'th'", "two tokens with a space between");
    write_tokenizer(directory, SOME_TOKENS, "t h\n\nth e\n");
    FAILS("line 2", "''", "two tokens");
    write_tokenizer(directory, SOME_TOKENS, "t h e\n");
    FAILS("line 1", "'t h e'");
    write_tokenizer(directory, SOME_TOKENS, " t\n");
    FAILS("line 1");
    write_tokenizer(directory, SOME_TOKENS, "t h\nth ex\n");
    FAILS("line 2", "'ex' is not in the vocabulary");
    write_tokenizer(directory, SOME_TOKENS, "t h\nth o\n");
    FAILS("line 2", "'tho' is not in the vocabulary", "belong together");
    write_tokenizer(directory, SOME_TOKENS, "t h\nth e\nt h\n");
    FAILS("line 3", "'t' and 'h'", "merge 1");
    write_tokenizer(directory, NO_TOKENS, "t \xff\n");
    FAILS("line 1", "not in the vocabulary");
}

static int make_directory(void **state)
{
    directory = temporary_directory();
    return 0;
}

static int remove_directory(void **state)
{
    return file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written_again), cmocka_unit_test(the_other_names_are_known),
        cmocka_unit_test(missing_files_are_named),       cmocka_unit_test(a_malformed_vocabulary_is_told),
        cmocka_unit_test(a_malformed_merge_is_told),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
