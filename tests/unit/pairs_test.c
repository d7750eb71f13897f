/* SPDX-License-Identifier: Apache-2.0 */
/* Samples to pre-train BERT: both texts are what the label says, masked tokens can be restored, the shares are those of
 * BERT, and a sample depends on its number alone. */
#include "training/data/bert/pairs.h"
#include "training/model/inputs.h"
#include "wordpiece_support.h"

#define DOCUMENTS   40
#define HELD_OUT    4 /* a tenth */
#define SENTENCES   12
#define WORDS       5 /* of a sentence */
#define FIRST       5 /* token after the special ones */
#define TOKENS      (DOCUMENTS * SENTENCES * WORDS)
#define SEQUENCE    64
#define PREDICTIONS 10
#define SAMPLES     2000

/* Samples that were read. */
struct rows {
    int32_t tokens[SAMPLES][SEQUENCE], segments[SAMPLES][SEQUENCE], lengths[SAMPLES], labels[SAMPLES];
    int32_t positions[SAMPLES][PREDICTIONS], targets[SAMPLES][PREDICTIONS];
};

static const char *directory;
static struct tokenizer *tokenizer;

/* A text whose words are all different: word w of sentence s of document d is token FIRST + (d S + s) W + w. */
static void write_corpus(const char *name)
{
    static char vocabulary[16 * TOKENS], text[20 * TOKENS];
    size_t used = 0, written = 0;
    for (int i = 0; i < TOKENS; i++) {
        used += (size_t)sprintf(vocabulary + used, "w%d\n", i);
        const char *end = (i + 1) % WORDS ? " " : (i + 1) % (WORDS * SENTENCES) ? "\n" : "\n\n";
        written += (size_t)sprintf(text + written, "w%d%s", i, end);
    }
    write_wordpieces(directory, vocabulary, NULL);
    temporary_file(directory, name, text, written);
}

static struct sample_source *must_open(const char *path, uint64_t sequence, uint64_t seed, bool whole_words)
{
    const struct bert_data_options options = {
        .sequence = sequence, .seed = seed, .tokenizer = tokenizer, .whole_words = whole_words};
    struct sample_source *source = NULL;
    struct error error = {0};
    if (pairs_open(&path, 1, &options, &source, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return source;
}

static void must_read(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t samples,
                      struct rows *rows)
{
    const struct model_arrays arrays = {.tokens = rows->tokens[0],
                                        .segments = rows->segments[0],
                                        .lengths = rows->lengths,
                                        .labels = rows->labels,
                                        .positions = rows->positions[0],
                                        .targets = rows->targets[0]};
    assert_int_equal(sample_source_read(source, split, first, samples, &arrays, NULL), WEFT_OK);
}

static int document_of(int32_t token)
{
    return (token - FIRST) / (SENTENCES * WORDS);
}

/* Put the targets back; returns their number. */
static int restore(struct rows *rows, int sample, int32_t row[SEQUENCE])
{
    int count = 0;
    memcpy(row, rows->tokens[sample], SEQUENCE * sizeof *row);
    for (; count < PREDICTIONS && rows->targets[sample][count] != -1; count++) {
        const int32_t position = rows->positions[sample][count];
        assert_true(position > (count ? rows->positions[sample][count - 1] : 0) && position < rows->lengths[sample]);
        row[position] = rows->targets[sample][count];
    }
    for (int i = count; i < PREDICTIONS; i++) {
        assert_int_equal(rows->targets[sample][i], -1);
        assert_int_equal(rows->positions[sample][i], 0);
    }
    return count;
}

/* Neighboring words of a document from `at` on, up to a [SEP]; returns its place. */
static int check_text(const int32_t *row, int at)
{
    const int first = at;
    for (; row[at] >= FIRST; at++)
        if (at > first) {
            assert_int_equal(row[at], row[at - 1] + 1);
            assert_int_equal(document_of(row[at]), document_of(row[at - 1]));
        }
    assert_true(at > first);
    assert_int_equal(row[at], 3);
    return at;
}

static void check_sample(struct rows *rows, int sample, bool held_out)
{
    int32_t row[SEQUENCE];
    const int count = restore(rows, sample, row), length = rows->lengths[sample];
    assert_int_equal(row[0], 2);
    const int middle = check_text(row, 1), end = check_text(row, middle + 1);
    assert_int_equal(length, end + 1);
    for (int i = length; i < SEQUENCE; i++)
        assert_int_equal(row[i], 0);
    for (int i = 0; i < SEQUENCE; i++)
        assert_int_equal(rows->segments[sample][i], i > middle && i <= end);
    const int32_t last = row[middle - 1], next = row[middle + 1];
    const int one = document_of(last), other = document_of(next);
    if (rows->labels[sample] == 0)
        assert_true(one == other && next > last);
    else
        assert_int_not_equal(one, other);
    assert_int_equal(one >= DOCUMENTS - HELD_OUT, held_out);
    assert_int_equal(other >= DOCUMENTS - HELD_OUT, held_out);
    int wanted = (length * 15 + 50) / 100;
    wanted = wanted < 1 ? 1 : wanted;
    assert_int_equal(count, wanted < PREDICTIONS ? wanted : PREDICTIONS);
}

static void samples_are_what_their_labels_say(void **state)
{
    static struct rows rows;
    struct sample_source *source = must_open(temporary_path(directory, "text.txt"), SEQUENCE, 1, false);
    assert_int_equal(model_masked_predictions(SEQUENCE), PREDICTIONS);
    must_read(source, DATASET_TRAIN, 0, SAMPLES, &rows);
    int random = 0, full = 0, masked = 0, changed = 0, chosen = 0;
    for (int i = 0; i < SAMPLES; i++) {
        check_sample(&rows, i, false);
        random += rows.labels[i];
        full += rows.lengths[i] >= SEQUENCE - WORDS;
        for (int j = 0; j < PREDICTIONS && rows.targets[i][j] != -1; j++, chosen++) {
            const int32_t seen = rows.tokens[i][rows.positions[i][j]];
            assert_true(seen == 4 || seen >= FIRST);
            masked += seen == 4;
            changed += seen != 4 && seen != rows.targets[i][j];
        }
    }
    assert_in_range(random, SAMPLES * 46 / 100, SAMPLES * 54 / 100);
    assert_true(full > SAMPLES / 2);
    assert_in_range(masked, chosen * 78 / 100, chosen * 82 / 100);
    assert_in_range(changed, chosen * 8 / 100, chosen * 12 / 100);
    must_read(source, DATASET_HELD_OUT, 0, 100, &rows);
    for (int i = 0; i < 100; i++)
        check_sample(&rows, i, true);
    sample_source_close(source);
}

static void a_sample_depends_on_its_number_alone(void **state)
{
    static struct rows together, alone;
    const char *path = temporary_path(directory, "text.txt");
    struct sample_source *source = must_open(path, SEQUENCE, 7, false), *again = must_open(path, SEQUENCE, 7, false);
    must_read(source, DATASET_TRAIN, 1000, 300, &together);
    for (int i = 299; i >= 0; i--) {
        must_read(again, i % 2 ? DATASET_TRAIN : DATASET_HELD_OUT, (uint64_t)i, 3, &alone);
        must_read(again, DATASET_TRAIN, 1000 + (uint64_t)i, 1, &alone);
        assert_memory_equal(alone.tokens[0], together.tokens[i], sizeof together.tokens[0]);
        assert_memory_equal(alone.segments[0], together.segments[i], sizeof together.segments[0]);
        assert_memory_equal(alone.positions[0], together.positions[i], sizeof together.positions[0]);
        assert_memory_equal(alone.targets[0], together.targets[i], sizeof together.targets[0]);
        assert_int_equal(alone.labels[0], together.labels[i]);
        assert_int_equal(alone.lengths[0], together.lengths[i]);
    }
    int32_t tokens[SEQUENCE], targets[PREDICTIONS]; /* ranks read some of the arrays */
    assert_int_equal(sample_source_read(again, DATASET_TRAIN, 1017, 1, &(struct model_arrays){.tokens = tokens}, NULL),
                     WEFT_OK);
    assert_memory_equal(tokens, together.tokens[17], sizeof tokens);
    assert_int_equal(
        sample_source_read(again, DATASET_TRAIN, 1017, 1, &(struct model_arrays){.targets = targets}, NULL), WEFT_OK);
    assert_memory_equal(targets, together.targets[17], sizeof targets);
    sample_source_close(source);
    sample_source_close(again);
}

/* Epochs differ, and each has every part of the text once. */
static void an_epoch_covers_the_text(void **state)
{
    static struct rows rows;
    struct sample_source *source = must_open(temporary_path(directory, "text.txt"), SEQUENCE, 3, false);
    const int samples = (int)sample_source_samples(source, DATASET_TRAIN);
    int documents[2][DOCUMENTS] = {{0}};
    int32_t first[SEQUENCE];
    assert_true(samples <= SAMPLES);
    for (int epoch = 0; epoch < 2; epoch++) {
        must_read(source, DATASET_TRAIN, (uint64_t)(epoch * samples), (uint64_t)samples, &rows);
        for (int i = 0; i < samples; i++) {
            int32_t row[SEQUENCE];
            restore(&rows, i, row);
            documents[epoch][document_of(row[1])]++;
        }
        if (epoch == 1)
            assert_memory_not_equal(first, rows.tokens[0], sizeof first);
        memcpy(first, rows.tokens[0], sizeof first);
    }
    for (int i = 0; i < DOCUMENTS - HELD_OUT; i++) {
        assert_int_equal(documents[0][i], documents[0][0]);
        assert_int_equal(documents[1][i], documents[0][0]);
    }
    sample_source_close(source);
}

static void held_out_samples_are_fixed(void **state)
{
    static struct rows one, other;
    const char *path = temporary_path(directory, "text.txt");
    struct sample_source *source = must_open(path, SEQUENCE, 1, false), *again = must_open(path, SEQUENCE, 2, false);
    const uint64_t samples = sample_source_samples(source, DATASET_HELD_OUT);
    must_read(source, DATASET_HELD_OUT, 0, 20, &one);
    must_read(again, DATASET_HELD_OUT, samples, 20, &other);
    assert_memory_equal(one.tokens, other.tokens, 20 * sizeof one.tokens[0]);
    assert_memory_equal(one.targets, other.targets, 20 * sizeof one.targets[0]);
    must_read(source, DATASET_TRAIN, 0, 20, &one);
    must_read(again, DATASET_TRAIN, 0, 20, &other);
    assert_memory_not_equal(one.tokens, other.tokens, 20 * sizeof one.tokens[0]);
    sample_source_close(source);
    sample_source_close(again);
}

/* The identity is that of the contents, wherever they lie. */
static void the_identity_is_that_of_the_text(void **state)
{
    struct dataset_identity identities[3];
    write_corpus("copy.txt");
    temporary_file(directory, "other.txt", "w1 w2\nw3\n\nw4\nw5\n\nw6\nw7\n\nw8\nw9\n", 30);
    static const char *const names[] = {"text.txt", "copy.txt", "other.txt"};
    for (int i = 0; i < 3; i++) {
        struct sample_source *source = must_open(temporary_path(directory, names[i]), SEQUENCE, (uint64_t)i, false);
        assert_int_equal(sample_source_identify(source, &identities[i], NULL), WEFT_OK);
        sample_source_close(source);
    }
    assert_int_equal(identities[0].tokens, TOKENS);
    assert_int_equal(identities[2].tokens, 9);
    assert_true(identities[0].hash == identities[1].hash && identities[0].hash != identities[2].hash);
}

/* Words of three tokens are masked as one, in the shortest sequence that has room for one as well. */
static void whole_words_are_masked(void **state)
{
    static struct rows rows;
    tokenizer_close(tokenizer);
    tokenizer = open_letters(directory, "");
    char text[4096];
    size_t used = 0;
    for (int i = 0; i < 200; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "abc def ghi jkl\n%s", i % 10 == 9 ? "\n" : "");
    struct sample_source *source = must_open(temporary_file(directory, "words.txt", text, used), SEQUENCE, 1, true);
    must_read(source, DATASET_TRAIN, 0, SAMPLES, &rows);
    int chosen = 0;
    for (int i = 0; i < SAMPLES; i++) {
        int32_t row[SEQUENCE];
        bool is_chosen[SEQUENCE] = {false};
        const int count = restore(&rows, i, row);
        for (int j = 0; j < count; j++)
            is_chosen[rows.positions[i][j]] = true;
        for (int j = 1; j < rows.lengths[i]; j++)
            if (tokenizer_continues_word(tokenizer, row[j]) && row[j - 1] != 2 && row[j - 1] != 3)
                assert_int_equal(is_chosen[j], is_chosen[j - 1]);
        chosen += count;
    }
    assert_true(chosen > SAMPLES * PREDICTIONS / 2);
    sample_source_close(source);
}

static void must_fail(const struct bert_data_options *options, const char *text, const char *words)
{
    const char *path = temporary_file(directory, "wrong.txt", text, strlen(text));
    struct sample_source *source = NULL;
    struct error error = {0};
    assert_int_not_equal(pairs_open(&path, 1, options, &source, &error), WEFT_OK);
    assert_null(source);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
}

static void faults_have_messages(void **state)
{
    const struct bert_data_options good = {.sequence = 8, .tokenizer = tokenizer};
    struct bert_data_options options = good;
    static const char four[] = "w1\nw2\n\nw1\nw2\n\nw1\nw2\n\nw1\nw2\n";
    const char *path = temporary_file(directory, "four.txt", four, strlen(four));
    struct sample_source *source;
    assert_int_equal(pairs_open(&path, 1, &good, &source, NULL), WEFT_OK);
    sample_source_close(source);
    must_fail(&good, "w1\nw2\nw3\n", "has 1 document, but needs 4");
    must_fail(&good, "w1\nw2\n\nw3\nw4\n\nw5\nw6\n", "has 3 documents, but needs 4");
    must_fail(&good, "one line", "no document of two sentences");
    must_fail(&good, "\n \n\x01\n\n", "no document of two sentences");
    must_fail(&good, "", "is empty");
    options.sequence = 7;
    must_fail(&options, four, "must be from 8");
    options = good;
    options.vocabulary = 100;
    must_fail(&options, four, "the model has a vocabulary of 100");
    options.vocabulary = 0;
    options.tokenizer = NULL;
    must_fail(&options, four, "WordPiece");
    const char *split[] = {path, temporary_file(directory, "four.val.txt", "w1\nw2\n", 6)};
    struct error error = {0};
    assert_int_equal(pairs_open(split, 2, &good, &source, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "to hold out have 1 documents"));
}

static int set_up(void **state)
{
    directory = temporary_directory();
    write_corpus("text.txt");
    tokenizer = must_open_tokenizer(directory);
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
        TEST(samples_are_what_their_labels_say),
        TEST(a_sample_depends_on_its_number_alone),
        TEST(an_epoch_covers_the_text),
        TEST(held_out_samples_are_fixed),
        TEST(the_identity_is_that_of_the_text),
        TEST(whole_words_are_masked),
        TEST(faults_have_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
