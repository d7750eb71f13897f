/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/file/model_file.h"

#include "base/format/yaml.h"
#include "base/text.h"
#include "training/model/networks/networks.h"
#include "training/model/shape.h"

#include <float.h>
#include <string.h>

#define NAMES_MOST 32 /* keys of a description */

/* "kv-heads" as it is called in the table. */
static void to_name(const char *key, char name[MODEL_NAME_BYTES])
{
    size_t i = 0;
    for (; key[i] && i + 1 < MODEL_NAME_BYTES; i++)
        name[i] = key[i] == '-' ? '_' : key[i];
    name[i] = '\0';
}

/* The number that a key sets; NULL for "kind" and "like". */
static weft_status find_number(const struct yaml_value *value, const struct shape_number **number, struct error *error)
{
    char name[MODEL_NAME_BYTES];
    const char *names[NAMES_MOST] = {"kind", "like"};
    size_t count = 2;
    to_name(value->key, name);
    *number = NULL;
    if (strcmp(name, "kind") == 0 || strcmp(name, "like") == 0)
        return WEFT_OK;
    for (size_t i = 0; i < shape_number_count; i++) {
        names[count++] = shape_numbers[i].name;
        if (strcmp(name, shape_numbers[i].name) == 0) {
            *number = &shape_numbers[i];
            return WEFT_OK;
        }
    }
    const char *nearest = text_nearest(name, names, count);
    return yaml_value_fail(value, error, "a description of a network has no '%.60s'%s%s%s", value->key,
                           nearest ? ", did you mean '" : "; it has kind or like, and numbers such as layers and width",
                           nearest ? nearest : "", nearest ? "'?" : "");
}

/* Start from the size under "like" and from the kind. */
static weft_status read_beginning(const struct yaml_value *root, const char *where, struct model_shape *shape,
                                  struct error *error)
{
    const struct yaml_value *like = yaml_value_find(root, "like"), *kind = yaml_value_find(root, "kind");
    const char *name;
    struct error reason = {0};
    *shape = (struct model_shape){0};
    if (!like && !kind) {
        char kinds[128];
        return error_set(error, WEFT_ERROR_DATA, "%s has neither a 'kind' (%s) nor a size that it is 'like'", where,
                         network_kinds(kinds, sizeof kinds));
    }
    if (like) {
        weft_status status = yaml_value_get_text(like, &name, error);
        if (status != WEFT_OK)
            return status;
        if (model_shape_find(name, shape, &reason) != WEFT_OK)
            return yaml_value_fail(like, error, "%s", reason.text);
    }
    if (kind) {
        weft_status status = yaml_value_get_text(kind, &name, error);
        if (status != WEFT_OK)
            return status;
        const struct network *network = network_find(name, &reason);
        if (!network)
            return yaml_value_fail(kind, error, "%s", reason.text);
        if (like && strcmp(shape->kind, network->kind) != 0)
            return yaml_value_fail(kind, error,
                                   "the kind is %s, but what it is like in line %u is of kind %s; leave one out",
                                   network->kind, like->line, shape->kind);
        shape->kind = network->kind;
    }
    return WEFT_OK;
}

static weft_status model_file_read_number(const struct yaml_value *value, const struct shape_number *number,
                                          double *result, struct error *error)
{
    weft_status status;
    int64_t whole = 0;
    bool flag = false;
    switch (number->kind) {
    case SHAPE_WHOLE:
        status = yaml_value_get_whole(value, number->may_be_usual ? 0 : (int64_t)number->least, (int64_t)number->most,
                                      &whole, error);
        *result = (double)whole;
        return status;
    case SHAPE_FLAG:
        status = yaml_value_get_bool(value, &flag, error);
        *result = flag;
        return status;
    case SHAPE_REAL:
        break;
    }
    status = yaml_value_get_number(value, -DBL_MAX, DBL_MAX, result, error);
    if (status == WEFT_OK && !(*result >= number->least && *result <= number->most) &&
        !(number->may_be_usual && *result == 0))
        return yaml_value_fail(value, error, "%s is %s, but must be from %g to %g", number->name, value->text,
                               number->least, number->most);
    return status;
}

static weft_status model_file_read_numbers(const struct yaml_value *root, struct model_shape *shape,
                                           struct error *error)
{
    const struct network *network = network_find(shape->kind, NULL);
    const struct yaml_value *seen[NAMES_MOST] = {NULL};
    for (const struct yaml_value *value = root->child; value; value = value->next) {
        const struct shape_number *number;
        double read;
        weft_status status = find_number(value, &number, error);
        if (status != WEFT_OK)
            return status;
        if (!number)
            continue;
        const struct yaml_value **before = &seen[number - shape_numbers];
        if (*before)
            return yaml_value_fail(value, error, "'%s' is given twice, first in line %u as '%s'; leave one of them out",
                                   value->key, (*before)->line, (*before)->key);
        *before = value;
        if (!network_has(network, number))
            return yaml_value_fail(value, error, "a network of kind %s has no '%s'; leave it out", network->kind,
                                   number->name);
        status = model_file_read_number(value, number, &read, error);
        if (status != WEFT_OK)
            return status;
        shape_number_set(shape, number, read);
    }
    return WEFT_OK;
}

/* Check that the file describes a complete network. */
static weft_status model_file_check(const struct model_shape *shape, const char *where, struct error *error)
{
    const struct network *network = network_find(shape->kind, NULL);
    for (size_t i = 0; i < shape_number_count; i++) {
        const struct shape_number *number = &shape_numbers[i];
        if (network_has(network, number) && number->kind != SHAPE_FLAG && !number->may_be_usual &&
            shape_number_get(shape, number) == 0)
            return error_set(error, WEFT_ERROR_DATA, "%s lacks '%s' (%s), which a network of kind %s needs", where,
                             number->name, number->about, network->kind);
    }
    struct model_description *description = NULL;
    struct error reason = {0};
    weft_status status = model_describe(shape, &description, &reason);
    model_description_free(description);
    return status == WEFT_OK
               ? WEFT_OK
               : error_set(error, status == WEFT_ERROR_MEMORY ? status : WEFT_ERROR_DATA, "%s: %s", where, reason.text);
}

static weft_status model_file_read_document(const struct yaml_tree *tree, const char *where, struct model_shape *result,
                                            struct error *error)
{
    const struct yaml_value *root = yaml_tree_root(tree);
    struct model_shape shape;
    if (root->kind != YAML_MAP)
        return yaml_value_fail(root, error, "a description of a network is lines such as 'kind: gpt' and 'layers: 6'");
    weft_status status = read_beginning(root, where, &shape, error);
    if (status == WEFT_OK)
        status = model_file_read_numbers(root, &shape, error);
    if (status == WEFT_OK)
        status = model_file_check(&shape, where, error);
    if (status == WEFT_OK)
        *result = shape;
    return status;
}

weft_status model_file_parse(const char *text, size_t size, const char *where, struct model_shape *shape,
                             struct error *error)
{
    struct yaml_tree *tree;
    weft_status status = yaml_tree_parse(text, size, where, &tree, error);
    if (status != WEFT_OK)
        return status;
    status = model_file_read_document(tree, where, shape, error);
    yaml_tree_free(tree);
    return status;
}

bool model_file_is_named(const char *name)
{
    return strchr(name, '/') || text_ends_in(name, ".yaml") || text_ends_in(name, ".yml");
}

static weft_status model_shape_load_file(const char *name, struct model_shape *shape, struct error *error)
{
    struct yaml_tree *tree;
    weft_status status = yaml_tree_read(name, &tree, error);
    if (status != WEFT_OK)
        return status;
    status = model_file_read_document(tree, name, shape, error);
    yaml_tree_free(tree);
    return status;
}

weft_status model_shape_load(const char *name, struct model_shape *shape, struct error *error)
{
    const weft_status status =
        model_file_is_named(name) ? model_shape_load_file(name, shape, error) : model_shape_find(name, shape, error);
    if (status == WEFT_OK && network_find(shape->kind, NULL)->reads_images)
        shape->context = 1; /* a row is an image */
    return status;
}
