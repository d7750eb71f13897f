/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/file/public_config.h"

#include "base/file/file.h"
#include "base/format/json_put.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_MOST ((size_t)1 << 20)
#define NUMBER_MOST ((int64_t)1 << 24)

/* ---- reading ---- */

/* One object, its name in messages, and the first error, after which all further reads do nothing. */
struct public_config_source {
    const cJSON *object;
    const char *where;
    weft_status status;
    struct error *error;
};

/* The value of `key`, or NULL where it is missing or null, which is the same in these files. */
static const cJSON *public_config_find(const struct public_config_source *source, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(source->object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static void get_size(struct public_config_source *source, const char *key, size_t *size)
{
    int64_t number;
    if (source->status == WEFT_OK)
        source->status = json_get_integer(source->object, key, source->where, 1, NUMBER_MOST, &number, source->error);
    if (source->status == WEFT_OK)
        *size = (size_t)number;
}

/* An optional key: if it is missing, the value is unchanged. */
static void may_get_size(struct public_config_source *source, const char *key, size_t *size)
{
    if (public_config_find(source, key))
        get_size(source, key, size);
}

static void may_get_number(struct public_config_source *source, const char *key, double *number)
{
    if (source->status == WEFT_OK && public_config_find(source, key))
        source->status = json_get_number(source->object, key, source->where, number, source->error);
}

static void may_get_bool(struct public_config_source *source, const char *key, bool *value)
{
    if (source->status == WEFT_OK && public_config_find(source, key))
        source->status = json_get_bool(source->object, key, source->where, value, source->error);
}

/* An optional key whose value must be `wanted`. */
static void expect_bool(struct public_config_source *source, const char *key, bool wanted)
{
    bool value = wanted;
    may_get_bool(source, key, &value);
    if (source->status == WEFT_OK && value != wanted)
        source->status = error_set(source->error, WEFT_ERROR_DATA, "%s has '%s' %s; Weft's networks have it %s only",
                                   source->where, key, value ? "true" : "false", wanted ? "true" : "false");
}

/* The same for a word that has two spellings. */
static void expect_word(struct public_config_source *source, const char *key, const char *wanted, const char *same)
{
    const char *value = wanted;
    if (source->status == WEFT_OK && public_config_find(source, key))
        source->status = json_get_text(source->object, key, source->where, &value, source->error);
    if (source->status == WEFT_OK && strcmp(value, wanted) != 0 && strcmp(value, same) != 0)
        source->status =
            error_set(source->error, WEFT_ERROR_DATA, "%s has '%s' '%.64s'; of this kind of model Weft knows '%s' only",
                      source->where, key, value, wanted);
}

static void read_gpt2(struct public_config_source *source, struct model_shape *shape)
{
    shape->kind = "gpt";
    shape->norm_epsilon = 1e-5;
    get_size(source, "n_layer", &shape->layers);
    get_size(source, "n_head", &shape->heads);
    get_size(source, "n_embd", &shape->width);
    get_size(source,
             public_config_find(source, "n_positions") || !public_config_find(source, "n_ctx") ? "n_positions"
                                                                                               : "n_ctx",
             &shape->context);
    get_size(source, "vocab_size", &shape->vocabulary);
    may_get_size(source, "n_inner", &shape->hidden);
    may_get_number(source, "layer_norm_epsilon", &shape->norm_epsilon);
    expect_word(source, "activation_function", "gelu_new", "gelu_pytorch_tanh");
    expect_bool(source, "tie_word_embeddings", true);
    expect_bool(source, "scale_attn_weights", true);
    expect_bool(source, "scale_attn_by_inverse_layer_idx", false);
    expect_bool(source, "add_cross_attention", false);
}

/* Rotary positions scaled for long contexts are a different function. Newer files store the base in this object,
 * too. */
static void read_rotary(struct public_config_source *source, const char *key, struct model_shape *shape)
{
    const cJSON *scaling = public_config_find(source, key);
    if (source->status != WEFT_OK || !scaling)
        return;
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(scaling, "rope_type");
    if (!type)
        type = cJSON_GetObjectItemCaseSensitive(scaling, "type");
    const char *word = cJSON_GetStringValue(type);
    if (!cJSON_IsObject(scaling) || !word || strcmp(word, "default") != 0) {
        source->status = error_set(source->error, WEFT_ERROR_DATA,
                                   "%s has '%s' of type '%.64s'; Weft knows rotary positions without scaling only",
                                   source->where, key, word ? word : "(not said)");
        return;
    }
    struct public_config_source within = {.object = scaling, .where = source->where, .error = source->error};
    may_get_number(&within, "rope_theta", &shape->rotary_base);
    source->status = within.status;
}

static void read_llama(struct public_config_source *source, struct model_shape *shape)
{
    bool tied = false;
    size_t head_width = 0;
    shape->kind = "llama";
    shape->norm_epsilon = 1e-6;
    shape->rotary_base = 10000;
    get_size(source, "num_hidden_layers", &shape->layers);
    get_size(source, "num_attention_heads", &shape->heads);
    get_size(source, "hidden_size", &shape->width);
    get_size(source, "intermediate_size", &shape->hidden);
    get_size(source, "max_position_embeddings", &shape->context);
    get_size(source, "vocab_size", &shape->vocabulary);
    shape->kv_heads = shape->heads;
    may_get_size(source, "num_key_value_heads", &shape->kv_heads);
    may_get_number(source, "rms_norm_eps", &shape->norm_epsilon);
    may_get_number(source, "rope_theta", &shape->rotary_base);
    read_rotary(source, "rope_scaling", shape);
    read_rotary(source, "rope_parameters", shape);
    may_get_bool(source, "tie_word_embeddings", &tied);
    shape->untied = !tied;
    expect_word(source, "hidden_act", "silu", "swish");
    expect_bool(source, "attention_bias", false);
    expect_bool(source, "mlp_bias", false);
    may_get_size(source, "head_dim", &head_width);
    if (source->status == WEFT_OK && head_width && head_width * shape->heads != shape->width)
        source->status = error_set(source->error, WEFT_ERROR_DATA,
                                   "%s has 'head_dim' %zu, but Weft's heads divide the width: %zu in %zu heads",
                                   source->where, head_width, shape->width, shape->heads);
}

/* The number of labels of a model that classifies: files name it, or list the labels, or say nothing of the usual 2. */
static void get_classes(struct public_config_source *source, size_t *classes)
{
    const cJSON *labels = public_config_find(source, "id2label");
    *classes = cJSON_IsObject(labels) ? (size_t)cJSON_GetArraySize(labels) : 2;
    may_get_size(source, "num_labels", classes);
}

#define CLASSIFIER "BertForSequenceClassification"

static bool is_classifier(const struct public_config_source *source)
{
    const cJSON *name, *names = public_config_find(source, "architectures");
    cJSON_ArrayForEach(name, names)
        if (cJSON_IsString(name) && strcmp(name->valuestring, CLASSIFIER) == 0)
            return true;
    return false;
}

static void read_bert(struct public_config_source *source, struct model_shape *shape)
{
    size_t segments = 2;
    shape->kind = "bert";
    shape->norm_epsilon = 1e-12;
    get_size(source, "num_hidden_layers", &shape->layers);
    get_size(source, "num_attention_heads", &shape->heads);
    get_size(source, "hidden_size", &shape->width);
    get_size(source, "intermediate_size", &shape->hidden);
    get_size(source, "max_position_embeddings", &shape->context);
    get_size(source, "vocab_size", &shape->vocabulary);
    may_get_number(source, "layer_norm_eps", &shape->norm_epsilon);
    may_get_size(source, "type_vocab_size", &segments);
    expect_word(source, "hidden_act", "gelu", "gelu");
    expect_word(source, "position_embedding_type", "absolute", "absolute");
    expect_bool(source, "tie_word_embeddings", true);
    expect_bool(source, "is_decoder", false);
    expect_bool(source, "add_cross_attention", false);
    if (is_classifier(source))
        get_classes(source, &shape->classes);
    if (source->status == WEFT_OK && segments != 2)
        source->status = error_set(source->error, WEFT_ERROR_DATA,
                                   "%s has 'type_vocab_size' %zu, but Weft's texts have 2 types of segments",
                                   source->where, segments);
}

static void read_config(struct public_config_source *source, struct model_shape *shape)
{
    const char *type = "";
    source->status = json_get_text(source->object, "model_type", source->where, &type, source->error);
    if (strcmp(type, "gpt2") == 0)
        read_gpt2(source, shape);
    else if (strcmp(type, "llama") == 0)
        read_llama(source, shape);
    else if (strcmp(type, "bert") == 0)
        read_bert(source, shape);
    else if (source->status == WEFT_OK)
        source->status = error_set(source->error, WEFT_ERROR_DATA,
                                   "%s is of a model of type '%.64s'; Weft knows the types 'gpt2', 'llama' and 'bert'",
                                   source->where, type);
}

weft_status public_config_parse(const char *text, size_t size, const char *where, struct model_shape *shape,
                                struct error *error)
{
    cJSON *root;
    struct model_shape read = {0};
    weft_status status = json_parse(text, size, where, &root, error);
    if (status != WEFT_OK)
        return status;
    struct public_config_source source = {.object = root, .where = where, .error = error};
    if (cJSON_IsObject(root))
        read_config(&source, &read);
    else
        source.status = error_set(error, WEFT_ERROR_DATA, "%s is not an object", where);
    cJSON_Delete(root);
    if (source.status == WEFT_OK)
        *shape = read;
    return source.status;
}

weft_status public_config_read(const char *path, struct model_shape *shape, struct error *error)
{
    char *text, where[FILE_PATH_BYTES + 2];
    size_t size;
    weft_status status = file_read(path, CONFIG_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    snprintf(where, sizeof where, "'%s'", path);
    status = public_config_parse(text, size, where, shape, error);
    free(text);
    return status;
}

/* ---- names of classes ---- */

#define LABEL_BYTES 32

/* What stands in place of a name. */
static const char *numbered_label(size_t number, char label[LABEL_BYTES])
{
    snprintf(label, LABEL_BYTES, "LABEL_%zu", number);
    return label;
}

/* The items of "id2label" by number; NULL where one is missing, or none is a name. */
static cJSON *names_from_labels(const cJSON *labels)
{
    char key[24], label[LABEL_BYTES];
    const size_t count = cJSON_IsObject(labels) ? (size_t)cJSON_GetArraySize(labels) : 0;
    cJSON *names = cJSON_CreateArray();
    bool are_names = false;
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%zu", i);
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(labels, key));
        if (!name || !cJSON_AddItemToArray(names, cJSON_CreateString(name))) {
            are_names = false;
            break;
        }
        are_names = are_names || strcmp(name, numbered_label(i, label)) != 0;
    }
    if (are_names)
        return names;
    cJSON_Delete(names);
    return NULL;
}

weft_status public_config_class_names(const char *path, cJSON **names, struct error *error)
{
    cJSON *root;
    const weft_status status = json_read(path, &root, error);
    if (status != WEFT_OK)
        return status;
    *names = names_from_labels(cJSON_GetObjectItemCaseSensitive(root, "id2label"));
    cJSON_Delete(root);
    return WEFT_OK;
}

/* ---- writing ---- */

static void put_size(struct json_writer *writer, const char *key, size_t size)
{
    json_put_integer(writer, key, (int64_t)size);
}

static void put_architecture(struct json_writer *writer, const char *type, const char *architecture)
{
    json_open_array(writer, "architectures");
    json_put_text(writer, NULL, architecture);
    json_close(writer);
    json_put_text(writer, "model_type", type);
}

static void put_gpt2(struct json_writer *writer, const struct model_shape *shape, const cJSON *class_names)
{
    put_architecture(writer, "gpt2", "GPT2LMHeadModel");
    put_size(writer, "n_layer", shape->layers);
    put_size(writer, "n_head", shape->heads);
    put_size(writer, "n_embd", shape->width);
    put_size(writer, "n_inner", shape->hidden);
    put_size(writer, "n_positions", shape->context);
    put_size(writer, "n_ctx", shape->context);
    put_size(writer, "vocab_size", shape->vocabulary);
    JSON_PUT(writer, "layer_norm_epsilon", shape->norm_epsilon, "activation_function", "gelu_new",
             "tie_word_embeddings", (bool)true);
}

static void put_llama(struct json_writer *writer, const struct model_shape *shape, const cJSON *class_names)
{
    put_architecture(writer, "llama", "LlamaForCausalLM");
    put_size(writer, "num_hidden_layers", shape->layers);
    put_size(writer, "num_attention_heads", shape->heads);
    put_size(writer, "num_key_value_heads", shape->kv_heads);
    put_size(writer, "hidden_size", shape->width);
    put_size(writer, "head_dim", shape->width / shape->heads);
    put_size(writer, "intermediate_size", shape->hidden);
    put_size(writer, "max_position_embeddings", shape->context);
    put_size(writer, "vocab_size", shape->vocabulary);
    JSON_PUT(writer, "rms_norm_eps", shape->norm_epsilon, "rope_theta", shape->rotary_base, "hidden_act", "silu",
             "attention_bias", (bool)false, "mlp_bias", (bool)false, "tie_word_embeddings", (bool)!shape->untied);
}

/* The name of a class, or what stands in its place. */
static const char *label_of_class(const cJSON *class_names, size_t number, char label[LABEL_BYTES])
{
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(class_names, (int)number));
    return name ? name : numbered_label(number, label);
}

static void put_labels(struct json_writer *writer, size_t classes, const cJSON *class_names)
{
    char number[24], label[LABEL_BYTES];
    json_open_object(writer, "id2label");
    for (size_t i = 0; i < classes; i++) {
        snprintf(number, sizeof number, "%zu", i);
        json_put_text(writer, number, label_of_class(class_names, i, label));
    }
    json_close(writer);
    json_open_object(writer, "label2id");
    for (size_t i = 0; i < classes; i++)
        put_size(writer, label_of_class(class_names, i, label), i);
    json_close(writer);
}

static void put_bert(struct json_writer *writer, const struct model_shape *shape, const cJSON *class_names)
{
    put_architecture(writer, "bert", shape->classes ? CLASSIFIER : "BertForPreTraining");
    put_size(writer, "num_hidden_layers", shape->layers);
    put_size(writer, "num_attention_heads", shape->heads);
    put_size(writer, "hidden_size", shape->width);
    put_size(writer, "intermediate_size", shape->hidden);
    put_size(writer, "max_position_embeddings", shape->context);
    put_size(writer, "type_vocab_size", 2);
    put_size(writer, "vocab_size", shape->vocabulary);
    JSON_PUT(writer, "layer_norm_eps", shape->norm_epsilon, "hidden_act", "gelu", "position_embedding_type", "absolute",
             "tie_word_embeddings", (bool)true);
    if (shape->classes)
        put_labels(writer, shape->classes, class_names);
}

static const struct public_form {
    const char *kind;
    void (*put)(struct json_writer *writer, const struct model_shape *shape, const cJSON *class_names);
} public_forms[] = {{"gpt", put_gpt2}, {"llama", put_llama}, {"bert", put_bert}};

static const struct public_form *public_form_find(const char *kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(public_forms); i++)
        if (strcmp(public_forms[i].kind, kind) == 0)
            return &public_forms[i];
    return NULL;
}

weft_status public_config_format(const struct model_shape *shape, const cJSON *class_names, weft_type type, char **text,
                                 struct error *error)
{
    struct json_writer writer;
    const struct public_form *form = public_form_find(shape->kind);
    if (!form)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a model of kind '%s' has no public form of config.json",
                         shape->kind);
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    form->put(&writer, shape, class_names);
    json_put_text(&writer, "torch_dtype", type == WEFT_BF16 ? "bfloat16" : type == WEFT_F16 ? "float16" : "float32");
    json_close(&writer);
    char *made = NULL;
    if (json_text(&writer) && asprintf(&made, "%s\n", json_text(&writer)) < 0)
        made = NULL;
    json_end(&writer);
    if (!made)
        return error_memory(error, 1024, "a config.json");
    *text = made;
    return WEFT_OK;
}
