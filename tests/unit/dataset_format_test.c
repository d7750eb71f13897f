/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of datasets are recognized, splits by name are found, and every bad file gets a message. */
#include "temporary.h"
#include "training/data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *directory;

static weft_status open_one(const char *path, uint64_t sequence, struct dataset **dataset, struct error *error)
{
    struct dataset_options options = {.sequence = sequence, .seed = 1};
    return dataset_open(&path, 1, &options, dataset, error);
}

static struct dataset *must_open(const char *path, uint64_t sequence)
{
    struct error error = {0};
    struct dataset *dataset = NULL;
    if (open_one(path, sequence, &dataset, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return dataset;
}

/* Opening `path` fails with `status` and a message that has all of `words` (up to a NULL). */
static void must_fail(const char *path, uint64_t sequence, weft_status status, const char *const *words)
{
    struct error error = {0};
    struct dataset *dataset = NULL;
    assert_int_equal(open_one(path, sequence, &dataset, &error), status);
    assert_null(dataset);
    for (; *words; words++)
        if (!strstr(error.text, *words))
            fail_msg("'%s' is not in: %s", *words, error.text);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *llmc_shard(const char *name, uint32_t magic, uint32_t version, uint32_t told, uint32_t held,
                              unsigned width)
{
    static uint8_t bytes[1024 + 4 * 1000];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, (uint32_t[]){magic, version, told}, 12);
    for (uint32_t i = 0; i < held; i++)
        memcpy(bytes + 1024 + i * width, &(uint32_t){i}, width);
    return temporary_file(directory, name, bytes, 1024 + held * width);
}

static void a_text_is_bytes(void **state)
{
    static const char text[] = "It was a bright cold day in April, and the clocks were striking thirteen.";
    struct dataset *dataset = must_open(temporary_file(directory, "a.txt", text, sizeof text - 1), 4);
    assert_int_equal(dataset_vocabulary(dataset), 256);
    assert_non_null(strstr(dataset_describe(dataset), "read as bytes"));
    int32_t tokens[4], targets[4];
    assert_int_equal(dataset_batch(dataset, DATASET_HELD_OUT, 0, 1, tokens, targets, NULL), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tokens[i], text[sizeof text - 1 - 7 + i]);
        assert_int_equal(targets[i], text[sizeof text - 1 - 6 + i]);
    }
    dataset_close(dataset);
}

static void llmc_shards(void **state)
{
    static const struct {
        uint32_t magic, version;
        unsigned width;
        uint64_t vocabulary;
    } kinds[] = {{20240520, 1, 2, 50257}, {20240801, 7, 4, 128256}};
    for (int i = 0; i < 2; i++) {
        const char *path = llmc_shard("tokens.bin", kinds[i].magic, kinds[i].version, 1000, 1000, kinds[i].width);
        struct dataset *dataset = must_open(path, 10);
        assert_int_equal(dataset_vocabulary(dataset), kinds[i].vocabulary);
        assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 900);
        int32_t tokens[10], targets[10];
        assert_int_equal(dataset_batch(dataset, DATASET_HELD_OUT, 2, 1, tokens, targets, NULL), WEFT_OK);
        assert_int_equal(tokens[0], 920);
        assert_int_equal(targets[9], 930);
        dataset_close(dataset);
    }
}

static void bad_llmc_shards(void **state)
{
    must_fail(llmc_shard("version.bin", 20240520, 2, 10, 10, 2), 2, WEFT_ERROR_DATA,
              WORDS("version.bin", "version 2", "version 1"));
    must_fail(llmc_shard("short.bin", 20240520, 1, 100, 99, 2), 2, WEFT_ERROR_DATA,
              WORDS("short.bin", "100 tokens", "198", "200"));
    must_fail(llmc_shard("long.bin", 20240520, 1, 98, 99, 2), 2, WEFT_ERROR_DATA, WORDS("98 tokens", "198", "196"));
    must_fail(llmc_shard("negative.bin", 20240520, 1, 0xffffffff, 99, 2), 2, WEFT_ERROR_DATA,
              WORDS("4294967295 tokens"));
    must_fail(llmc_shard("none.bin", 20240520, 1, 0, 0, 2), 2, WEFT_ERROR_DATA, WORDS("too short", "0 tokens"));
    uint32_t magic = 20240520;
    must_fail(temporary_file(directory, "header.bin", &magic, 4), 2, WEFT_ERROR_DATA,
              WORDS("header.bin", "4 bytes", "truncated"));
}

static void bad_files(void **state)
{
    must_fail(temporary_path(directory, "nowhere.txt"), 2, WEFT_ERROR_SYSTEM, WORDS("nowhere.txt", "No such file"));
    must_fail(temporary_file(directory, "empty.txt", "", 0), 2, WEFT_ERROR_DATA, WORDS("empty.txt", "is empty"));
    must_fail(temporary_file(directory, "odd.bin", "abc", 3), 2, WEFT_ERROR_DATA, WORDS("odd.bin", "3 bytes is odd"));
    must_fail("/dev/null", 2, WEFT_ERROR_ARGUMENT, WORDS("/dev/null", "device"));
    must_fail(temporary_file(directory, "short.txt", "0123456789", 10), 5, WEFT_ERROR_DATA,
              WORDS("short.txt", "10 tokens", "at least 6", "12 together"));
    must_fail(temporary_file(directory, "one.txt", "0", 1), 1, WEFT_ERROR_DATA, WORDS("1 tokens", "4 together"));
    must_fail(temporary_path(directory, "one.txt"), 0, WEFT_ERROR_ARGUMENT, WORDS("sequence is 0"));
    must_fail(temporary_path(directory, "one.txt"), UINT64_MAX, WEFT_ERROR_ARGUMENT,
              WORDS("sequence is 18446744073709551615"));
    const char *paths[] = {temporary_path(directory, "short.txt"), llmc_shard("mixed.bin", 20240520, 1, 99, 99, 2)};
    struct dataset_options options = {.sequence = 2};
    struct dataset *dataset = NULL;
    struct error error = {0};
    assert_int_equal(dataset_open(paths, 2, &options, &dataset, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "one format"));
    error_clear(&error);
    options.vocabulary = 1ull << 40;
    assert_int_equal(dataset_open(paths, 1, &options, &dataset, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "vocabulary is 1099511627776"));
    error_clear(&error);
    assert_int_equal(dataset_open(paths, 0, &options, &dataset, &error), WEFT_ERROR_ARGUMENT);
}

static void a_token_outside_the_vocabulary(void **state)
{
    uint16_t tokens[100] = {0};
    tokens[73] = 50257;
    struct dataset *dataset = must_open(temporary_file(directory, "high.bin", tokens, sizeof tokens), 4);
    struct error error = {0};
    int32_t inputs[4], targets[4];
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < dataset_samples(dataset, DATASET_TRAIN) && status == WEFT_OK; i++)
        status = dataset_batch(dataset, DATASET_TRAIN, i, 1, inputs, targets, &error);
    assert_int_equal(status, WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "token 73 of"));
    assert_non_null(strstr(error.text, "high.bin' is 50257"));
    dataset_close(dataset);
}

static void splits_by_name(void **state)
{
    char inner[FILE_PATH_BYTES];
    snprintf(inner, sizeof inner, "%s", temporary_path(directory, "named"));
    assert_int_equal(file_make_directory(inner, NULL), WEFT_OK);
    uint16_t tokens[200] = {0};
    temporary_file(inner, "train.bin", tokens, 400);
    temporary_file(inner, "interval.bin", tokens, 200);
    temporary_file(inner, "val.bin", tokens, 100);
    temporary_file(inner, "input.txt", "text", 4);
    temporary_file(inner, "meta.pkl", "pickle", 6);
    struct dataset *dataset = must_open(inner, 4);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 300);
    assert_int_equal(dataset_tokens(dataset, DATASET_HELD_OUT), 50);
    dataset_close(dataset);
    dataset = must_open(temporary_path(inner, "train.bin"), 4);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 200);
    assert_int_equal(dataset_tokens(dataset, DATASET_HELD_OUT), 50);
    dataset_close(dataset);
    dataset = must_open(temporary_path(inner, "val.bin"), 4);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 0); /* a file called val is held-out data only */
    assert_int_equal(dataset_samples(dataset, DATASET_TRAIN), 0);
    assert_int_equal(dataset_tokens(dataset, DATASET_HELD_OUT), 50);
    dataset_close(dataset);
    dataset = must_open(temporary_file(inner, "the_test.bin", tokens, 80), 4);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 0);
    assert_int_equal(dataset_tokens(dataset, DATASET_HELD_OUT), 40);
    dataset_close(dataset);
    assert_int_equal(file_remove_tree(temporary_path(inner, "the_test.bin"), NULL), WEFT_OK);
    must_fail(inner, 60, WEFT_ERROR_DATA, WORDS("hold out", "50 tokens", "at least 61"));
}

static void directories(void **state)
{
    char inner[FILE_PATH_BYTES];
    snprintf(inner, sizeof inner, "%s", temporary_path(directory, "texts"));
    assert_int_equal(file_make_directory(inner, NULL), WEFT_OK);
    must_fail(inner, 2, WEFT_ERROR_DATA, WORDS("texts", "neither .bin nor .txt nor .tsv"));
    temporary_file(inner, "train.tsv", "a label\tand a text\n", 19);
    must_fail(inner, 2, WEFT_ERROR_DATA, WORDS("texts", "labeled texts", "--task classify"));
    temporary_file(inner, "b.txt", "bbbbbbbbbbbbbbbbbbbb", 20);
    temporary_file(inner, "a.txt", "aaaaaaaaaaaaaaaaaaaa", 20);
    temporary_file(inner, ".hidden.txt", "h", 1);
    struct dataset *dataset = must_open(inner, 2);
    assert_int_equal(dataset_tokens(dataset, DATASET_TRAIN), 36);
    int32_t tokens[2], targets[2];
    assert_int_equal(dataset_batch(dataset, DATASET_HELD_OUT, 0, 1, tokens, targets, NULL), WEFT_OK);
    assert_int_equal(tokens[0], 'b');
    dataset_close(dataset);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_bytes),
        cmocka_unit_test(llmc_shards),
        cmocka_unit_test(bad_llmc_shards),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(a_token_outside_the_vocabulary),
        cmocka_unit_test(splits_by_name),
        cmocka_unit_test(directories),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
