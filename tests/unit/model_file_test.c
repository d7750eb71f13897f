/* SPDX-License-Identifier: Apache-2.0 */
/* Files that describe a network: what they give, and the message for each way to be wrong. */
#include "training/model/file/model_file.h"
#include "training/model/file/shape_json.h"
#include "training/model/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

static struct model_shape parse(const char *text)
{
    struct model_shape shape;
    struct error error = {0};
    if (model_file_parse(text, strlen(text), "text", &shape, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return shape;
}

static void expect_shape(const struct model_shape *shape, const struct model_shape *expected)
{
    assert_string_equal(shape->kind, expected->kind);
    for (size_t i = 0; i < shape_number_count; i++)
        if (shape_number_get(shape, &shape_numbers[i]) != shape_number_get(expected, &shape_numbers[i]))
            fail_msg("%s is %g", shape_numbers[i].name, shape_number_get(shape, &shape_numbers[i]));
}

static void numbers_are_those_of_the_shape(void **state)
{
    struct model_shape shape = parse("kind: llama # a comment\n"
                                     "layers: 6\nheads: 8\nkv_heads: 2\nwidth: 512\nhidden: 1408\ncontext: 256\n"
                                     "vocabulary: 32000\nrotary_base: 5e5\nnorm_epsilon: 1e-6\nuntied: true\n");
    expect_shape(&shape, &(struct model_shape){.kind = "llama",
                                               .layers = 6,
                                               .heads = 8,
                                               .kv_heads = 2,
                                               .width = 512,
                                               .hidden = 1408,
                                               .context = 256,
                                               .vocabulary = 32000,
                                               .rotary_base = 5e5,
                                               .norm_epsilon = 1e-6,
                                               .untied = true});
    shape = parse("{kind: mlp, layers: 2, width: 8, window: 3, context: 9, vocabulary: 256}");
    expect_shape(&shape, &(struct model_shape){
                             .kind = "mlp", .layers = 2, .width = 8, .window = 3, .context = 9, .vocabulary = 256});
    shape = parse("kind: llama\nlayers: 1\nheads: 4\nkv-heads: 2\nwidth: 8\ncontext: 9\nvocabulary: 256\n");
    assert_int_equal(shape.kv_heads, 2);
}

static void a_size_can_be_begun_with_and_changed(void **state)
{
    struct model_shape shape = parse("like: gpt2-124m"), gpt2;
    assert_int_equal(model_shape_find("gpt2", &gpt2, NULL), WEFT_OK);
    expect_shape(&shape, &gpt2);
    shape = parse("layers: 3\nkind: gpt\nlike: gpt2\n");
    gpt2.layers = 3;
    expect_shape(&shape, &gpt2);
    shape = parse("like: llama-160m\nuntied: false\nhidden: 0\n"); /* 0: usual */
    assert_false(shape.untied);
    assert_int_equal(shape.hidden, 0);
}

/* What a shape's numbers say can be written down and read again. */
static void every_named_size_reads_back(void **state)
{
    size_t count;
    const struct model_size *sizes = model_sizes(&count);
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        int length = snprintf(text, sizeof text, "kind: %s\n", sizes[i].shape.kind);
        for (size_t k = 0; k < shape_number_count; k++) {
            double value = shape_number_get(&sizes[i].shape, &shape_numbers[k]);
            if (value != 0)
                length += shape_numbers[k].kind == SHAPE_FLAG ? snprintf(text + length, sizeof text - (size_t)length,
                                                                         "%s: true\n", shape_numbers[k].name)
                                                              : snprintf(text + length, sizeof text - (size_t)length,
                                                                         "%s: %.17g\n", shape_numbers[k].name, value);
        }
        struct model_shape shape = parse(text);
        expect_shape(&shape, &sizes[i].shape);
    }
}

static void wrong_files_get_their_message(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"- kind\n", "text, line 1: a description of a network is lines such as 'kind: gpt' and 'layers: 6'"},
        {"gpt\n", "text, line 1: a description of a network is lines such as 'kind: gpt' and 'layers: 6'"},
        {"layers: 6\n", "text has neither a 'kind' (bert, gpt, llama, "},
        {"kind: gtp\n", "text, line 1: there is no kind of model 'gtp'; did you mean 'gpt'?"},
        {"kind: [gpt]\n", "text, line 1: 'kind' is a list; it must be a text"},
        {"like: gtp2\n", "text, line 1: there is no model size 'gtp2', did you mean 'gpt2'?"},
        {"like: other.yaml\n", "text, line 1: there is no model size 'other.yaml'"},
        {"like: gpt2\nkind: llama\n",
         "text, line 2: the kind is llama, but what it is like in line 1 is of kind gpt; leave one out"},
        {"like: gpt2\nlayrs: 6\n", "text, line 2: a description of a network has no 'layrs', did you mean 'layers'?"},
        {"like: gpt2\nxyzzyplugh: 6\n", "text, line 2: a description of a network has no 'xyzzyplugh'; it has kind"},
        {"like: gpt2\nlayers: six\n", "text, line 2: layers is 'six', which is not a whole number"},
        {"like: gpt2\nlayers: 6.5\n", "text, line 2: layers is '6.5', which is not a whole number"},
        {"like: gpt2\nlayers: -1\n", "text, line 2: layers is -1, but must be from 1 to 1024"},
        {"like: gpt2\nlayers: 0\n", "text, line 2: layers is 0, but must be from 1 to 1024"},
        {"like: gpt2\nlayers: 1025\n", "text, line 2: layers is 1025, but must be from 1 to 1024"},
        {"like: gpt2\nlayers: 1\nlayers: 2\n", "text, line 3: 'layers' is given twice, first in line 2"},
        {"like: llama\nkv_heads: 1\nkv-heads: 1\n", "text, line 3: 'kv-heads' is given twice, first in line 2"},
        {"like: gpt2\nrotary_base: 100\n", "text, line 2: a network of kind gpt has no 'rotary_base'; leave it out"},
        {"like: mlp\nheads: 2\n", "text, line 2: a network of kind mlp has no 'heads'; leave it out"},
        {"like: llama\nrotary_base: 0.5\n", "text, line 2: rotary_base is 0.5, but must be from 1 to 1e+12"},
        {"like: llama\nrotary_base: 1e13\n", "text, line 2: rotary_base is 1e13, but must be from 1 to 1e+12"},
        {"like: llama\nnorm_epsilon: nan\n", "text, line 2: norm_epsilon is 'nan', which is not a number"},
        {"like: llama\nuntied: 1\n", "text, line 2: untied is '1'; it must be true or false"},
        {"kind: mlp\nlayers: 2\nwidth: 8\ncontext: 9\nvocabulary: 256\n",
         "text lacks 'window' (tokens that a prediction is made from), which a network of kind mlp needs"},
        {"like: gpt2\nheads: 7\n", "text: a width of 768 cannot be divided among 7 heads; make it a multiple of them"},
        {"like: gpt2\nlayers: &a 6\n", "text, line 2: anchors"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct model_shape shape = {.layers = 77};
        struct error error = {0};
        assert_int_equal(model_file_parse(wrong[i].text, strlen(wrong[i].text), "text", &shape, &error),
                         WEFT_ERROR_DATA);
        assert_int_equal(shape.layers, 77);
        if (strncmp(error.text, wrong[i].message, strlen(wrong[i].message)) != 0)
            fail_msg("'%s' gives: %s", wrong[i].text, error.text);
    }
}

static void a_name_is_a_files_by_its_form(void **state)
{
    static const char *const files[] = {"./gpt", "a/b", "gpt.yaml", "gpt.yml", "/gpt2"};
    static const char *const sizes[] = {"gpt", "gpt2-124m", "yaml", "yml", "gpt.json", ""};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_true(model_file_is_named(files[i]));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_false(model_file_is_named(sizes[i]));

    const char *directory = temporary_directory(),
               *path = temporary_file(directory, "small", "like: gpt\nlayers: 1\n", 20);
    struct model_shape shape = {0};
    struct error error = {0};
    assert_int_equal(model_shape_load(path, &shape, &error), WEFT_OK);
    assert_int_equal(shape.layers, 1);
    assert_int_equal(model_shape_load("llama-micro", &shape, &error), WEFT_OK);
    assert_string_equal(shape.kind, "llama");
    assert_int_equal(model_shape_load("none.yaml", &shape, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "none.yaml"));
    error_clear(&error);
    assert_int_equal(model_shape_load("lama", &shape, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "did you mean 'llama'?"));
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

/* A checkpoint of before image networks must fit its network. */
static void shapes_of_text_have_no_numbers_of_images(void **state)
{
    struct model_shape shape;
    struct error error = {0};
    assert_int_equal(model_shape_find("gpt2", &shape, &error), WEFT_OK);
    cJSON *json = shape_to_json(&shape);
    assert_true(cJSON_HasObjectItem(json, "window") && cJSON_HasObjectItem(json, "vocabulary"));
    assert_false(cJSON_HasObjectItem(json, "image") || cJSON_HasObjectItem(json, "channels") ||
                 cJSON_HasObjectItem(json, "classes") || cJSON_HasObjectItem(json, "multiplier"));
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_shape), cmocka_unit_test(a_size_can_be_begun_with_and_changed),
        cmocka_unit_test(every_named_size_reads_back),    cmocka_unit_test(wrong_files_get_their_message),
        cmocka_unit_test(a_name_is_a_files_by_its_form),  cmocka_unit_test(shapes_of_text_have_no_numbers_of_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
