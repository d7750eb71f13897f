/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: words as BERT's released code cuts them, the longest tokens first, and its files. */
#include "training/data/tokenizer/internal/pretokens.h"
#include "wordpiece_support.h"

static const char *directory;

/* The words of a text are `expected`, with a space before each. */
static void must_split(const char *text, size_t size, bool lower, bool strip, const char *expected)
{
    const struct wordpiece_rules rules = {.lower_case = lower, .strip_accents = strip};
    struct pretokens *splitter;
    char joined[4096] = "";
    assert_int_equal(pretokens_open(&rules, &splitter, NULL), WEFT_OK);
    assert_int_equal(pretokens_begin(splitter, text, size, NULL), WEFT_OK);
    const uint8_t *word;
    for (size_t length, used = 0;; used += length) {
        assert_int_equal(pretokens_next(splitter, &word, &length, NULL), WEFT_OK);
        if (length == 0)
            break;
        assert_true(length > 1 && word[0] == ' ' && used + length < sizeof joined);
        memcpy(joined + used, word, length);
        joined[used + length] = '\0';
    }
    assert_string_equal(joined, expected);
    pretokens_close(splitter);
}
#define UNCASED(text, expected) must_split(text, sizeof(text) - 1, true, true, expected)
#define CASED(text, expected)   must_split(text, sizeof(text) - 1, false, false, expected)

static void words_are_those_of_BERT(void **state)
{
    UNCASED("\tHeLLo!how  \n Are yoU?  ", " hello ! how are you ?");
    CASED("\tHeLLo!how  \n Are yoU?  ", " HeLLo ! how Are yoU ?");
    UNCASED("H\u00e9llo", " hello");
    UNCASED("\tH\u00e4LLo!how  \n Are yoU?  ", " hallo ! how are you ?");
    must_split("\tH\u00e4LLo", 7, true, false, " h\u00e4llo");
    must_split("H\u00e4LLo", 6, false, true, " HaLLo");
    CASED("H\u00e4LLo", " H\u00e4LLo");
    UNCASED("ah\u535a\u63a8zz", " ah \u535a \u63a8 zz");
    UNCASED("don't $3.50 a_b `x` ~^", " don ' t $ 3 . 50 a _ b ` x ` ~ ^");
    UNCASED("", "");
    UNCASED(" \t\r\n", "");
}

static void other_scripts_are_cut_as_Unicode_says(void **state)
{
    UNCASED("e\u0301 Z\u0351\u036b\u0343 \u0141\u00f3d\u017a", " e z \u0142odz"); /* the stroke is no accent */
    UNCASED("\u0130stanbul \u03a3\u0391\u03a3 \u0401\u043b\u043a\u0430",
            " istanbul \u03c3\u03b1\u03c3 \u0435\u043b\u043a\u0430");
    UNCASED("\u00bfQu\u00e9\u2026? \u201cso\u201d\u2014\u3002\uff0c",
            " \u00bf que \u2026 ? \u201c so \u201d \u2014 \u3002 \uff0c");
    UNCASED("\uac00", " \u1100\u1161"); /* Hangul syllables are decomposed, as NFD does */
    CASED("\uac00", " \uac00");
    UNCASED("\U0001f600a\U0001f44d\U0001f3fd", " \U0001f600a\U0001f44d\U0001f3fd"); /* emoji are no punctuation */
    UNCASED("\uf900\U00020000\U0002f800\u3042\u30a2", " \u8c48 \U00020000 \u4e3d \u3042\u30a2");
    UNCASED("a\u00a0b\u3000c\u2028d\u2029e", " a b c d e");
    UNCASED("\u1d57\u216b", " \u1d57\u217b"); /* a Roman number has a lower case */
}

static void controls_and_invalid_bytes_are_removed(void **state)
{
    UNCASED("a\0b\x01\x7f c\x1b[0m", " ab c [ 0m");
    UNCASED("a\u200bb\u00adc\ufeffd\ufffde\xc2\x85"
            "f",
            " abcdef");
    UNCASED("a\xff\xc3 b\xe2\x82", " a b");
    UNCASED("x\ue000\U000e0041y", " xy"); /* private use; a tag */
    UNCASED("\xff\x01\u200b", "");
}

/* ---- tokens ---- */

static void must_have_tokens(const struct tokenizer *tokenizer, const char *text, const int32_t *expected, size_t count)
{
    for (int turn = 0; turn < 2; turn++) {
        struct token_list list = must_encode(tokenizer, text, strlen(text));
        if (list.count != count || memcmp(list.tokens, expected, count * sizeof *expected) != 0)
            fail_msg("'%s' has %zu tokens, the first %d", text, list.count, list.count ? list.tokens[0] : -1);
        token_list_free(&list);
    }
}
#define TOKENS(text, ...)                                                                                              \
    must_have_tokens(tokenizer, text, (const int32_t[]){__VA_ARGS__},                                                  \
                     sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void the_longest_token_comes_first(void **state)
{
    /*                           5     6       7     8   9   10    11     12  13 14     15 */
    write_wordpieces(directory, "want\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n#\n##\u00fc\n\u00fc\n", NULL);
    struct tokenizer *tokenizer = must_open_tokenizer(directory);
    assert_int_equal(tokenizer_get_kind(tokenizer), TOKENIZER_WORDPIECE);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 16);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_MASK), 4);
    assert_int_equal(tokenizer_end_of_text(tokenizer), -1);
    TOKENS("unwanted running", 9, 6, 7, 10, 11);
    TOKENS("UnWanted, running", 9, 6, 7, 12, 10, 11);
    TOKENS("unwantedX running", 1, 10, 11);
    TOKENS("wanting wa", 5, 11, 8);
    TOKENS("##ing", 13, 13, 1); /* the letters are text */
    TOKENS("[SEP]", 1, 1, 1);
    assert_true(tokenizer_continues_word(tokenizer, 6));
    assert_false(tokenizer_continues_word(tokenizer, 5));
    struct token_list list = must_encode(tokenizer, "", 0);
    assert_int_equal(list.count, 0);
    list = must_encode(tokenizer, "Unwanted ,running", 17);
    must_decode(tokenizer, &list, " unwanted , running", 19);
    token_list_free(&list);
    tokenizer_close(tokenizer);
}

static void words_of_more_than_100_characters_are_unknown(void **state)
{
    struct tokenizer *tokenizer = open_letters(directory, "");
    char text[512];
    memset(text, 'a', sizeof text);
    struct token_list list = must_encode(tokenizer, text, 100);
    assert_int_equal(list.count, 100);
    token_list_free(&list);
    list = must_encode(tokenizer, text, 101);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.tokens[0], 1);
    token_list_free(&list);
    tokenizer_close(tokenizer);
}

/* ---- files ---- */

static void must_fail(const char *words)
{
    struct error error = {0};
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_open(directory, &tokenizer, &error), WEFT_ERROR_DATA);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
}

static void put(const char *vocabulary)
{
    temporary_file(directory, TOKENIZER_WORDPIECES, vocabulary, strlen(vocabulary));
}

static void what_is_read_is_written_again(void **state)
{
    static const char config[] =
        "{\"do_lower_case\": true, \"strip_accents\": false, \"tokenizer_class\": \"BertTokenizer\"}\n";
    write_wordpieces(directory, "caf\u00e9\n##s\n##\n", config);
    struct tokenizer *tokenizer = must_open_tokenizer(directory);
    char one[TOKENIZER_IDENTITY_BYTES], other[TOKENIZER_IDENTITY_BYTES];
    const char *copy = temporary_path(directory, "copy");
    assert_int_equal(file_make_directory(copy, NULL), WEFT_OK);
    assert_int_equal(tokenizer_write(tokenizer, copy, NULL), WEFT_OK);
    char *text;
    size_t size;
    assert_int_equal(file_read(temporary_path(copy, TOKENIZER_WORDPIECES), 1000, &text, &size, NULL), WEFT_OK);
    assert_string_equal(text, WORDPIECE_SPECIALS "caf\u00e9\n##s\n##\n");
    free(text);
    assert_int_equal(file_read(temporary_path(copy, TOKENIZER_CONFIG), 1000, &text, &size, NULL), WEFT_OK);
    assert_string_equal(text, config);
    free(text);
    assert_true(tokenizer_is_in(copy));
    struct tokenizer *again = must_open_tokenizer(copy);
    assert_int_equal(tokenizer_identify(tokenizer, one, NULL), WEFT_OK);
    assert_int_equal(tokenizer_identify(again, other, NULL), WEFT_OK);
    assert_string_equal(one, other);
    TOKENS("CAF\u00c9s", 5, 6);
    TOKENS("cafes", 1);
    tokenizer_close(again);
    tokenizer_close(tokenizer);
}

static void case_is_that_of_the_config_or_the_vocabulary(void **state)
{
    write_wordpieces(directory, "The\nthe\n[Q]\n", NULL); /* capitals: cased */
    struct tokenizer *tokenizer = must_open_tokenizer(directory);
    TOKENS("The the", 5, 6);
    tokenizer_close(tokenizer);
    write_wordpieces(directory, "The\nthe\n", "{\"do_lower_case\": true}");
    tokenizer = must_open_tokenizer(directory);
    TOKENS("The the", 6, 6);
    tokenizer_close(tokenizer);
    write_wordpieces(directory, "the\n[unusedA]\n", "{\"model_max_length\": 512, \"strip_accents\": null}");
    tokenizer = must_open_tokenizer(directory);
    TOKENS("TH\u00c9", 5);
    tokenizer_close(tokenizer);
}

static void faults_of_the_files_are_named(void **state)
{
    put("");
    must_fail("no line is [PAD]");
    put("[PAD]\n[UNK]\n[CLS]\n[SEP]\n");
    must_fail("no line is [MASK]");
    put(WORDPIECE_SPECIALS "a\n\nb\n");
    must_fail("line 7 of");
    put(WORDPIECE_SPECIALS "a\nb\na\n");
    must_fail("the token 'a' is in");
    must_fail("in line 6 and in line 8");
    put(WORDPIECE_SPECIALS "## a\n");
    must_fail("has a space after its ##");
    char longest[3000];
    int used = snprintf(longest, sizeof longest, WORDPIECE_SPECIALS);
    memset(longest + used, 'a', 2000);
    longest[used + 2000] = '\0';
    put(longest);
    must_fail("line 6 of");
    put("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]"); /* other line ends are fine, and no last one */
    struct tokenizer *tokenizer = must_open_tokenizer(directory);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 5);
    tokenizer_close(tokenizer);
    static const char *const configs[][2] = {{"[]", "not a JSON object"},
                                             {"{\"do_lower_case\": 1}", "do_lower_case"},
                                             {"{\"do_lower_case\": true", "tokenizer_config.json"},
                                             {"{\"tokenize_chinese_chars\": false}", "ideographs"}};
    for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
        write_wordpieces(directory, "a\n", configs[i][0]);
        must_fail(configs[i][1]);
    }
}

static int set_up(void **state)
{
    directory = temporary_directory();
    return 0;
}

static int clean_up(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_are_those_of_BERT),
        TEST(other_scripts_are_cut_as_Unicode_says),
        TEST(controls_and_invalid_bytes_are_removed),
        TEST(the_longest_token_comes_first),
        TEST(words_of_more_than_100_characters_are_unknown),
        TEST(what_is_read_is_written_again),
        TEST(case_is_that_of_the_config_or_the_vocabulary),
        TEST(faults_of_the_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
