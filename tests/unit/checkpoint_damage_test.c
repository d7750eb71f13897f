/* SPDX-License-Identifier: Apache-2.0 */
/* No byte of a checkpoint can change, be lost or be added without a message that names the file. */
#include "checkpoint_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const files[] = {"manifest.json", "model.safetensors", "optimizer.safetensors"};

static const char *directory;
static char step_directory[FILE_PATH_BYTES];

/* Opening the run directory fails, and the message has `word`. */
static void must_fail(const char *word)
{
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    if (checkpoint_open(directory, &checkpoint, &error) == WEFT_OK)
        fail_msg("a damaged %s was taken", word);
    assert_null(checkpoint);
    if (!strstr(error.text, word))
        fail_msg("'%s' is not in: %s", word, error.text);
}

static void must_open(void)
{
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    if (checkpoint_open(directory, &checkpoint, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    checkpoint_close(checkpoint);
}

__attribute__((noinline)) static char *read_file(const char *name, size_t *size)
{
    char *content = NULL;
    if (file_read(temporary_path(step_directory, name), 1 << 20, &content, size, NULL) != WEFT_OK)
        exit(1);
    return content;
}

static void every_flipped_bit_is_seen(void **state)
{
    for (int f = 0; f < 3; f++) {
        size_t size;
        char *content = read_file(files[f], &size);
        for (size_t i = 0; i < size; i++) {
            content[i] ^= (char)(1 << i % 8);
            temporary_file(step_directory, files[f], content, size);
            must_fail(files[f]);
            content[i] ^= (char)(1 << i % 8);
        }
        temporary_file(step_directory, files[f], content, size);
        must_open();
        free(content);
    }
}

static void every_truncation_is_seen(void **state)
{
    for (int f = 0; f < 3; f++) {
        size_t size;
        char *content = read_file(files[f], &size);
        for (size_t length = 0; length < size; length++) {
            temporary_file(step_directory, files[f], content, length);
            must_fail(files[f]);
        }
        temporary_file(step_directory, files[f], content, size);
        must_open();
        free(content);
    }
}

static void every_addition_is_seen(void **state)
{
    for (int f = 0; f < 3; f++) {
        size_t size;
        char *content = read_file(files[f], &size);
        char *longer = malloc(size + 1);
        memcpy(longer, content, size);
        for (int added = 0; added < 256; added++) {
            longer[size] = (char)added;
            temporary_file(step_directory, files[f], longer, size + 1);
            must_fail(files[f]);
        }
        temporary_file(step_directory, files[f], content, size);
        free(longer);
        free(content);
    }
    must_open();
}

static void a_missing_file_is_named(void **state)
{
    for (int f = 1; f < 3; f++) {
        size_t size;
        char *content = read_file(files[f], &size);
        unlink(temporary_path(step_directory, files[f]));
        must_fail(files[f]);
        temporary_file(step_directory, files[f], content, size);
        free(content);
    }
    must_open();
}

static void the_message_says_what_differs(void **state)
{
    size_t size;
    char *content = read_file(files[1], &size);
    temporary_file(step_directory, files[1], content, size - 1);
    must_fail("it is truncated");
    content[size - 1] ^= 1;
    temporary_file(step_directory, files[1], content, size);
    must_fail("is damaged: its SHA-256 is");
    must_fail("the next older checkpoint is");
    must_fail("step-00000001");
    content[size - 1] ^= 1;
    temporary_file(step_directory, files[1], content, size);
    free(content);
    must_open();
}

static void an_edited_manifest_is_refused(void **state)
{
    size_t size;
    char *content = read_file(files[0], &size);
    const char *step = strstr(content, "\"step\": 2");
    assert_non_null(step);
    size_t digit = (size_t)(step - content) + strlen("\"step\": ");
    content[digit] = '3';
    temporary_file(step_directory, files[0], content, size);
    must_fail("is damaged or was edited");
    content[digit] = '2';
    temporary_file(step_directory, files[0], content, size);
    free(content);
    must_open();
}

int main(void)
{
    struct small_model small;
    directory = temporary_directory();
    for (uint64_t step = 1; step <= 2; step++) {
        small_model_make(&small, 3, step, 4);
        if (small_model_save(&small, directory, 0, NULL) != WEFT_OK)
            return 1;
        small_model_free(&small);
    }
    snprintf(step_directory, sizeof step_directory, "%s/step-00000002", directory);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_is_seen),     cmocka_unit_test(every_truncation_is_seen),
        cmocka_unit_test(every_addition_is_seen),        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(the_message_says_what_differs), cmocka_unit_test(an_edited_manifest_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
