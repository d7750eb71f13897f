/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format/yaml.h"

#include "base/file/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct yaml_tree {
    struct yaml_value *root;
    char where[]; /* the file's name */
};

/* ---- the tree ---- */

static void value_free(struct yaml_value *value)
{
    while (value) {
        struct yaml_value *next = value->next;
        value_free(value->child); /* nests as deep as the parser allowed */
        free((void *)value->key);
        free((void *)value->text);
        free(value);
        value = next;
    }
}

void yaml_tree_free(struct yaml_tree *tree)
{
    if (!tree)
        return;
    value_free(tree->root);
    free(tree);
}

const struct yaml_value *yaml_tree_root(const struct yaml_tree *tree)
{
    return tree->root;
}

const struct yaml_value *yaml_value_find(const struct yaml_value *map, const char *key)
{
    if (map->kind != YAML_MAP)
        return NULL;
    for (const struct yaml_value *value = map->child; value; value = value->next)
        if (strcmp(value->key, key) == 0)
            return value;
    return NULL;
}

static weft_status fail_at(const char *where, size_t line, struct error *error, const char *format, va_list arguments)
{
    char text[ERROR_TEXT_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: %s", where, line, text);
}

weft_status yaml_value_fail(const struct yaml_value *value, struct error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    weft_status status = fail_at(value->tree->where, value->line, error, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- parsing ---- */

struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the one that is read now; empty between two */
    struct yaml_tree *tree;
    struct error *error;
};

static weft_status refuse(struct yaml_reader *reader, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `line` is counted from 0, as libyaml does. */
static weft_status refuse(struct yaml_reader *reader, size_t line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    weft_status status = fail_at(reader->tree->where, line + 1, reader->error, format, arguments);
    va_end(arguments);
    return status;
}

static weft_status next_event(struct yaml_reader *reader)
{
    yaml_event_delete(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event))
        return WEFT_OK;
    memset(&reader->event, 0, sizeof reader->event);
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return error_memory(reader->error, YAML_BYTES_MOST, "reading YAML");
    size_t line = parser->problem_mark.line;
    if (parser->error == YAML_READER_ERROR) /* which counts bytes only */
        return refuse(reader, parser->mark.line, "this is not UTF-8 text: %s at byte %zu", parser->problem,
                      parser->problem_offset);
    return refuse(reader, line, "this is not valid YAML: %s", parser->problem ? parser->problem : "unknown");
}

static weft_status check_plain(struct yaml_reader *reader, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    size_t line = reader->event.start_mark.line;
    if (anchor)
        return refuse(reader, line, "anchors (&name) and aliases (*name) are not supported here; write the value out");
    if (tag)
        return refuse(reader, line, "tags (!name) are not supported here; write the value alone");
    return WEFT_OK;
}

/* A copy of the text that the event holds. */
static weft_status take_text(struct yaml_reader *reader, char **text)
{
    const char *value = (const char *)reader->event.data.scalar.value;
    size_t length = reader->event.data.scalar.length;
    char *copy = malloc(length + 1), *printable = malloc(length + 1);
    weft_status status = WEFT_OK;
    if (!copy || !printable) {
        status = error_memory(reader->error, 2 * length + 2, "a text of YAML");
    } else {
        memcpy(copy, value, length);
        copy[length] = '\0';
        if (strlen(copy) != length || strcmp(text_printable(strcpy(printable, copy)), copy) != 0)
            status = refuse(reader, reader->event.start_mark.line, "a string must be one line of printable characters");
    }
    free(printable);
    if (status != WEFT_OK) {
        free(copy);
        return status;
    }
    *text = copy;
    return WEFT_OK;
}

/* The key that the event holds. */
static weft_status take_key(struct yaml_reader *reader, const struct yaml_value *map, char **key)
{
    const yaml_event_t *event = &reader->event;
    size_t line = event->start_mark.line;
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(reader, line, "a key must be a word");
    weft_status status = check_plain(reader, event->data.scalar.anchor, event->data.scalar.tag);
    if (status != WEFT_OK || (status = take_text(reader, key)) != WEFT_OK)
        return status;
    const struct yaml_value *before = yaml_value_find(map, *key);
    if (!before && **key)
        return WEFT_OK;
    if (before)
        status = refuse(reader, line, "'%.100s' is given twice, first in line %u; leave one of them out", *key,
                        before->line);
    else
        status = refuse(reader, line, "a key must be a word");
    free(*key);
    *key = NULL;
    return status;
}

static weft_status read_value(struct yaml_reader *reader, unsigned depth, char *key, struct yaml_value **place);

/* The entries of a list or map, until the event that ends it. */
static weft_status read_entries(struct yaml_reader *reader, unsigned depth, struct yaml_value *parent)
{
    const yaml_event_type_t end = parent->kind == YAML_MAP ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    const size_t most = parent->kind == YAML_MAP ? YAML_ENTRIES_MOST : YAML_ITEMS_MOST;
    struct yaml_value **place = &parent->child;
    for (size_t count = 0;; count++) {
        char *key = NULL;
        weft_status status = next_event(reader);
        if (status != WEFT_OK || reader->event.type == end)
            return status;
        if (count == most)
            return refuse(reader, reader->event.start_mark.line, "more than %zu entries are not supported", most);
        if (parent->kind == YAML_MAP) {
            status = take_key(reader, parent, &key);
            if (status == WEFT_OK && (status = next_event(reader)) != WEFT_OK)
                free(key);
        }
        if (status == WEFT_OK)
            status = read_value(reader, depth, key, place);
        if (status != WEFT_OK)
            return status;
        place = &(*place)->next;
    }
}

/* The value that begins with the event; it takes ownership of `key`. */
static weft_status read_value(struct yaml_reader *reader, unsigned depth, char *key, struct yaml_value **place)
{
    const yaml_event_t *event = &reader->event;
    struct yaml_value *value = calloc(1, sizeof *value);
    if (!value) {
        free(key);
        return error_memory(reader->error, sizeof *value, "a value of YAML");
    }
    *value = (struct yaml_value){.key = key, .line = (unsigned)event->start_mark.line + 1, .tree = reader->tree};
    *place = value; /* freed with the tree from here on */
    if (event->type == YAML_SCALAR_EVENT) {
        weft_status status = check_plain(reader, event->data.scalar.anchor, event->data.scalar.tag);
        char *text = NULL;
        if (status == WEFT_OK)
            status = take_text(reader, &text);
        value->text = text;
        value->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        return status;
    }
    if (event->type == YAML_ALIAS_EVENT)
        return check_plain(reader, event->data.alias.anchor, NULL);
    value->kind = event->type == YAML_MAPPING_START_EVENT ? YAML_MAP : YAML_LIST;
    weft_status status = value->kind == YAML_MAP
                             ? check_plain(reader, event->data.mapping_start.anchor, event->data.mapping_start.tag)
                             : check_plain(reader, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    if (status == WEFT_OK && depth == YAML_DEPTH_MOST)
        status = refuse(reader, event->start_mark.line, "lists and maps nest more than %d deep", YAML_DEPTH_MOST);
    return status == WEFT_OK ? read_entries(reader, depth + 1, value) : status;
}

/* Parse the only document of a text, and check that nothing follows it. */
static weft_status read_document(struct yaml_reader *reader)
{
    weft_status status = next_event(reader); /* the beginning of the text */
    if (status == WEFT_OK)
        status = next_event(reader);
    if (status == WEFT_OK && reader->event.type == YAML_STREAM_END_EVENT)
        return error_set(reader->error, WEFT_ERROR_DATA, "%s is empty, or has comments only", reader->tree->where);
    if (status == WEFT_OK)
        status = next_event(reader);
    if (status == WEFT_OK)
        status = read_value(reader, 0, NULL, &reader->tree->root);
    if (status == WEFT_OK)
        status = next_event(reader); /* the end of the document */
    if (status == WEFT_OK)
        status = next_event(reader);
    if (status == WEFT_OK && reader->event.type != YAML_STREAM_END_EVENT)
        return refuse(reader, reader->event.start_mark.line, "a second document begins here; a file has one");
    return status;
}

weft_status yaml_tree_parse(const char *text, size_t size, const char *where, struct yaml_tree **result,
                            struct error *error)
{
    if (size > YAML_BYTES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s has %zu bytes; the limit is %zu", where, size, YAML_BYTES_MOST);
    size_t length = strlen(where) + 1;
    struct yaml_reader reader = {.tree = calloc(1, sizeof *reader.tree + length), .error = error};
    if (!reader.tree || !yaml_parser_initialize(&reader.parser)) {
        free(reader.tree);
        return error_memory(error, sizeof reader + length, "reading YAML");
    }
    memcpy(reader.tree->where, where, length);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    weft_status status = read_document(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    if (status != WEFT_OK) {
        yaml_tree_free(reader.tree);
        return status;
    }
    *result = reader.tree;
    return WEFT_OK;
}

weft_status yaml_tree_read(const char *path, struct yaml_tree **tree, struct error *error)
{
    char *text;
    size_t size;
    weft_status status = file_read(path, YAML_BYTES_MOST, &text, &size, error);
    if (status != WEFT_OK)
        return status;
    status = yaml_tree_parse(text, size, path, tree, error);
    free(text);
    return status;
}

/* ---- values ---- */

/* The name ("layers"), or a description of a value without one. */
static const char *name_of(const struct yaml_value *value)
{
    return value->key ? value->key : "a value";
}

/* Check that it is a string; `kind` ("a whole number") is what was expected. */
static weft_status check_text(const struct yaml_value *value, bool may_be_quoted, const char *kind, struct error *error)
{
    if (value->kind != YAML_TEXT)
        return yaml_value_fail(value, error, "'%.100s' is a %s; it must be %s", name_of(value),
                               value->kind == YAML_MAP ? "map" : "list", kind);
    if (!*value->text)
        return yaml_value_fail(value, error, "'%.100s' has no value; it must be %s", name_of(value), kind);
    if (value->quoted && !may_be_quoted)
        return yaml_value_fail(value, error, "'%.100s' is the string \"%.100s\"; it must be %s, without quotes",
                               name_of(value), value->text, kind);
    return WEFT_OK;
}

weft_status yaml_value_get_whole(const struct yaml_value *value, int64_t least, int64_t most, int64_t *number,
                                 struct error *error)
{
    struct error reason = {0};
    weft_status status = check_text(value, false, "a whole number", error);
    if (status == WEFT_OK && text_parse_integer(value->text, name_of(value), least, most, number, &reason) != WEFT_OK)
        return yaml_value_fail(value, error, "%s", reason.text);
    return status;
}

weft_status yaml_value_get_number(const struct yaml_value *value, double least, double most, double *number,
                                  struct error *error)
{
    struct error reason = {0};
    weft_status status = check_text(value, false, "a number", error);
    if (status == WEFT_OK && text_parse_number(value->text, name_of(value), least, most, number, &reason) != WEFT_OK)
        return yaml_value_fail(value, error, "%s", reason.text);
    return status;
}

weft_status yaml_value_get_quantity(const struct yaml_value *value, enum quantity quantity, double least, double most,
                                    double *number, struct error *error)
{
    struct error reason = {0};
    weft_status status = check_text(value, quantity != QUANTITY_NUMBER, "a number", error);
    if (status == WEFT_OK &&
        quantity_parse(value->text, name_of(value), quantity, least, most, number, &reason) != WEFT_OK)
        return yaml_value_fail(value, error, "%s", reason.text);
    return status;
}

weft_status yaml_value_get_bool(const struct yaml_value *value, bool *truth, struct error *error)
{
    weft_status status = check_text(value, false, "true or false", error);
    if (status != WEFT_OK)
        return status;
    bool is_true = strcmp(value->text, "true") == 0;
    if (!is_true && strcmp(value->text, "false") != 0)
        return yaml_value_fail(value, error, "%.100s is '%.100s'; it must be true or false", name_of(value),
                               value->text);
    *truth = is_true;
    return WEFT_OK;
}

weft_status yaml_value_get_text(const struct yaml_value *value, const char **text, struct error *error)
{
    weft_status status = check_text(value, true, "a text", error);
    if (status == WEFT_OK)
        *text = value->text;
    return status;
}
