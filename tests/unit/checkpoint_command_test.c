/* SPDX-License-Identifier: Apache-2.0 */
/* `weft checkpoint hash, list, show`, as typed. */
#include "checkpoint_support.h"
#include "cli/frame/command.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *directory;
static char printed[1 << 16], told[4096];

/* Run `weft checkpoint` with these words; what it prints lands in `printed`, its errors in `told`. */
static int weft(const char *first, const char *second, const char *third)
{
    char *words[] = {
        "weft", "checkpoint", (char *)(uintptr_t)first, (char *)(uintptr_t)second, (char *)(uintptr_t)third, NULL};
    memset(printed, 0, sizeof printed);
    memset(told, 0, sizeof told);
    FILE *output = fmemopen(printed, sizeof printed, "w"), *errors = fmemopen(told, sizeof told, "w");
    int code = command_main(command_table, command_table_count, third ? 5 : 4, words, output, errors);
    fclose(output);
    fclose(errors);
    return code;
}

static void the_hash_of_the_newest(void **state)
{
    struct small_model small;
    char hash[SHA256_TEXT_BYTES];
    small_model_make(&small, 2, 200, 4);
    small_model_hash(&small, hash);
    assert_int_equal(weft("hash", directory, NULL), 0);
    assert_int_equal(strlen(printed), 65);
    assert_memory_equal(printed, hash, 64);
    assert_int_equal(weft("hash", temporary_path(directory, "step-00000100"), NULL), 0);
    assert_memory_not_equal(printed, hash, 64);
    small_model_free(&small);
}

static void the_steps(void **state)
{
    assert_int_equal(weft("list", directory, NULL), 0);
    assert_string_equal(printed, "100\n200\n");
}

static void what_is_shown(void **state)
{
    assert_int_equal(weft("show", directory, NULL), 0);
    static const char *const words[] = {"step-00000200: whole",  "6400 samples",          "kind gpt, layers 1",
                                        "learning_rate 0.0003",  "optimizer.safetensors", "9 of 93 elements",
                                        "wte.weight.exp_avg_sq", "f32   [4, 6]"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(printed, words[i]))
            fail_msg("'%s' is not in: %s", words[i], printed);
}

static void what_is_shown_to_programs(void **state)
{
    assert_int_equal(weft("show", "--json", directory), 0);
    cJSON *root = cJSON_Parse(printed);
    assert_non_null(root);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(root, "whole")));
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(root, "step")), 200);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "tensors")), 9);
    cJSON_Delete(root);
}

static void damage(void **state)
{
    const char *path = temporary_path(directory, "step-00000200/model.safetensors");
    char *content = NULL;
    size_t size;
    assert_int_equal(file_read(path, 1 << 20, &content, &size, NULL), WEFT_OK);
    content[size - 1] ^= 4;
    assert_int_equal(file_write(path, content, size, NULL), WEFT_OK);
    free(content);
    assert_int_equal(weft("show", directory, NULL), 1);
    if (!strstr(told, "model.safetensors' is damaged"))
        fail_msg("an odd message: %s", told);
    assert_string_equal(printed, "");
    assert_int_equal(weft("hash", directory, NULL), 1);
    assert_string_equal(printed, "");
    assert_int_equal(weft("show", "--json", directory), 1);
    cJSON *root = cJSON_Parse(printed);
    assert_non_null(root);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(root, "whole")));
    assert_non_null(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(root, "problem")), "is damaged"));
    cJSON_Delete(root);
}

static void no_directory(void **state)
{
    assert_int_equal(weft("hash", temporary_path(directory, "nowhere"), NULL), 1);
    assert_non_null(strstr(told, "nowhere"));
}

int main(void)
{
    directory = temporary_directory();
    for (uint64_t step = 1; step <= 2; step++) {
        struct small_model small;
        small_model_make(&small, step, 100 * step, 4);
        if (small_model_save(&small, directory, 0, NULL) != WEFT_OK)
            return 1;
        small_model_free(&small);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_of_the_newest),    cmocka_unit_test(the_steps), cmocka_unit_test(what_is_shown),
        cmocka_unit_test(what_is_shown_to_programs), cmocka_unit_test(damage),    cmocka_unit_test(no_directory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
