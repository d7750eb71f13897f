/* SPDX-License-Identifier: Apache-2.0 */
/* What the tokens of weights stand for: the tokenizer beside them, else bytes where something says so, else nothing. */
#include "base/format/json.h"
#include "tokenizer_support.h"
#include "training/checkpoint/checkpoint.h"
#include "training/train/text/text.h"

static const char *directory;

/* A checkpoint of one tensor after `step`, whose manifest says `identity` of its tokens. */
static void write_checkpoint(const char *run, uint64_t step, const char *identity)
{
    float value = 1;
    const struct named_tensor weights = {
        .name = "w", .type = WEFT_F32, .dimensions = 1, .shape = {1}, .count = 1, .data = &value};
    cJSON *model = cJSON_CreateObject(), *training = cJSON_CreateObject();
    if (identity)
        cJSON_AddStringToObject(training, "tokenizer", identity);
    const struct checkpoint_state state = {.step = step, .model = model, .training = training};
    assert_int_equal(checkpoint_save(run, &state, &weights, 1, NULL, 0, 0, NULL), WEFT_OK);
    cJSON_Delete(model);
    cJSON_Delete(training);
}

static struct text must_open(const char *path, size_t vocabulary)
{
    struct text text;
    struct error error = {0};
    if (text_open_weights(path, vocabulary, &text, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return text;
}

static void a_tokenizer_beside_weights_is_theirs(void **state)
{
    const char *public = temporary_path(directory, "public");
    assert_int_equal(file_make_directory(public, NULL), WEFT_OK);
    write_tokenizer(public, (const char *const[]){"th", "<|endoftext|>", NULL}, "t h\n");
    const char *file = temporary_file(public, "model.safetensors", "x", 1);
    for (int i = 0; i < 2; i++) {
        struct text text = must_open(i ? file : public, 256); /* whatever the vocabulary is */
        assert_non_null(text.tokenizer);
        assert_false(text.is_bytes);
        assert_true(text_is_known(&text));
        assert_int_equal(strlen(text.identity), 64);
        text_close(&text);
    }
    temporary_file(public, TOKENIZER_MERGES, "t\n", 2);
    struct text text;
    struct error error = {0};
    assert_int_equal(text_open_weights(public, 258, &text, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "merges.txt"));
    assert_null(text.tokenizer);
}

static void the_newest_checkpoint_has_the_tokenizer(void **state)
{
    const char *run = temporary_path(directory, "run");
    write_checkpoint(run, 1, TEXT_OF_BYTES);
    struct text text = must_open(run, 50257);
    assert_true(text.is_bytes);
    assert_string_equal(text.identity, TEXT_OF_BYTES);
    text_close(&text);
    write_checkpoint(run, 2, "0123");
    write_tokenizer(temporary_path(run, "step-00000002"), (const char *const[]){"th", NULL}, "t h\n");
    text = must_open(run, 257);
    assert_non_null(text.tokenizer);
    text_close(&text);
    text = must_open(temporary_path(run, "step-00000001"), 257);
    assert_null(text.tokenizer);
    assert_true(text.is_bytes);
    text_close(&text);
}

static void weights_without_a_tokenizer_are_of_bytes_if_there_are_256(void **state)
{
    const char *run = temporary_path(directory, "old");
    write_checkpoint(run, 1, NULL);
    struct text text = must_open(run, 256);
    assert_true(text.is_bytes);
    text_close(&text);
    text = must_open(run, 50257);
    assert_false(text_is_known(&text));
    assert_string_equal(text.identity, "");
    text_close(&text);
}

static void one_identity_is_one_tokenizer(void **state)
{
    static const char *const tokens[] = {"th", "he", NULL};
    static const char *const merges[] = {"t h\nh e\n", "#version: 0.2\nt h\nh e\n", "h e\nt h\n"};
    char identities[3][TOKENIZER_IDENTITY_BYTES];
    for (int i = 0; i < 3; i++) {
        write_tokenizer(directory, tokens, merges[i]);
        struct tokenizer *tokenizer = must_open_tokenizer(directory);
        assert_int_equal(tokenizer_identify(tokenizer, identities[i], NULL), WEFT_OK);
        tokenizer_close(tokenizer);
    }
    assert_string_equal(identities[0], identities[1]); /* the files may differ in form */
    assert_string_not_equal(identities[0], identities[2]);
}

static int begin(void **state)
{
    int failed = temporary_begin(state);
    directory = *state;
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tokenizer_beside_weights_is_theirs),
        cmocka_unit_test(the_newest_checkpoint_has_the_tokenizer),
        cmocka_unit_test(weights_without_a_tokenizer_are_of_bytes_if_there_are_256),
        cmocka_unit_test(one_identity_is_one_tokenizer),
    };
    return cmocka_run_group_tests(tests, begin, temporary_end);
}
