/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/route/internal/schema.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE       "#/components/schemas/"
#define PLACE_BYTES     256
#define DEPTH_MOST      32
#define PROPERTIES_MOST 128
#define ENTRIES_MOST    1024 /* of an object: looking for names given twice takes time by its square */

struct schema_set {
    cJSON *tree;
};

/* Where in a value, and what it is held against. */
struct visit {
    const struct schema_set *set;
    struct error *error;
    char place[PLACE_BYTES]; /* "nodes[2].gpus"; "" for the body as a whole */
    unsigned depth;
};

weft_status schema_set_new(struct schema_set **set, struct error *error)
{
    struct schema_set *made = calloc(1, sizeof *made);
    if (!made || !(made->tree = cJSON_CreateObject())) {
        free(made);
        return error_memory(error, sizeof *made, "the schemas of the interface");
    }
    *set = made;
    return WEFT_OK;
}

void schema_set_free(struct schema_set *set)
{
    if (!set)
        return;
    cJSON_Delete(set->tree);
    free(set);
}

const cJSON *schema_set_tree(const struct schema_set *set)
{
    return set->tree;
}

static const cJSON *schema_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* ---- adding ---- */

static bool schema_is_known(const char *word)
{
    static const char *const words[] = {"$ref",
                                        "type",
                                        "nullable",
                                        "enum",
                                        "properties",
                                        "required",
                                        "items",
                                        "title",
                                        "description",
                                        "example",
                                        "default",
                                        "format",
                                        "minimum",
                                        "maximum",
                                        "minLength",
                                        "maxLength",
                                        "minItems",
                                        "maxItems",
                                        "additionalProperties"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

static bool is_type(const char *type)
{
    static const char *const types[] = {"object", "array", "string", "integer", "number", "boolean"};
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

/* Only what schema_check() will understand, in this schema and those within. */
static weft_status understand(const char *name, const cJSON *schema, unsigned depth, struct error *error)
{
    const cJSON *word;
    weft_status status = WEFT_OK;
    if (!cJSON_IsObject(schema) || depth > DEPTH_MOST)
        return error_set(error, WEFT_ERROR_DATA, "schema '%s': a schema is an object, %d levels deep at most", name,
                         DEPTH_MOST);
    cJSON_ArrayForEach(word, schema) {
        if (!schema_is_known(word->string))
            return error_set(error, WEFT_ERROR_DATA, "schema '%s': '%s' is not understood", name, word->string);
    }
    if (schema_get(schema, "type") && !is_type(cJSON_GetStringValue(schema_get(schema, "type"))))
        return error_set(error, WEFT_ERROR_DATA, "schema '%s': there is no such type", name);
    cJSON_ArrayForEach(word, schema_get(schema, "properties")) {
        if (status == WEFT_OK)
            status = understand(name, word, depth + 1, error);
    }
    if (status == WEFT_OK && schema_get(schema, "items"))
        status = understand(name, schema_get(schema, "items"), depth + 1, error);
    if (status == WEFT_OK && cJSON_IsObject(schema_get(schema, "additionalProperties")))
        status = understand(name, schema_get(schema, "additionalProperties"), depth + 1, error);
    return status;
}

weft_status schema_set_add(struct schema_set *set, const struct schema *schema, struct error *error)
{
    cJSON *tree = NULL;
    char where[128];
    snprintf(where, sizeof where, "schema '%s'", schema->name);
    if (schema_get(set->tree, schema->name))
        return error_set(error, WEFT_ERROR_DATA, "%s is there twice", where);
    weft_status status = json_parse(schema->json, strlen(schema->json), where, &tree, error);
    if (status == WEFT_OK)
        status = understand(schema->name, tree, 0, error);
    if (status == WEFT_OK && !cJSON_AddItemToObject(set->tree, schema->name, tree))
        status = error_memory(error, strlen(schema->json), where);
    if (status != WEFT_OK)
        cJSON_Delete(tree);
    return status;
}

/* What a $ref leads to, or NULL. */
static const cJSON *schema_follow(const struct schema_set *set, const cJSON *reference)
{
    const char *text = cJSON_GetStringValue(reference);
    return text && strncmp(text, REFERENCE, strlen(REFERENCE)) == 0 ? schema_get(set->tree, text + strlen(REFERENCE))
                                                                    : NULL;
}

static weft_status check_references(const struct schema_set *set, const cJSON *tree, struct error *error)
{
    const cJSON *item;
    weft_status status = WEFT_OK;
    cJSON_ArrayForEach(item, tree) {
        if (item->string && strcmp(item->string, "$ref") == 0 && !schema_follow(set, item))
            return error_set(error, WEFT_ERROR_DATA, "a schema refers to '%s', which is not there",
                             cJSON_IsString(item) ? item->valuestring : "?");
        if (status == WEFT_OK)
            status = check_references(set, item, error);
    }
    return status;
}

weft_status schema_set_check(const struct schema_set *set, struct error *error)
{
    return check_references(set, set->tree, error);
}

/* ---- checking ---- */

static weft_status route_schema_check(struct visit *visit, const cJSON *schema, const cJSON *value);

static const char *schema_place(const struct visit *visit)
{
    return *visit->place ? visit->place : "the body";
}

static const char *schema_kind_of(const cJSON *value)
{
    return cJSON_IsObject(value)   ? "object"
           : cJSON_IsArray(value)  ? "array"
           : cJSON_IsString(value) ? "string"
           : cJSON_IsNumber(value) ? "number"
           : cJSON_IsBool(value)   ? "boolean"
                                   : "null";
}

static bool has_type(const cJSON *value, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return cJSON_IsNumber(value) && value->valuedouble == trunc(value->valuedouble) &&
               fabs(value->valuedouble) <= (double)JSON_EXACT;
    return strcmp(schema_kind_of(value), type) == 0;
}

static const char *with_article(const char *type)
{
    static const char *const types[][2] = {{"object", "an object"}, {"array", "a list"},
                                           {"string", "a text"},    {"integer", "a whole number"},
                                           {"number", "a number"},  {"boolean", "true or false"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i][0], type) == 0)
            return types[i][1];
    return "null";
}

/* Characters of UTF-8. */
static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* `amount` of something ("characters") against the bounds named so. */
static weft_status check_amount(struct visit *visit, const cJSON *schema, const char *least, const char *most,
                                double amount, const char *what)
{
    const cJSON *low = schema_get(schema, least), *high = schema_get(schema, most);
    if (low && amount < low->valuedouble)
        return error_set(visit->error, WEFT_ERROR_DATA, "%s %s %.12g%s%s; the minimum is %.12g", schema_place(visit),
                         *what ? "has" : "is", amount, *what ? " " : "", what, low->valuedouble);
    if (high && amount > high->valuedouble)
        return error_set(visit->error, WEFT_ERROR_DATA, "%s %s %.12g%s%s; the maximum is %.12g", schema_place(visit),
                         *what ? "has" : "is", amount, *what ? " " : "", what, high->valuedouble);
    return WEFT_OK;
}

static weft_status schema_check_choices(struct visit *visit, const cJSON *choices, const cJSON *value)
{
    char list[400] = "";
    const cJSON *choice;
    cJSON_ArrayForEach(choice, choices) {
        size_t length = strlen(list);
        if (cJSON_Compare(choice, value, true))
            return WEFT_OK;
        snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "",
                 cJSON_IsString(choice) ? choice->valuestring : "null");
    }
    return error_set(visit->error, WEFT_ERROR_DATA, "%s is '%.60s'; it can be %s", schema_place(visit),
                     cJSON_IsString(value) ? value->valuestring : schema_kind_of(value), list);
}

/* Check what is within `value`, at ".key" or "[index]" of it. */
static weft_status check_within(struct visit *visit, const cJSON *schema, const cJSON *value, const char *key,
                                int index)
{
    size_t length = strlen(visit->place);
    if (key)
        snprintf(visit->place + length, sizeof visit->place - length, "%s%.60s", length ? "." : "", key);
    else
        snprintf(visit->place + length, sizeof visit->place - length, "[%d]", index);
    text_printable(visit->place + length);
    weft_status status = route_schema_check(visit, schema, value);
    visit->place[length] = '\0';
    return status;
}

static weft_status check_unknown(struct visit *visit, const cJSON *properties, const char *key)
{
    const char *names[PROPERTIES_MOST];
    size_t count = 0;
    const cJSON *each;
    char printable[64];
    cJSON_ArrayForEach(each, properties) {
        if (count < PROPERTIES_MOST)
            names[count++] = each->string;
    }
    const char *nearest = text_nearest(key, names, count);
    snprintf(printable, sizeof printable, "%s", key);
    return error_set(visit->error, WEFT_ERROR_DATA, "%s has no '%s'%s%s%s", schema_place(visit),
                     text_printable(printable), nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

static weft_status schema_check_object(struct visit *visit, const cJSON *schema, const cJSON *value)
{
    const cJSON *properties = schema_get(schema, "properties"), *others = schema_get(schema, "additionalProperties"),
                *each;
    weft_status status = WEFT_OK;
    if (cJSON_GetArraySize(value) > ENTRIES_MOST)
        return error_set(visit->error, WEFT_ERROR_DATA, "%s has %d entries; the maximum is %d", schema_place(visit),
                         cJSON_GetArraySize(value), ENTRIES_MOST);
    cJSON_ArrayForEach(each, schema_get(schema, "required")) {
        if (!schema_get(value, each->valuestring))
            return error_set(visit->error, WEFT_ERROR_DATA, "%s has no '%s', which is needed", schema_place(visit),
                             each->valuestring);
    }
    cJSON_ArrayForEach(each, value) {
        const cJSON *property = schema_get(properties, each->string);
        if (status != WEFT_OK)
            break;
        if (schema_get(value, each->string) != each)
            status =
                error_set(visit->error, WEFT_ERROR_DATA, "%s has '%.60s' twice", schema_place(visit), each->string);
        else if (property)
            status = check_within(visit, property, each, each->string, 0);
        else if (cJSON_IsFalse(others))
            status = check_unknown(visit, properties, each->string);
        else if (cJSON_IsObject(others))
            status = check_within(visit, others, each, each->string, 0);
    }
    return status;
}

static weft_status check_array(struct visit *visit, const cJSON *schema, const cJSON *value)
{
    const cJSON *items = schema_get(schema, "items"), *each;
    int index = 0;
    weft_status status =
        check_amount(visit, schema, "minItems", "maxItems", (double)cJSON_GetArraySize(value), "entries");
    cJSON_ArrayForEach(each, value) {
        if (status == WEFT_OK && items)
            status = check_within(visit, items, each, NULL, index++);
    }
    return status;
}

static weft_status route_schema_check(struct visit *visit, const cJSON *schema, const cJSON *value)
{
    const cJSON *reference = schema_get(schema, "$ref"), *type = schema_get(schema, "type");
    weft_status status = WEFT_OK;
    if (++visit->depth > DEPTH_MOST)
        status =
            error_set(visit->error, WEFT_ERROR_DATA, "%s is nested more than %d deep", schema_place(visit), DEPTH_MOST);
    else if (reference)
        status = route_schema_check(visit, schema_follow(visit->set, reference), value);
    else if (cJSON_IsNull(value) && cJSON_IsTrue(schema_get(schema, "nullable")))
        status = WEFT_OK;
    else if (type && !has_type(value, type->valuestring))
        status = error_set(visit->error, WEFT_ERROR_DATA, "%s has to be %s, not %s", schema_place(visit),
                           with_article(type->valuestring),
                           cJSON_IsNumber(value) && strcmp(type->valuestring, "integer") == 0
                               ? "a number with a fraction or too large"
                               : with_article(schema_kind_of(value)));
    else if (schema_get(schema, "enum"))
        status = schema_check_choices(visit, schema_get(schema, "enum"), value);
    else if (cJSON_IsString(value))
        status =
            check_amount(visit, schema, "minLength", "maxLength", (double)characters(value->valuestring), "characters");
    else if (cJSON_IsNumber(value))
        status = check_amount(visit, schema, "minimum", "maximum", value->valuedouble, "");
    else if (cJSON_IsArray(value))
        status = check_array(visit, schema, value);
    else if (cJSON_IsObject(value))
        status = schema_check_object(visit, schema, value);
    visit->depth--;
    return status;
}

weft_status schema_check(const struct schema_set *set, const char *name, const cJSON *value, struct error *error)
{
    struct visit visit = {.set = set, .error = error};
    const cJSON *schema = schema_get(set->tree, name);
    if (!schema)
        return error_set(error, WEFT_ERROR_STATE, "there is no schema '%s'", name);
    return route_schema_check(&visit, schema, value);
}
