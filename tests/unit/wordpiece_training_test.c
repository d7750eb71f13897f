/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece learnt from a text is what the plain algorithm gives, and does not depend on the order of the texts. */
#include "base/random.h"
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/tables.h"
#include "training/data/tokenizer/train.h"
#include "wordpiece_support.h"

static const struct wordpiece_rules uncased = {.lower_case = true, .strip_accents = true};

static struct tokenizer *learn(const char *const *texts, size_t count, uint32_t vocabulary)
{
    struct error error = {0};
    struct tokenizer_training *training;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_training_open(&uncased, &training, &error), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tokenizer_training_read(training, texts[i], strlen(texts[i]), &error), WEFT_OK);
    if (tokenizer_training_finish(training, vocabulary, NULL, &tokenizer, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    tokenizer_training_close(training);
    return tokenizer;
}

static void must_have_files(const struct tokenizer *tokenizer, const char *vocabulary)
{
    struct tokenizer_file files[TOKENIZER_FILES];
    assert_int_equal(tokenizer_format(tokenizer, files, NULL), WEFT_OK);
    assert_string_equal(files[0].text, vocabulary);
    assert_string_equal(files[0].path, TOKENIZER_WORDPIECES);
    tokenizer_files_free(files);
}

static void frequent_pairs_are_merged_first(void **state)
{
    static const char *const text[] = {"Hug hug HUG hug hug hug hug hug hug hug pug pug pug pug pug "
                                       "pun pun pun pun pun pun pun pun pun pun pun pun bun bun bun bun "
                                       "hugs hugs hugs h\u00fcgs hugs"};
    struct tokenizer *tokenizer = learn(text, 1, 257);
    /* Counts: ug 20, un 16, hu 15, pu 17, then hug 15, pun 12, pug 5, hugs 5, bun 4. */
    must_have_files(tokenizer, WORDPIECE_SPECIALS "b\nh\np\n##g\n##n\n##s\n##u\n"
                                                  "##ug\n##un\nhug\npun\npug\nhugs\nbun\n");
    assert_int_equal(tokenizer_merges(tokenizer), 0);
    struct token_list list = must_encode(tokenizer, "hugs pugs bug", 13);
    must_decode(tokenizer, &list, " hugs pugs bug", 14);
    assert_int_equal(list.count, 5);
    token_list_free(&list);
    tokenizer_close(tokenizer);
}

static void punctuation_and_ideographs_are_never_merged(void **state)
{
    static const char *const text[] = {"a.b a.b a.b \u4e2d\u6587\u4e2d\u6587 [x] [x] [x]"};
    struct tokenizer *tokenizer = learn(text, 1, 300);
    must_have_files(tokenizer, WORDPIECE_SPECIALS ".\n[\n]\na\nb\nx\n\u4e2d\n\u6587\n");
    tokenizer_close(tokenizer);
}

/* The rarest characters are left out, and the words with them. */
static void alphabets_are_limited(void **state)
{
    static char text[40000];
    size_t used = 0;
    for (int i = 0; i < 400; i++) { /* character 400 - i occurs i times or more */
        const uint32_t character = 0x4e00 + (uint32_t)(400 - i);
        for (int j = 0; j < (i < 300 ? 1 : 3); j++)
            used += (size_t)sprintf(text + used, "%c%c%c ", 0xe0 | (int)(character >> 12),
                                    0x80 | (int)(character >> 6 & 63), 0x80 | (int)(character & 63));
    }
    struct tokenizer *tokenizer = learn((const char *const[]){text}, 1, 257);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 5 + 126);
    for (int i = 0; i < 126; i++) { /* the 100 frequent ones, and the first 26 of the others */
        char expected[8];
        const uint32_t character = 0x4e00 + (i < 100 ? 1 + (uint32_t)i : 101 + (uint32_t)(i - 100));
        size_t size;
        snprintf(expected, sizeof expected, " %c%c%c", 0xe0 | (int)(character >> 12), 0x80 | (int)(character >> 6 & 63),
                 0x80 | (int)(character & 63));
        assert_memory_equal(tokenizer_decode(tokenizer, 5 + i, &size), expected, 4);
    }
    tokenizer_close(tokenizer);
}

/* ---- the plain algorithm: count all pairs of all words, merge the best, begin again ---- */

#define TEXT_MOST 20000
#define PAIRS     512 /* tokens squared: a table of all pairs */
#define BREAK     UINT32_MAX

static void learn_plainly(const char *text, struct tokenizer *tokenizer, uint32_t vocabulary)
{
    static uint32_t symbols[2 * TEXT_MOST];
    static uint32_t counts[PAIRS][PAIRS];
    struct pretokens *splitter;
    const uint8_t *bytes;
    size_t length, count = 0;
    assert_int_equal(pretokens_open(&uncased, &splitter, NULL), WEFT_OK);
    assert_int_equal(pretokens_begin(splitter, text, strlen(text), NULL), WEFT_OK);
    while (pretokens_next(splitter, &bytes, &length, NULL) == WEFT_OK && length > 0) {
        symbols[count++] = tokenizer_find(tokenizer, bytes, 2);
        for (size_t i = 2; i < length; i++)
            symbols[count++] = tokenizer_find(tokenizer, bytes + i, 1);
        symbols[count++] = BREAK;
    }
    pretokens_close(splitter);
    while (tokenizer_vocabulary(tokenizer) < vocabulary) {
        const uint32_t tokens = tokenizer_vocabulary(tokenizer);
        uint32_t left = 0, right = 0;
        memset(counts, 0, sizeof counts);
        for (size_t i = 0; i + 1 < count; i++)
            if (symbols[i] != BREAK && symbols[i + 1] != BREAK)
                counts[symbols[i]][symbols[i + 1]]++;
        for (uint32_t i = 0; i < tokens; i++)
            for (uint32_t j = 0; j < tokens; j++)
                if (counts[i][j] > counts[left][right])
                    left = i, right = j;
        if (counts[left][right] < 2)
            break;
        uint8_t joined[512];
        size_t left_size, right_size;
        const uint8_t *part = string_set_get(&tokenizer->tokens, left, &left_size);
        memcpy(joined, part, left_size);
        part = string_set_get(&tokenizer->tokens, right, &right_size);
        memcpy(joined + left_size, part, right_size);
        assert_int_equal(tokenizer_add(tokenizer, joined, left_size + right_size, NULL), WEFT_OK);
        size_t written = 0;
        for (size_t i = 0; i < count; i++) {
            const bool merges = i + 1 < count && symbols[i] == left && symbols[i + 1] == right;
            symbols[written++] = merges ? tokens : symbols[i];
            i += merges;
        }
        count = written;
    }
}

static void the_plain_algorithm_gives_the_same(void **state)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        char text[6000];
        size_t used = 0;
        for (uint64_t i = 0; used + 16 < sizeof text; i++) { /* words of 1 to 8 letters out of 5, many the same */
            const uint64_t letters = 1 + random_below(seed, i, 8);
            const uint64_t word = random_below(seed + 100, i, 60);
            for (uint64_t j = 0; j < letters; j++)
                text[used++] = (char)('a' + random_below(word, j, 5));
            text[used++] = random_below(seed + 200, i, 10) ? ' ' : '.';
        }
        text[used] = '\0';
        struct tokenizer *tokenizer = learn((const char *const[]){text}, 1, 300), *plain;
        assert_int_equal(tokenizer_new(TOKENIZER_WORDPIECE, &plain, NULL), WEFT_OK);
        for (uint32_t i = 0; i < 5 + 11; i++) { /* the special tokens and the alphabet */
            size_t size;
            const uint8_t *bytes = string_set_get(&tokenizer->tokens, i, &size);
            assert_true(i < 5 || size == 1 + (bytes[0] == ' '));
            tokenizer_add(plain, bytes, size, NULL);
        }
        learn_plainly(text, plain, 300);
        assert_int_equal(tokenizer->tokens.byte_count, plain->tokens.byte_count);
        assert_memory_equal(tokenizer->tokens.bytes, plain->tokens.bytes, plain->tokens.byte_count);
        /* Divided and in another order. */
        char *space = strchr(text + used / 2, ' ');
        *space = '\0';
        struct tokenizer *other = learn((const char *const[]){space + 1, text}, 2, 300);
        assert_int_equal(tokenizer->tokens.byte_count, other->tokens.byte_count);
        assert_memory_equal(tokenizer->tokens.bytes, other->tokens.bytes, other->tokens.byte_count);
        tokenizer_close(other);
        tokenizer_close(plain);
        tokenizer_close(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequent_pairs_are_merged_first),
        cmocka_unit_test(punctuation_and_ideographs_are_never_merged),
        cmocka_unit_test(alphabets_are_limited),
        cmocka_unit_test(the_plain_algorithm_gives_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
