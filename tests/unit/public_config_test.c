/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: every named shape goes out and comes back; what people download is understood; what would be another
 * network is refused in a message. */
#include "training/model/file/public_config.h"

#include "temporary.h"
#include "training/model/file/shape_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void same_shape(const struct model_shape *a, const struct model_shape *b)
{
    assert_string_equal(a->kind, b->kind);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_int_equal(a->classes, b->classes);
    assert_true(a->norm_epsilon == b->norm_epsilon && a->rotary_base == b->rotary_base && a->untied == b->untied);
}

static void every_shape_goes_out_and_comes_back(void **state)
{
    size_t count;
    const struct model_size *sizes = model_sizes(&count);
    for (size_t i = 0; i < count; i++) {
        struct model_description *described, *again;
        struct model_shape read;
        struct error error = {0};
        char *text;
        assert_int_equal(model_describe(&sizes[i].shape, &described, NULL), WEFT_OK);
        if (described->shape.image || strcmp(described->shape.kind, "mlp") == 0) { /* nobody else describes them so */
            assert_int_equal(public_config_format(&described->shape, NULL, WEFT_BF16, &text, &error),
                             WEFT_ERROR_ARGUMENT);
            assert_non_null(strstr(error.text, "' has no public form"));
            model_description_free(described);
            continue;
        }
        assert_int_equal(public_config_format(&described->shape, NULL, WEFT_BF16, &text, NULL), WEFT_OK);
        assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
        if (public_config_parse(text, strlen(text), "it", &read, &error) != WEFT_OK)
            fail_msg("%s: %s", sizes[i].name, error.text);
        free(text);
        assert_int_equal(model_describe(&read, &again, NULL), WEFT_OK);
        same_shape(&described->shape, &again->shape);

        cJSON *object = shape_to_json(&described->shape);
        assert_int_equal(shape_from_json(object, "it", &read, NULL), WEFT_OK);
        same_shape(&described->shape, &read);
        cJSON_DeleteItemFromObject(object, "kind");
        assert_int_equal(shape_from_json(object, "it", &read, &error), WEFT_ERROR_DATA);
        cJSON_Delete(object);
        model_description_free(described);
        model_description_free(again);
    }
}

static weft_status parse(const char *text, struct model_shape *shape, struct error *error)
{
    return public_config_parse(text, strlen(text), "it", shape, error);
}

#define GPT2 "\"model_type\":\"gpt2\",\"n_layer\":12,\"n_head\":12,\"n_embd\":768,\"vocab_size\":50257"
#define LLAMA                                                                                                          \
    "\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_attention_heads\":8,\"hidden_size\":64,"                   \
    "\"intermediate_size\":128,\"max_position_embeddings\":256,\"vocab_size\":1000"

#define BERT                                                                                                           \
    "\"model_type\":\"bert\",\"num_hidden_layers\":12,\"num_attention_heads\":12,\"hidden_size\":768,"                 \
    "\"intermediate_size\":3072,\"max_position_embeddings\":512,\"vocab_size\":30522"

static void what_people_download_of_bert(void **state)
{
    struct model_shape shape, expected = {.kind = "bert",
                                          .layers = 12,
                                          .heads = 12,
                                          .width = 768,
                                          .hidden = 3072,
                                          .context = 512,
                                          .vocabulary = 30522,
                                          .norm_epsilon = 1e-12};
    struct error error = {0};
    const char *base =
        "{" BERT ",\"architectures\":[\"BertForMaskedLM\"],\"hidden_act\":\"gelu\",\"layer_norm_eps\":1e-12,"
        "\"type_vocab_size\":2,\"pad_token_id\":0,\"position_embedding_type\":\"absolute\"}";
    if (parse(base, &shape, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    same_shape(&shape, &expected);
    static const struct {
        const char *text;
        size_t classes;
    } classifiers[] = {
        {"}", 2}, {",\"num_labels\":5}", 5}, {",\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}}", 3}};
    for (size_t i = 0; i < ARRAY_SIZE(classifiers); i++) {
        char text[600];
        snprintf(text, sizeof text, "{" BERT ",\"architectures\":[\"BertForSequenceClassification\"]%s",
                 classifiers[i].text);
        assert_int_equal(parse(text, &shape, NULL), WEFT_OK);
        expected.classes = classifiers[i].classes;
        same_shape(&shape, &expected);
        struct model_description *description;
        char *made;
        assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
        assert_int_equal(public_config_format(&description->shape, NULL, WEFT_F32, &made, NULL), WEFT_OK);
        assert_int_equal(parse(made, &shape, NULL), WEFT_OK);
        same_shape(&shape, &expected);
        free(made);
        model_description_free(description);
    }
}

static void what_people_download(void **state)
{
    struct model_shape shape;
    struct error error = {0};
    /* GPT-2's, with what else it says. */
    const char *gpt2 = "{" GPT2 ",\"n_positions\":1024,\"n_ctx\":1024,\"activation_function\":\"gelu_new\","
                       "\"architectures\":[\"GPT2LMHeadModel\"],\"attn_pdrop\":0.1,\"bos_token_id\":50256,"
                       "\"layer_norm_epsilon\":1e-05,\"n_inner\":null,\"summary_proj_to_labels\":true,"
                       "\"task_specific_params\":{\"text-generation\":{\"do_sample\":true}}}";
    if (parse(gpt2, &shape, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    same_shape(&shape, &(struct model_shape){.kind = "gpt",
                                             .layers = 12,
                                             .heads = 12,
                                             .width = 768,
                                             .context = 1024,
                                             .vocabulary = 50257,
                                             .norm_epsilon = 1e-5});
    assert_int_equal(parse("{" GPT2 ",\"n_ctx\":512,\"n_inner\":100}", &shape, NULL), WEFT_OK);
    assert_int_equal(shape.context, 512);
    assert_int_equal(shape.hidden, 100);
    /* Llama's defaults: as many heads of keys, an own head, 1e-6, 10000. */
    assert_int_equal(parse("{" LLAMA ",\"rope_scaling\":null}", &shape, NULL), WEFT_OK);
    same_shape(&shape, &(struct model_shape){.kind = "llama",
                                             .layers = 2,
                                             .heads = 8,
                                             .kv_heads = 8,
                                             .width = 64,
                                             .hidden = 128,
                                             .context = 256,
                                             .vocabulary = 1000,
                                             .norm_epsilon = 1e-6,
                                             .rotary_base = 10000,
                                             .untied = true});
    assert_int_equal(parse("{" LLAMA ",\"num_key_value_heads\":2,\"rope_theta\":5e5,\"head_dim\":8,\"hidden_act\":"
                           "\"silu\",\"tie_word_embeddings\":true,\"mlp_bias\":false}",
                           &shape, NULL),
                     WEFT_OK);
    assert_true(shape.kv_heads == 2 && shape.rotary_base == 5e5 && !shape.untied);
    assert_int_equal(
        parse("{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7e3}}", &shape, NULL), WEFT_OK);
    assert_true(shape.rotary_base == 7e3);
}

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "it"},
        {"[]", "is not an object"},
        {"{}", "model_type"},
        {"{\"model_type\":7}", "model_type"},
        {"{\"model_type\":\"qwen2\"}", "'qwen2'; Weft knows the types 'gpt2', 'llama' and 'bert'"},
        {"{\"model_type\":\"gpt2\"}", "n_layer"},
        {"{" GPT2 "}", "n_positions"},
        {"{" GPT2 ",\"n_positions\":0}", "n_positions"},
        {"{" GPT2 ",\"n_positions\":1.5}", "n_positions"},
        {"{" GPT2 ",\"n_positions\":1e30}", "n_positions"},
        {"{" GPT2 ",\"n_positions\":\"1024\"}", "n_positions"},
        {"{" GPT2 ",\"n_positions\":8,\"activation_function\":\"gelu\"}", "'activation_function' 'gelu'"},
        {"{" GPT2 ",\"n_positions\":8,\"scale_attn_by_inverse_layer_idx\":true}", "scale_attn_by_inverse_layer_idx"},
        {"{" GPT2 ",\"n_positions\":8,\"scale_attn_weights\":false}", "scale_attn_weights"},
        {"{" GPT2 ",\"n_positions\":8,\"tie_word_embeddings\":false}", "tie_word_embeddings"},
        {"{" GPT2 ",\"n_positions\":8,\"layer_norm_epsilon\":true}", "layer_norm_epsilon"},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", "'linear'"},
        {"{" LLAMA ",\"rope_scaling\":{\"factor\":2}}", "(not said)"},
        {"{" LLAMA ",\"rope_scaling\":[]}", "rope_scaling"},
        {"{" LLAMA ",\"rope_parameters\":{\"rope_type\":\"yarn\"}}", "'yarn'"},
        {"{" LLAMA ",\"attention_bias\":true}", "attention_bias"},
        {"{" LLAMA ",\"mlp_bias\":true}", "mlp_bias"},
        {"{" LLAMA ",\"mlp_bias\":1}", "mlp_bias"},
        {"{" LLAMA ",\"hidden_act\":\"gelu\"}", "'gelu'"},
        {"{" BERT ",\"hidden_act\":\"relu\"}", "'hidden_act' 'relu'"},
        {"{" BERT ",\"position_embedding_type\":\"relative_key\"}", "'relative_key'"},
        {"{" BERT ",\"type_vocab_size\":1}", "'type_vocab_size' 1"},
        {"{" BERT ",\"is_decoder\":true}", "is_decoder"},
        {"{" LLAMA ",\"head_dim\":16}", "'head_dim' 16"},
        {"{" LLAMA ",\"head_dim\":2305843009213693952}", "head_dim"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_shape shape = {.layers = 77};
        struct error error = {0};
        assert_int_equal(parse(cases[i].text, &shape, &error), WEFT_ERROR_DATA);
        assert_int_equal(shape.layers, 77);
        if (!strstr(error.text, cases[i].words))
            fail_msg("expected '%s', got '%s'", cases[i].words, error.text);
    }
    struct error error = {0};
    struct model_shape shape;
    assert_int_equal(public_config_read("/nowhere/config.json", &shape, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "/nowhere/config.json"));
}

/* Names of classes go out and come back; LABEL_0 and so on stand for numbers. */
static void names_of_classes_go_out_and_come_back(void **state)
{
    static const char *const names[] = {"land", "\"sea\""};
    const struct model_shape shape = {
        .kind = "bert", .layers = 1, .heads = 2, .width = 8, .context = 6, .vocabulary = 11, .classes = 2};
    struct model_description *description;
    cJSON *written = cJSON_CreateStringArray(names, 2), *read;
    char *text;
    const char *directory = temporary_directory(), *path = NULL;
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    for (int named = 0; named < 2; named++) {
        assert_int_equal(public_config_format(&description->shape, named ? written : NULL, WEFT_F32, &text, NULL), 0);
        assert_non_null(strstr(text, named ? "\"land\": 0" : "\"LABEL_0\": 0"));
        path = temporary_file(directory, PUBLIC_CONFIG_NAME, text, strlen(text));
        free(text);
        assert_int_equal(public_config_class_names(path, &read, NULL), WEFT_OK);
        assert_true(named ? cJSON_Compare(read, written, true) : !read);
        cJSON_Delete(read);
    }
    static const char gap[] = "{\"id2label\": {\"0\": \"a\", \"2\": \"b\"}}";
    path = temporary_file(directory, PUBLIC_CONFIG_NAME, gap, strlen(gap));
    assert_int_equal(public_config_class_names(path, &read, NULL), WEFT_OK);
    assert_null(read);
    cJSON_Delete(written);
    model_description_free(description);
    assert_int_equal(file_remove_tree(directory, NULL), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_goes_out_and_comes_back),   cmocka_unit_test(what_people_download),
        cmocka_unit_test(what_people_download_of_bert),          cmocka_unit_test(what_is_refused),
        cmocka_unit_test(names_of_classes_go_out_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
