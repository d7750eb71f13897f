/* SPDX-License-Identifier: Apache-2.0 */
/* Labeled texts: rows and classes are those of the lines, splits by name and at random, and every fault has a message
 * with its place. */
#include "training/data/bert/labeled.h"
#include "wordpiece_support.h"

#define SEQUENCE 12

static const char *directory;
static struct tokenizer *tokenizer;

struct rows {
    int32_t tokens[100][SEQUENCE], segments[100][SEQUENCE], lengths[100], labels[100];
};

static const char *put(const char *name, const char *text)
{
    return temporary_file(directory, name, text, strlen(text));
}

static struct sample_source *must_open(const char *const *paths, size_t count, uint64_t seed)
{
    const struct bert_data_options options = {.sequence = SEQUENCE, .seed = seed, .tokenizer = tokenizer};
    struct sample_source *source = NULL;
    struct error error = {0};
    if (labeled_open(paths, count, &options, &source, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return source;
}

static void must_read(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t samples,
                      struct rows *rows)
{
    const struct model_arrays arrays = {
        .tokens = rows->tokens[0], .segments = rows->segments[0], .lengths = rows->lengths, .labels = rows->labels};
    assert_int_equal(sample_source_read(source, split, first, samples, &arrays, NULL), WEFT_OK);
}

/* A row is these tokens, written as the tokenizer writes them, with padding after them, and its second text begins at
 * token `second`, 0: there is none. */
static void must_be(const struct rows *rows, int sample, const char *expected, int second, int32_t label)
{
    char text[256] = "";
    size_t used = 0, size;
    const int32_t length = rows->lengths[sample];
    for (int i = 0; i < SEQUENCE; i++) {
        const uint8_t *bytes = tokenizer_decode(tokenizer, rows->tokens[sample][i], &size);
        if (i < length)
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", (int)size, (const char *)bytes);
        else
            assert_int_equal(rows->tokens[sample][i], 0);
        assert_int_equal(rows->segments[sample][i], second > 0 && i >= second && i < length);
    }
    assert_string_equal(text, expected);
    assert_int_equal(rows->labels[sample], label);
}

static void rows_are_those_of_the_lines(void **state)
{
    static struct rows rows;
    const char *paths[] = {put("train.tsv", "yes\ta b\nNo!\tc\td e\n"),
                           put("val.tsv", "No!\tThe\r\nyes\tabcdefghijklm\n\nyes\tabcdefg\th i\n"
                                          "yes\ta b\tabcdefghijk\nNo!\tabcdefghijk\tlmnopqrstuv")};
    struct sample_source *source = must_open(paths, 2, 1);
    assert_int_equal(labeled_classes(source), 2);
    assert_string_equal(labeled_class_name(source, 0), "No!");
    assert_string_equal(labeled_class_name(source, 1), "yes");
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 2);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 5);
    must_read(source, DATASET_HELD_OUT, 5, 5, &rows); /* from the start again */
    must_be(&rows, 0, " [CLS] the [SEP]", 0, 0);
    must_be(&rows, 1, " [CLS] abcdefghij [SEP]", 0, 1);
    must_be(&rows, 2, " [CLS] abcdefg [SEP] h i [SEP]", 9, 1);
    must_be(&rows, 3, " [CLS] a b [SEP] abcdefg [SEP]", 4, 1);
    must_be(&rows, 4, " [CLS] abcde [SEP] lmno [SEP]", 7, 0);
    assert_true(sample_source_bytes(source) >= 7 * 20); /* texts are in memory */
    sample_source_close(source);
    source = must_open(paths, 1, 1); /* val.tsv beside train.tsv is found */
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 5);
    sample_source_close(source);
}

/* Without texts to train on, classes are those of the held-out texts. */
static void files_called_val_are_held_out_data_only(void **state)
{
    static struct rows rows;
    const char *path = put("my.test.tsv", "b\tx\na\ty\n");
    struct sample_source *source = must_open(&path, 1, 1);
    assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 0);
    assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 2);
    assert_string_equal(labeled_class_name(source, 0), "a");
    must_read(source, DATASET_HELD_OUT, 0, 2, &rows);
    must_be(&rows, 0, " [CLS] x [SEP]", 0, 1);
    must_be(&rows, 1, " [CLS] y [SEP]", 0, 0);
    sample_source_close(source);
}

/* 60 texts without names: an epoch has each of 54 once, in another order than the next, and the other 6 are held out. */
static void a_random_tenth_is_held_out(void **state)
{
    static struct rows rows, again;
    char text[4096], seen[256] = {0};
    size_t used = 0;
    for (int i = 0; i < 60; i++)
        used += (size_t)sprintf(text + used, "%s\t%c%c\n", i % 2 ? "odd" : "even", 'a' + i / 8, 'a' + i % 8);
    const char *path = put("all.txt", text);
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct sample_source *source = must_open(&path, 1, seed);
        memset(seen, 0, sizeof seen);
        assert_int_equal(sample_source_samples(source, DATASET_TRAIN), 54);
        assert_int_equal(sample_source_samples(source, DATASET_HELD_OUT), 6);
        must_read(source, DATASET_TRAIN, 0, 54, &rows);
        for (int i = 0; i < 54; i++) {
            const int32_t one = (rows.tokens[i][1] - 5) / 2, other = (rows.tokens[i][2] - 5) / 2;
            assert_int_equal(seen[one * 8 + other]++, 0);
            assert_int_equal(rows.labels[i], other % 2);
        }
        must_read(source, DATASET_TRAIN, 54, 54, &again);
        assert_memory_not_equal(rows.tokens, again.tokens, 54 * sizeof rows.tokens[0]);
        for (int i = 53; i >= 0; i--) {
            must_read(source, DATASET_TRAIN, (uint64_t)i, 1, &again);
            assert_memory_equal(rows.tokens[i], again.tokens[0], sizeof again.tokens[0]);
            assert_int_equal(rows.labels[i], again.labels[0]);
        }
        must_read(source, DATASET_HELD_OUT, 0, 6, &rows);
        for (int i = 0; i < 6; i++)
            assert_int_equal(seen[(rows.tokens[i][1] - 5) / 2 * 8 + (rows.tokens[i][2] - 5) / 2]++, 0);
        sample_source_close(source);
    }
}

static void the_identity_is_that_of_texts_and_labels(void **state)
{
    static const char *const texts[][2] = {{"a.tsv", "x\ta\ny\tb\n"},
                                           {"b.tsv", "x\ta\ny\tb\n"},
                                           {"c.tsv", "x\ta\ny\tc\n"},
                                           {"d.tsv", "y\ta\nx\tb\n"},
                                           {"e.tsv", "x\ta\nz\tb\n"}};
    struct dataset_identity identities[5];
    for (int i = 0; i < 5; i++) {
        const char *paths[] = {put(texts[i][0], texts[i][1]),
                               put("the.test.tsv", i == 4 ? "x\tq\nz\tr" : "x\tq\ny\tr")};
        struct sample_source *source = must_open(paths, 2, 1);
        assert_int_equal(sample_source_identify(source, &identities[i], NULL), WEFT_OK);
        sample_source_close(source);
    }
    assert_int_equal(identities[0].hash, identities[1].hash);
    for (int i = 2; i < 5; i++)
        assert_true(identities[i].hash != identities[0].hash);
}

/* Nor does it depend on where the sequence cuts texts. */
static void the_identity_is_that_of_whole_texts(void **state)
{
    static const char *const ends[] = {"abcdefghijklm", "abcdefghijklz"};
    struct dataset_identity identities[3];
    for (int i = 0; i < 3; i++) {
        char text[128];
        snprintf(text, sizeof text, "x\t%s\ny\tb\tc\n", ends[i == 2]);
        const char *paths[] = {put("whole.tsv", text), put("whole.test.tsv", "x\tq\ny\tr")};
        const struct bert_data_options options = {.sequence = i == 1 ? 64 : SEQUENCE, .tokenizer = tokenizer};
        struct sample_source *source;
        assert_int_equal(labeled_open(paths, 2, &options, &source, NULL), WEFT_OK);
        assert_int_equal(sample_source_identify(source, &identities[i], NULL), WEFT_OK);
        sample_source_close(source);
    }
    assert_int_equal(identities[0].hash, identities[1].hash);
    assert_int_equal(identities[0].tokens, identities[1].tokens);
    assert_true(identities[0].hash != identities[2].hash);
}

static void must_fail(const char *train, const char *held_out, const char *words)
{
    const struct bert_data_options options = {.sequence = SEQUENCE, .tokenizer = tokenizer};
    const char *paths[] = {put("wrong.tsv", train), held_out ? put("wrong.val.tsv", held_out) : NULL};
    struct sample_source *source = NULL;
    struct error error = {0};
    assert_int_equal(labeled_open(paths, held_out ? 2 : 1, &options, &source, &error), WEFT_ERROR_DATA);
    assert_null(source);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
}

static void faults_have_messages(void **state)
{
    must_fail("a\tx\n\nb y\n", NULL, "line 3 of");
    must_fail("a\tx\nb y\n", NULL, "has 0 tabs");
    must_fail("a\tx\nb\tx\ty\tz\n", NULL, "line 2 of");
    must_fail("a\tx\n\ty\n", NULL, "has an empty label");
    must_fail("a\tx\nb\t \n", NULL, "has an empty text");
    must_fail("a\tx\nb\ty\t\n", NULL, "has an empty second text");
    must_fail("", NULL, "is empty");
    must_fail("\n\n", NULL, "has 0 labeled texts");
    must_fail("a\tx\n", NULL, "has 0 labeled texts to train on and 1 to hold out");
    must_fail("a\tx\na\ty\n", NULL, "have the label 'a'");
    must_fail("a\tx\na\ty\n", "a\tz\n", "have the label 'a'");
    must_fail("a\tx\nb\ty\n", "a\tz\n", "the class 'b'");
    must_fail("a\tx\nb\ty\n", "a\tz\n", "that are held out");
    must_fail("a\tx\nb\ty\n", "a\tz\nb\tw\nc\tv\n", "the class 'c'");
    must_fail("a\tx\nb\ty\n", "a\tz\nb\tw\nc\tv\n", "missing among the texts to train on");
    static char many[LABELED_CLASSES_MOST * 16 + 64];
    size_t used = 0;
    for (int i = 0; i <= LABELED_CLASSES_MOST; i++)
        used += (size_t)sprintf(many + used, "label %d\tx\n", i);
    must_fail(many, NULL, "line 10001 of");

    const char *path = put("good.tsv", "a\tx\nb\ty\n");
    struct bert_data_options options = {.sequence = 7, .tokenizer = tokenizer};
    struct sample_source *source;
    struct error error = {0};
    assert_int_equal(labeled_open(&path, 1, &options, &source, &error), WEFT_ERROR_ARGUMENT);
    options = (struct bert_data_options){.sequence = 8, .tokenizer = tokenizer, .vocabulary = 56};
    assert_int_equal(labeled_open(&path, 1, &options, &source, NULL), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "must be from 8"));
}

static int set_up(void **state)
{
    directory = temporary_directory();
    tokenizer = open_letters(directory, "");
    return 0;
}

static int clean_up(void **state)
{
    tokenizer_close(tokenizer);
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, clean_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_are_those_of_the_lines),         TEST(files_called_val_are_held_out_data_only),
        TEST(a_random_tenth_is_held_out),          TEST(the_identity_is_that_of_texts_and_labels),
        TEST(the_identity_is_that_of_whole_texts), TEST(faults_have_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
