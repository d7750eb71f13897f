/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding: the tokens of GPT-2's released encoder, those of its algorithm written plainly, and back again.
 */
#include "base/format/json.h"
#include "base/random.h"
#include "tokenizer_support.h"
#include "training/data/text_reader.h"
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/tables.h"

/* ---- GPT-2's own ---- */

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t size = 0;
    for (unsigned byte; sscanf(hex + 2 * size, "%2x", &byte) == 1; size++)
        bytes[size] = (uint8_t)byte;
    return size;
}

/* The golden file was made by the released encoder in JavaScript: tools/write-tokenizer-golden. */
static void the_tokens_are_those_of_gpt2(void **state)
{
    if (!tokenizer_is_in(GPT2)) {
        print_message("skipped: %s is missing; tools/make-vocabulary gets it\n", GPT2);
        skip();
    }
    struct tokenizer *tokenizer = must_open_tokenizer(GPT2);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 50257);
    assert_int_equal(tokenizer_merges(tokenizer), 50000);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 50256);
    cJSON *root;
    assert_int_equal(json_read(GOLDEN, &root, NULL), WEFT_OK);
    int count = 0;
    for (const cJSON *text = root->child; text; text = text->next, count++) {
        static uint8_t bytes[8192];
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(text, "name"));
        size_t size = from_hex(cJSON_GetStringValue(cJSON_GetObjectItem(text, "utf8")), bytes);
        const cJSON *expected = cJSON_GetObjectItem(text, "tokens")->child;
        struct token_list list = must_encode(tokenizer, bytes, size);
        size_t i = 0;
        for (; expected && i < list.count; expected = expected->next, i++)
            if (expected->valueint != list.tokens[i])
                fail_msg("%s: token %zu is %d, but GPT-2's is %d", name, i, list.tokens[i], expected->valueint);
        if (expected || i < list.count)
            fail_msg("%s: %zu tokens, and GPT-2 has %s", name, list.count, expected ? "more" : "fewer");
        must_decode(tokenizer, &list, bytes, size);
        token_list_free(&list);
    }
    assert_true(count > 40);
    cJSON_Delete(root);
    tokenizer_close(tokenizer);
}

/* ---- splitting ---- */

/* The pre-tokens of a text, with "|" between them. */
static void must_split(const char *text, size_t size, const char *expected)
{
    struct pretokens *splitter;
    const uint8_t *bytes;
    size_t length, used = 0;
    char split[256] = "";
    assert_int_equal(pretokens_open(NULL, &splitter, NULL), WEFT_OK);
    assert_int_equal(pretokens_begin(splitter, text, size, NULL), WEFT_OK);
    while (pretokens_next(splitter, &bytes, &length, NULL) == WEFT_OK && length > 0) {
        if (used)
            split[used++] = '|';
        memcpy(split + used, bytes, length);
        used += length;
    }
    split[used] = '\0';
    assert_string_equal(split, expected);
    pretokens_close(splitter);
}
#define SPLIT(text, expected) must_split(text, sizeof text - 1, expected)

static void text_is_split_as_the_pattern_says(void **state)
{
    SPLIT("", "");
    SPLIT("It's 2 o'clock, we'll  go!", "It|'s| 2| o|'|clock|,| we|'ll| | go|!");
    SPLIT("a\n\n b", "a|\n\n| b");
    SPLIT("a \n", "a| \n");
    SPLIT("caf\u00e9 \u4e16\u754c\u0663\u0664 \u00bd", "caf\u00e9| \u4e16\u754c|\u0663\u0664| \u00bd");
    SPLIT("x\u2003\u3000y\xc2\x85z", "x|\u2003|\u3000|y|\xc2\x85|z"); /* Unicode's white space */
    SPLIT("x\u180ey\ufeffz", "x|\u180e|y|\ufeff|z");                  /* and what is not white space */
}

static void bytes_that_are_no_utf8_are_signs(void **state)
{
    SPLIT("a\xff\xfe b", "a|\xff\xfe| b");
    SPLIT("a \xc3", "a| \xc3");                          /* cut off */
    SPLIT("a\xc0\xafz", "a|\xc0\xaf|z");                 /* a longer form than needed */
    SPLIT("a\xed\xa0\x80z", "a|\xed\xa0\x80|z");         /* half of a surrogate pair */
    SPLIT("a\xf4\x90\x80\x80z", "a|\xf4\x90\x80\x80|z"); /* beyond Unicode */
    SPLIT("\xe4\xb8\xe4\xb8\x96!\x80", "\xe4\xb8|\xe4\xb8\x96|!\x80");
    SPLIT("'\xff"
          "s 's",
          "'\xff|s| '|s");
}

/* Pieces give the same pre-tokens as the whole. */
static void a_long_text_may_be_cut_into_pieces(void **state)
{
    static const char *const parts[] = {"word ", "\n",       "\n\n", " ",       "end.\nNext",
                                        "\r\n",  "\u00a0\n", "it's", "\n\u3000"};
    size_t size = 0, room = 5 << 20;
    char *text = malloc(room);
    for (uint64_t i = 0; size + 16 < room; i++) {
        const char *part = parts[random_below(3, i, sizeof parts / sizeof *parts)];
        memcpy(text + size, part, strlen(part));
        size += strlen(part);
    }
    struct pretokens *whole, *pieced;
    assert_int_equal(pretokens_open(NULL, &whole, NULL), WEFT_OK);
    assert_int_equal(pretokens_open(NULL, &pieced, NULL), WEFT_OK);
    assert_int_equal(pretokens_begin(whole, text, size, NULL), WEFT_OK);
    struct text_pieces pieces = {.text = (const uint8_t *)text, .size = size};
    struct text_piece piece;
    int count = 0;
    for (; text_pieces_next(&pieces, &piece); count++) {
        const uint8_t *a, *b;
        size_t a_size, b_size;
        assert_false(piece.end_of_text);
        assert_int_equal(pretokens_begin(pieced, piece.bytes, piece.size, NULL), WEFT_OK);
        while (pretokens_next(pieced, &b, &b_size, NULL) == WEFT_OK && b_size > 0) {
            assert_int_equal(pretokens_next(whole, &a, &a_size, NULL), WEFT_OK);
            assert_ptr_equal(a, b);
            assert_int_equal(a_size, b_size);
        }
    }
    assert_true(count >= 4);
    pretokens_close(whole);
    pretokens_close(pieced);
    free(text);
}

static void a_mark_ends_a_document(void **state)
{
    static const char text[] = "<|endoftext|>one<|endoftext|><|endoftext|>two <|endoftext";
    struct text_pieces pieces = {.text = (const uint8_t *)text, .size = sizeof text - 1};
    struct text_piece piece;
    static const struct {
        const char *text;
        bool end;
    } expected[] = {{"", true}, {"one", true}, {"", true}, {"two <|endoftext", false}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(text_pieces_next(&pieces, &piece));
        assert_int_equal(piece.size, strlen(expected[i].text));
        assert_memory_equal(piece.bytes, expected[i].text, piece.size);
        assert_int_equal(piece.end_of_text, expected[i].end);
    }
    assert_false(text_pieces_next(&pieces, &piece));
}

/* ---- merging ---- */

/* The algorithm as published: while any pair of the word is in the list, merge all of the earliest, from left to right.
 */
static size_t merge_plainly(const struct tokenizer *tokenizer, const uint8_t *bytes, size_t size, uint32_t *word)
{
    for (size_t i = 0; i < size; i++)
        word[i] = tokenizer->byte_tokens[bytes[i]];
    for (;;) {
        uint32_t best = TOKEN_NONE;
        for (size_t i = 0; i + 1 < size; i++) {
            uint32_t rank = tokenizer_find_merge(tokenizer, word[i], word[i + 1]);
            best = rank < best ? rank : best;
        }
        if (best == TOKEN_NONE)
            return size;
        const struct merge *merge = &tokenizer->merges[best];
        size_t written = 0;
        for (size_t i = 0; i < size; i++) {
            bool here = i + 1 < size && word[i] == merge->left && word[i + 1] == merge->right;
            word[written++] = here ? merge->token : word[i];
            i += here;
        }
        size = written;
    }
}

/* A tokenizer of random merges, in any order: later tokens may come of pairs that are earlier in the list. */
static struct tokenizer *random_tokenizer(uint64_t seed)
{
    struct tokenizer *tokenizer;
    uint8_t order[256];
    assert_int_equal(tokenizer_new(TOKENIZER_BYTE_PAIRS, &tokenizer, NULL), WEFT_OK);
    byte_alphabet_order(order);
    for (int i = 0; i < 256; i++)
        tokenizer_add(tokenizer, &order[i], 1, NULL);
    assert_int_equal(tokenizer_find_bytes(tokenizer), -1);
    struct {
        uint32_t left, right, token;
    } merges[60];
    uint32_t letters[] = {tokenizer->byte_tokens['a'], tokenizer->byte_tokens['b'], tokenizer->byte_tokens['c']};
    uint32_t count = 0;
    for (uint64_t i = 0; count < 60; i++) {
        uint32_t pick = (uint32_t)random_below(seed, 2 * i, 3 + count),
                 other = (uint32_t)random_below(seed, 2 * i + 1, 3 + count);
        uint32_t left = pick < 3 ? letters[pick] : merges[pick - 3].token;
        uint32_t right = other < 3 ? letters[other] : merges[other - 3].token;
        uint8_t bytes[512];
        size_t left_size, right_size;
        const uint8_t *from = string_set_get(&tokenizer->tokens, left, &left_size);
        memcpy(bytes, from, left_size);
        from = string_set_get(&tokenizer->tokens, right, &right_size);
        memcpy(bytes + left_size, from, right_size);
        bool is_double = left_size + right_size > 12;
        for (uint32_t j = 0; j < count; j++)
            is_double |= merges[j].left == left && merges[j].right == right;
        if (is_double)
            continue;
        uint32_t token = tokenizer_find(tokenizer, bytes, left_size + right_size);
        if (token == TOKEN_NONE) {
            token = tokenizer_vocabulary(tokenizer);
            tokenizer_add(tokenizer, bytes, left_size + right_size, NULL);
        }
        merges[count].left = left;
        merges[count].right = right;
        merges[count++].token = token;
    }
    for (uint32_t i = count - 1; i > 0; i--) { /* shuffled */
        uint32_t j = (uint32_t)random_below(seed + 1, i, i + 1);
        uint32_t left = merges[i].left, right = merges[i].right, token = merges[i].token;
        merges[i] = merges[j];
        merges[j].left = left;
        merges[j].right = right;
        merges[j].token = token;
    }
    for (uint32_t i = 0; i < count; i++)
        tokenizer_add_merge(tokenizer, merges[i].left, merges[i].right, merges[i].token, NULL);
    return tokenizer;
}

static void merging_follows_the_published_algorithm(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct tokenizer *tokenizer = random_tokenizer(7 * seed);
        uint8_t word[400];
        uint32_t expected[400];
        for (uint64_t i = 0; i < 20; i++) {
            size_t size = 1 + (size_t)random_below(seed, i, i < 15 ? 20 : 400);
            for (size_t j = 0; j < size; j++)
                word[j] = (uint8_t)('a' + random_below(seed + 99, 1000 * i + j, i % 3 + 1));
            size_t count = merge_plainly(tokenizer, word, size, expected);
            struct token_list list = must_encode(tokenizer, word, size);
            assert_int_equal(list.count, count);
            for (size_t j = 0; j < count; j++)
                assert_int_equal(list.tokens[j], expected[j]);
            token_list_free(&list);
        }
        tokenizer_close(tokenizer);
    }
}

/* A word of a million letters is no slower, a letter, than one of ten: this would take hours. */
static void a_very_long_word_is_merged_too(void **state)
{
    struct tokenizer *tokenizer = random_tokenizer(1);
    size_t size = 1000000;
    uint8_t *word = malloc(size);
    for (size_t i = 0; i < size; i++)
        word[i] = (uint8_t)('a' + random_below(5, i, 3));
    struct token_list list = must_encode(tokenizer, word, size);
    assert_true(list.count < size);
    must_decode(tokenizer, &list, word, size);
    token_list_free(&list);
    free(word);
    tokenizer_close(tokenizer);
}

static void any_bytes_come_back(void **state)
{
    struct tokenizer *tokenizer = random_tokenizer(3);
    struct encoder *encoder;
    assert_int_equal(encoder_open(tokenizer, &encoder, NULL), WEFT_OK);
    for (uint64_t i = 0; i < 300; i++) {
        uint8_t bytes[300];
        size_t size = (size_t)random_below(11, i, sizeof bytes);
        for (size_t j = 0; j < size; j++)
            bytes[j] = (uint8_t)random_below(12, 1000 * i + j, 256);
        struct token_list list = {0};
        assert_int_equal(encoder_encode(encoder, bytes, size, &list, NULL), WEFT_OK); /* one encoder for all */
        must_decode(tokenizer, &list, bytes, size);
        token_list_free(&list);
    }
    encoder_close(encoder);
    tokenizer_close(tokenizer);
}

static void a_number_that_is_no_token_is_no_text(void **state)
{
    struct tokenizer *tokenizer = random_tokenizer(3);
    size_t size = 1;
    tokenizer_decode(tokenizer, (int32_t)tokenizer_vocabulary(tokenizer), &size);
    assert_int_equal(size, 0);
    tokenizer_decode(tokenizer, -1, &size);
    assert_int_equal(size, 0);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tokens_are_those_of_gpt2),
        cmocka_unit_test(text_is_split_as_the_pattern_says),
        cmocka_unit_test(bytes_that_are_no_utf8_are_signs),
        cmocka_unit_test(a_long_text_may_be_cut_into_pieces),
        cmocka_unit_test(a_mark_ends_a_document),
        cmocka_unit_test(merging_follows_the_published_algorithm),
        cmocka_unit_test(a_very_long_word_is_merged_too),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(a_number_that_is_no_token_is_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
