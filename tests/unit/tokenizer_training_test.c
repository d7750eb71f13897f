/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer learnt from a text is what the plain algorithm gives, ties included, and does not depend on the order of
 * the texts. */
#include "base/random.h"
#include "tokenizer_support.h"
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/tables.h"
#include "training/data/tokenizer/train.h"

static struct tokenizer *learn(const char *const *texts, size_t count, uint32_t vocabulary)
{
    struct error error = {0};
    struct tokenizer_training *training;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_training_open(NULL, &training, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tokenizer_training_read(training, texts[i], strlen(texts[i]), &error), WEFT_OK);
    if (tokenizer_training_finish(training, vocabulary, NULL, &tokenizer, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    tokenizer_training_close(training);
    return tokenizer;
}

static void must_be_equal(const struct tokenizer *a, const struct tokenizer *b)
{
    assert_int_equal(a->tokens.count, b->tokens.count);
    assert_int_equal(a->tokens.byte_count, b->tokens.byte_count);
    assert_memory_equal(a->tokens.bytes, b->tokens.bytes, a->tokens.byte_count);
    assert_int_equal(a->merge_count, b->merge_count);
    assert_memory_equal(a->merges, b->merges, a->merge_count * sizeof *a->merges);
}

/* ---- the plain algorithm: count all pairs of the whole text, merge the best, begin again ---- */

#define TEXT_MOST 20000
#define PAIRS     1024 /* tokens squared: a table of all pairs */
#define BREAK     UINT32_MAX

static struct tokenizer *learn_plainly(const char *text, uint32_t vocabulary)
{
    static uint32_t symbols[2 * TEXT_MOST];
    static uint32_t counts[PAIRS][PAIRS];
    struct pretokens *splitter;
    struct tokenizer *tokenizer;
    const uint8_t *bytes;
    size_t length, count = 0;
    uint8_t order[256];
    assert_true(vocabulary < PAIRS && strlen(text) < TEXT_MOST);
    assert_int_equal(tokenizer_new(TOKENIZER_BYTE_PAIRS, &tokenizer, NULL), WEFT_OK);
    byte_alphabet_order(order);
    for (int i = 0; i < 256; i++)
        tokenizer_add(tokenizer, &order[i], 1, NULL);
    tokenizer_find_bytes(tokenizer);
    assert_int_equal(pretokens_open(NULL, &splitter, NULL), WEFT_OK);
    assert_int_equal(pretokens_begin(splitter, text, strlen(text), NULL), WEFT_OK);
    while (pretokens_next(splitter, &bytes, &length, NULL) == WEFT_OK && length > 0) {
        for (size_t i = 0; i < length; i++)
            symbols[count++] = tokenizer->byte_tokens[bytes[i]];
        symbols[count++] = BREAK;
    }
    pretokens_close(splitter);
    while (tokenizer_vocabulary(tokenizer) < vocabulary - 1) {
        memset(counts, 0, tokenizer_vocabulary(tokenizer) * sizeof *counts);
        for (size_t i = 0; i + 1 < count; i++)
            if (symbols[i] != BREAK && symbols[i + 1] != BREAK)
                counts[symbols[i]][symbols[i + 1]]++;
        uint32_t left = 0, right = 0;
        uint32_t tokens = tokenizer_vocabulary(tokenizer);
        for (uint32_t i = 0; i < tokens; i++)
            for (uint32_t j = 0; j < tokens; j++)
                if (counts[i][j] > counts[left][right])
                    left = i, right = j;
        if (counts[left][right] < 2)
            break;
        uint8_t joined[512];
        size_t left_size, right_size;
        const uint8_t *other = string_set_get(&tokenizer->tokens, left, &left_size);
        memcpy(joined, other, left_size);
        other = string_set_get(&tokenizer->tokens, right, &right_size);
        memcpy(joined + left_size, other, right_size);
        uint32_t token = tokenizer_vocabulary(tokenizer);
        assert_int_equal(tokenizer_find(tokenizer, joined, left_size + right_size), TOKEN_NONE);
        tokenizer_add(tokenizer, joined, left_size + right_size, NULL);
        tokenizer_add_merge(tokenizer, left, right, token, NULL);
        size_t written = 0;
        for (size_t i = 0; i < count; i++) {
            bool here = i + 1 < count && symbols[i] == left && symbols[i + 1] == right;
            symbols[written++] = here ? token : symbols[i];
            i += here;
        }
        count = written;
    }
    tokenizer_add(tokenizer, TOKENIZER_END_OF_TEXT, strlen(TOKENIZER_END_OF_TEXT), NULL);
    return tokenizer;
}

static void it_is_what_the_plain_algorithm_gives(void **state)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        static char text[TEXT_MOST];
        size_t size = 0;
        unsigned letters = 2 + (unsigned)seed % 4;
        while (size < 3000) { /* few letters, many ties, long runs of one letter */
            uint64_t length = 1 + random_below(seed, size, 12);
            for (uint64_t i = 0; i < length; i++, size++)
                text[size] = (char)('a' + random_below(seed + 50, size, letters));
            text[size] = random_below(seed + 70, size, 5) ? ' ' : '\n';
            size++;
        }
        text[size] = '\0';
        struct tokenizer *fast = learn((const char *const[]){text}, 1, 400), *plain = learn_plainly(text, 400);
        must_be_equal(fast, plain);
        tokenizer_close(fast);
        tokenizer_close(plain);
    }
}

static void ties_go_to_the_lower_tokens(void **state)
{
    struct tokenizer *tokenizer = learn((const char *const[]){"zy zy\nba ba\nbc bc\n"}, 1, 258);
    size_t size;
    assert_int_equal(tokenizer_vocabulary(tokenizer), 258);
    const uint8_t *token = tokenizer_decode(tokenizer, 256, &size);
    assert_int_equal(size, 2);
    assert_memory_equal(token, "ba", 2);
    tokenizer_close(tokenizer);
}

static void the_order_of_the_texts_does_not_matter(void **state)
{
    static const char *const texts[] = {"to be or not to be\n", "that is the question\n", "the be thee\n"};
    static const char *const turned[] = {"the be thee\n", "to be or not to be\nthat is the question\n"};
    struct tokenizer *a = learn(texts, 3, 280), *b = learn(turned, 2, 280);
    must_be_equal(a, b);
    tokenizer_close(a);
    tokenizer_close(b);
}

static void a_short_text_gives_fewer_tokens(void **state)
{
    struct tokenizer *tokenizer = learn((const char *const[]){"abab"}, 1, 5000);
    assert_int_equal(tokenizer_merges(tokenizer), 1);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 258);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 257);
    tokenizer_close(tokenizer);
    tokenizer = learn((const char *const[]){""}, 1, 5000);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 257);
    tokenizer_close(tokenizer);
}

static void words_of_any_length_are_learnt_from(void **state)
{
    size_t size = 2000000;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + random_below(9, i, 26));
    text[size] = '\0';
    struct tokenizer *tokenizer = learn((const char *const[]){text}, 1, 300);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 300);
    tokenizer_close(tokenizer);
    memset(text, 'a', size);
    tokenizer = learn((const char *const[]){text}, 1, 1000);
    assert_int_equal(tokenizer_merges(tokenizer), 8); /* up to 256 letters, as long as the pieces that are counted */
    tokenizer_close(tokenizer);
    free(text);
}

static void an_impossible_vocabulary_is_refused(void **state)
{
    struct error error = {0};
    struct tokenizer_training *training;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_training_open(NULL, &training, &error), WEFT_OK);
    assert_int_equal(tokenizer_training_finish(training, 256, NULL, &tokenizer, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "256 tokens"));
    tokenizer_training_close(training);
}

static void it_stops_when_asked(void **state)
{
    struct error error = {0};
    struct tokenizer_training *training;
    struct tokenizer *tokenizer = NULL;
    volatile sig_atomic_t stop = 1;
    assert_int_equal(tokenizer_training_open(NULL, &training, &error), WEFT_OK);
    assert_int_equal(tokenizer_training_read(training, "abab abab", 9, &error), WEFT_OK);
    assert_int_equal(tokenizer_training_finish(training, 300, &stop, &tokenizer, &error), WEFT_ERROR_ABORTED);
    assert_null(tokenizer);
    tokenizer_training_close(training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_the_plain_algorithm_gives),
        cmocka_unit_test(ties_go_to_the_lower_tokens),
        cmocka_unit_test(the_order_of_the_texts_does_not_matter),
        cmocka_unit_test(a_short_text_gives_fewer_tokens),
        cmocka_unit_test(words_of_any_length_are_learnt_from),
        cmocka_unit_test(an_impossible_vocabulary_is_refused),
        cmocka_unit_test(it_stops_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
