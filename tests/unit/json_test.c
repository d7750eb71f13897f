/* SPDX-License-Identifier: Apache-2.0 */
/* JSON written reads back bit for bit; what is wrong in JSON that was read is named by key and file. */
#include "base/format/json_put.h"
#include "temporary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_line(void **state)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_open_object(&line, NULL);
    json_put_integer(&line, "step", -12);
    json_put_number(&line, "loss", 3.25);
    json_put_text(&line, "na\"me", "tab\there\nand \\ \x01 é");
    json_put_text(&line, "none", NULL);
    json_open_array(&line, "list");
    json_put_bool(&line, NULL, true);
    json_put_number(&line, NULL, NAN);
    json_open_object(&line, NULL);
    json_close(&line);
    json_close(&line);
    json_close(&line);
    assert_string_equal(json_text(&line),
                        "{\"step\":-12,\"loss\":3.25,\"na\\\"me\":\"tab\\u0009here\\nand \\\\ \\u0001 é\","
                        "\"none\":null,\"list\":[true,null,{}]}");
    json_end(&line);
}

static void an_indented_text(void **state)
{
    struct json_writer text;
    json_begin(&text, JSON_INDENTED);
    json_open_object(&text, NULL);
    json_put_integer(&text, "a", 1);
    json_open_array(&text, "b");
    json_close(&text);
    json_open_array(&text, "c");
    json_put_integer(&text, NULL, 2);
    json_close(&text);
    json_close(&text);
    assert_string_equal(json_text(&text), "{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": [\n    2\n  ]\n}");
    json_end(&text);
}

static void numbers_read_back_exactly(void **state)
{
    static const double doubles[] = {
        0, -0.0, 1, 0.1, 1.0 / 3, 3e-4, 1e300, 5e-324, -2.2250738585072014e-308, 16777217, 9007199254740993.0};
    static const uint64_t integers[] = {0, 1, (1ull << 53) - 1, 1ull << 53, (1ull << 53) + 1, UINT64_MAX};
    struct json_writer line;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        json_begin(&line, JSON_LINE);
        json_open_object(&line, NULL);
        json_put_number(&line, "x", doubles[i]);
        json_close(&line);
        cJSON *root;
        double got;
        assert_int_equal(json_parse(json_text(&line), strlen(json_text(&line)), "line", &root, NULL), WEFT_OK);
        assert_int_equal(json_get_number(root, "x", "line", &got, NULL), WEFT_OK);
        assert_true(got == doubles[i]);
        cJSON_Delete(root);
        json_end(&line);
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        json_begin(&line, JSON_LINE);
        json_open_object(&line, NULL);
        json_put_unsigned(&line, "x", integers[i]);
        json_close(&line);
        cJSON *root;
        uint64_t got;
        assert_int_equal(json_parse(json_text(&line), strlen(json_text(&line)), "line", &root, NULL), WEFT_OK);
        assert_int_equal(json_get_unsigned(root, "x", "line", &got, NULL), WEFT_OK);
        assert_true(got == integers[i]);
        cJSON_Delete(root);
        json_end(&line);
    }
}

static void trees_are_copied(void **state)
{
    static const char text[] = "{\"a\":[1,2.5,\"x\",true,null,{\"b\":{}}],\"c\":false}";
    cJSON *root;
    struct json_writer line;
    assert_int_equal(json_parse(text, strlen(text), "text", &root, NULL), WEFT_OK);
    json_begin(&line, JSON_LINE);
    json_put_tree(&line, NULL, root);
    assert_string_equal(json_text(&line), text);
    json_end(&line);
    cJSON_Delete(root);
}

static void what_is_wrong_is_named(void **state)
{
    static const char text[] = "{\"text\":\"x\",\"number\":1.5,\"big\":1e17,\"minus\":-1,\"digits\":\"12x\",\"many\":"
                               "\"18446744073709551616\"}";
    cJSON *root;
    assert_int_equal(json_parse(text, strlen(text), "'f.json'", &root, NULL), WEFT_OK);
    struct error error = {0};
    int64_t integer = 7;
    uint64_t number = 7;
    const cJSON *value = NULL;
    const char *string = NULL;
    assert_int_equal(json_get_integer(root, "step", "'f.json'", 0, 9, &integer, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "'f.json' lacks 'step', which should be a number");
    error_clear(&error);
    assert_int_equal(json_get_integer(root, "text", "'f.json'", 0, 9, &integer, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "'text' in 'f.json' is not a number");
    error_clear(&error);
    assert_int_equal(json_get_integer(root, "number", "'f.json'", 0, 9, &integer, &error), WEFT_ERROR_DATA);
    assert_string_equal(error.text, "'number' in 'f.json' is 1.5, but must be a whole number from 0 to 9");
    assert_int_equal(json_get_integer(root, "minus", "'f.json'", 0, 9, &integer, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_unsigned(root, "minus", "'f.json'", &number, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_unsigned(root, "big", "'f.json'", &number, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_unsigned(root, "digits", "'f.json'", &number, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_unsigned(root, "many", "'f.json'", &number, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_object(root, "text", "'f.json'", &value, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_array(root, "text", "'f.json'", &value, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_get_text(root, "number", "'f.json'", &string, NULL), WEFT_ERROR_DATA);
    assert_int_equal(integer, 7);
    assert_int_equal(number, 7);
    assert_null(value);
    cJSON_Delete(root);
}

static void a_nul_in_a_text_is_refused(void **state)
{
    static const char *const bad[] = {"{\"a\":\"b\\u0000c\"}", "[\"\\\\\\u0000\"]", "[\"\\u0000\"]"};
    static const char *const good[] = {"[\"\\\\u0000\"]", "[\"u0000\"]", "[\"\\u00001\\\\\"]"};
    struct error error = {0};
    cJSON *root = NULL;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_parse(bad[i], strlen(bad[i]), "'f.json'", &root, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, "NUL"));
        error_clear(&error);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(json_parse(good[i], strlen(good[i]), "'f.json'", &root, NULL), WEFT_OK);
        cJSON_Delete(root);
    }
    assert_int_equal(json_parse(good[2], strlen(good[2]), "'f.json'", &root, NULL), WEFT_ERROR_DATA);
    assert_int_equal(json_parse("\\", 1, "'f.json'", &root, NULL), WEFT_ERROR_DATA);
}

static void what_is_no_json(void **state)
{
    static const char *const bad[] = {"", " ", "{", "{\"a\":}", "{} x", "{}{}", "nul", "\"", "[1,]", "{\"a\" 1}"};
    cJSON *root = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        /* Of exact size and without a final NUL, so that the address sanitizer sees any step too far. */
        size_t size = strlen(bad[i]);
        char *exact = malloc(size + !size);
        memcpy(exact, bad[i], size);
        struct error error = {0};
        if (json_parse(exact, size, "text", &root, &error) != WEFT_ERROR_DATA)
            fail_msg("taken: %s", bad[i]);
        free(exact);
    }
    assert_null(root);
}

static void files(void **state)
{
    const char *directory = temporary_directory();
    cJSON *root = NULL;
    bool flag = false;
    struct error error = {0};
    const char *path = temporary_file(directory, "good.json", "{\"flag\":true,\"other\":1}\n", 24);
    assert_int_equal(json_read(path, &root, NULL), WEFT_OK);
    assert_int_equal(json_get_bool(root, "flag", path, &flag, NULL), WEFT_OK);
    assert_true(flag);
    assert_int_equal(json_get_bool(root, "other", path, &flag, NULL), WEFT_ERROR_DATA);
    cJSON_Delete(root);
    assert_int_equal(json_read(temporary_file(directory, "bad.json", "{", 1), &root, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "bad.json' is no valid JSON"));
    error_clear(&error);
    assert_int_equal(json_read(temporary_path(directory, "nowhere.json"), &root, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "nowhere.json"));
    file_remove_tree(directory, NULL);
}

/* Where a text goes wrong, or that it is its end that is missing. */
static void what_is_wrong_with_a_text(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {{"{", "it ends, at byte 1, before it is complete"},
               {"{\"a\":[1,{\"b\":2}", "it ends, at byte 15, before it is complete"},
               {"{\"a\":\"}", "it ends, at byte 7, before it is complete"},
               {"[1,]", "it goes wrong at byte 3 of 4"},
               {"{\"a\":x}", "it goes wrong at byte 5 of 7"},
               {"{\"a\":\"\\\"}\"]", "it goes wrong at byte 10 of 11"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cJSON *root = NULL;
        struct error error = {0};
        assert_int_equal(json_parse(bad[i].text, strlen(bad[i].text), "it", &root, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, bad[i].words))
            fail_msg("%s: %s", bad[i].text, error.text);
    }
}

static void printing(void **state)
{
    char printed[64] = "";
    struct json_writer line;
    FILE *output = fmemopen(printed, sizeof printed, "w");
    json_begin(&line, JSON_LINE);
    json_put_integer(&line, NULL, 5);
    assert_int_equal(json_print(&line, output, NULL), WEFT_OK);
    fclose(output);
    assert_string_equal(printed, "5\n");
    for (int i = 0; i <= JSON_DEPTH; i++)
        json_open_array(&line, NULL);
    assert_int_equal(json_print(&line, stdout, NULL), WEFT_ERROR_MEMORY);
    json_end(&line);
}

static void integers_and_times_have_all_their_digits(void **state)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_open_array(&line, NULL);
    json_put_integer(&line, NULL, 0);
    json_put_integer(&line, NULL, INT64_MAX);
    json_put_integer(&line, NULL, INT64_MIN);
    json_put_microseconds(&line, NULL, 0);
    json_put_microseconds(&line, NULL, 1700000000000250);
    json_put_microseconds(&line, NULL, UINT64_MAX);
    json_close(&line);
    assert_string_equal(json_text(&line), "[0,9223372036854775807,-9223372036854775808,0.000000,1700000000.000250,"
                                          "18446744073709.551615]");
    json_end(&line);
}

static void too_deep_is_refused(void **state)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    for (int i = 0; i <= JSON_DEPTH; i++)
        json_open_array(&line, NULL);
    assert_null(json_text(&line));
    json_end(&line);
}

/* Bytes of memory, say: 25276518400 is not 2.52765184e+10 when a reply is printed again. */
static void integers_of_a_tree_stay_integers(void **state)
{
    static const char text[] = "[25276518400,-7,1000000000000000,0.5,2.5e+20]";
    cJSON *tree = cJSON_Parse(text);
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_put_tree(&line, NULL, tree);
    assert_string_equal(json_text(&line), text);
    json_end(&line);
    cJSON_Delete(tree);
}

static void a_writer_starts_again_in_the_same_memory(void **state)
{
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "a \"long\" key\n\x01", "never closed");
    assert_string_equal(json_text(&writer), "{\"a \\\"long\\\" key\\n\\u0001\":\"never closed\"");
    const uint8_t *memory = writer.text.bytes;
    json_restart(&writer);
    assert_string_equal(json_text(&writer), "");
    json_open_array(&writer, NULL);
    json_put_raw(&writer, NULL, "NaN");
    json_put_raw(&writer, NULL, "1.50");
    json_close(&writer);
    assert_string_equal(json_text(&writer), "[NaN,1.50]");
    assert_int_equal(json_size(&writer), 10);
    assert_ptr_equal(writer.text.bytes, memory);
    json_end(&writer);
}

/* The type of each value chooses how it is written. */
static void fields_are_written_by_their_type(void **state)
{
    struct json_writer line;
    const char *nothing = NULL;
    json_begin(&line, JSON_LINE);
    JSON_PUT_OBJECT(&line, NULL, "text", "a", "none", nothing, "flag", (bool)true, "below", -3, "large",
                    (uint64_t)JSON_EXACT + 1, "share", 0.5);
    assert_string_equal(json_text(&line), "{\"text\":\"a\",\"none\":null,\"flag\":true,\"below\":-3,"
                                          "\"large\":\"9007199254740993\",\"share\":0.5}");
    json_end(&line);
    FILE *output = tmpfile();
    char read[64] = "";
    assert_int_equal(JSON_PRINT(output, NULL, "step", (size_t)12, "loss", 3.25F), WEFT_OK);
    rewind(output);
    assert_non_null(fgets(read, sizeof read, output));
    assert_string_equal(read, "{\"step\":12,\"loss\":3.25}\n");
    fclose(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_written_by_their_type),
        cmocka_unit_test(integers_of_a_tree_stay_integers),
        cmocka_unit_test(a_line),
        cmocka_unit_test(an_indented_text),
        cmocka_unit_test(numbers_read_back_exactly),
        cmocka_unit_test(integers_and_times_have_all_their_digits),
        cmocka_unit_test(trees_are_copied),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_nul_in_a_text_is_refused),
        cmocka_unit_test(what_is_no_json),
        cmocka_unit_test(files),
        cmocka_unit_test(what_is_wrong_with_a_text),
        cmocka_unit_test(printing),
        cmocka_unit_test(too_deep_is_refused),
        cmocka_unit_test(a_writer_starts_again_in_the_same_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
