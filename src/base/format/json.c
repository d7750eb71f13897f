/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format/json.h"
#include "base/file/file.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

#define FILE_MOST ((size_t)64 << 20)

/* The position of an escaped NUL in a string, which would silently truncate it, or NULL. A backslash escapes the next
 * byte.
 */
static const char *find_escaped_nul(const char *text, size_t size)
{
    const char *end = text + size;
    while ((text = memchr(text, '\\', (size_t)(end - text))) != NULL) {
        if (end - text >= 6 && memcmp(text, "\\u0000", 6) == 0)
            return text;
        text += end - text < 2 ? 1 : 2;
    }
    return NULL;
}

/* Whether a text ends inside a string, a list or an object. */
static bool is_cut_short(const char *text, size_t size)
{
    bool quoted = false;
    int64_t depth = 0;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
    }
    return quoted || depth > 0;
}

weft_status json_parse(const char *text, size_t size, const char *where, cJSON **root, struct error *error)
{
    const char *end = NULL, *nul = find_escaped_nul(text, size);
    if (nul)
        return error_set(error, WEFT_ERROR_DATA, "%s has a NUL character in a string, at byte %zu of %zu", where,
                         (size_t)(nul - text), size);
    cJSON *tree = cJSON_ParseWithLengthOpts(text, size, &end, false);
    if (!tree) {
        size_t at = end && end >= text && end <= text + size ? (size_t)(end - text) : 0;
        if (at + 1 >= size && is_cut_short(text, size)) /* the parser then points at the last byte */
            return error_set(error, WEFT_ERROR_DATA, "%s is no valid JSON: it ends, at byte %zu, before it is complete",
                             where, size);
        return error_set(error, WEFT_ERROR_DATA, "%s is no valid JSON: it goes wrong at byte %zu of %zu", where, at,
                         size);
    }
    while (end < text + size && isspace((unsigned char)*end))
        end++;
    if (end != text + size) {
        cJSON_Delete(tree);
        return error_set(error, WEFT_ERROR_DATA, "%s has something after its end, at byte %zu of %zu", where,
                         (size_t)(end - text), size);
    }
    *root = tree;
    return WEFT_OK;
}

weft_status json_read(const char *path, cJSON **root, struct error *error)
{
    char *text;
    size_t size;
    weft_status result = file_read(path, FILE_MOST, &text, &size, error);
    if (result != WEFT_OK)
        return result;
    char where[FILE_PATH_BYTES + 2];
    snprintf(where, sizeof where, "'%s'", path);
    result = json_parse(text, size, where, root, error);
    free(text);
    return result;
}

/*
 * The item of `key` if it exists and has the kind that `is` tests for; else NULL, with the message (WEFT_ERROR_DATA).
 */
static const cJSON *get(const cJSON *object, const char *key, const char *where, cJSON_bool (*is)(const cJSON *),
                        const char *kind, struct error *error)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        error_set(error, WEFT_ERROR_DATA, "%s lacks '%s', which should be %s", where, key, kind);
    else if (!is(item))
        error_set(error, WEFT_ERROR_DATA, "'%s' in %s is not %s", key, where, kind);
    else
        return item;
    return NULL;
}

weft_status json_get_object(const cJSON *object, const char *key, const char *where, const cJSON **value,
                            struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsObject, "an object", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = item;
    return WEFT_OK;
}

weft_status json_get_array(const cJSON *object, const char *key, const char *where, const cJSON **value,
                           struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsArray, "an array", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = item;
    return WEFT_OK;
}

weft_status json_get_bool(const cJSON *object, const char *key, const char *where, bool *value, struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsBool, "true or false", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = cJSON_IsTrue(item);
    return WEFT_OK;
}

weft_status json_get_number(const cJSON *object, const char *key, const char *where, double *value, struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsNumber, "a number", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = item->valuedouble;
    return WEFT_OK;
}

weft_status json_get_text(const cJSON *object, const char *key, const char *where, const char **value,
                          struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsString, "a string", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = item->valuestring;
    return WEFT_OK;
}

weft_status json_get_integer(const cJSON *object, const char *key, const char *where, int64_t least, int64_t most,
                             int64_t *value, struct error *error)
{
    const cJSON *item = get(object, key, where, cJSON_IsNumber, "a number", error);
    if (!item)
        return WEFT_ERROR_DATA;
    double number = item->valuedouble;
    if (!(number >= (double)least && number <= (double)most) || number != floor(number))
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' in %s is %.17g, but must be a whole number from %" PRId64 " to %" PRId64, key, where,
                         number, least, most);
    *value = (int64_t)number;
    return WEFT_OK;
}

static cJSON_bool is_unsigned(const cJSON *item)
{
    if (cJSON_IsNumber(item))
        return item->valuedouble >= 0 && item->valuedouble <= (double)JSON_EXACT &&
               item->valuedouble == floor(item->valuedouble);
    if (!cJSON_IsString(item) || !isdigit((unsigned char)item->valuestring[0]))
        return false;
    char *end;
    errno = 0;
    strtoull(item->valuestring, &end, 10);
    return errno == 0 && *end == '\0';
}

weft_status json_get_unsigned(const cJSON *object, const char *key, const char *where, uint64_t *value,
                              struct error *error)
{
    const cJSON *item = get(object, key, where, is_unsigned, "a whole number from 0 to 2^64 - 1", error);
    if (!item)
        return WEFT_ERROR_DATA;
    *value = cJSON_IsString(item) ? strtoull(item->valuestring, NULL, 10) : (uint64_t)item->valuedouble;
    return WEFT_OK;
}

/* ---- writing ---- */

void json_begin(struct json_writer *writer, enum json_layout layout)
{
    memset(writer, 0, sizeof *writer);
    writer->layout = layout;
}

void json_begin_line(struct json_writer *writer)
{
    json_begin(writer, JSON_LINE);
    json_open_object(writer, NULL);
}

void json_restart(struct json_writer *writer)
{
    struct buffer text = writer->text;
    json_begin(writer, writer->layout);
    text.start = text.end = 0;
    text.failed = false;
    writer->text = text;
}

void json_end(struct json_writer *writer)
{
    buffer_free(&writer->text);
    memset(writer, 0, sizeof *writer);
}

const char *json_text(const struct json_writer *writer)
{
    if (writer->text.failed)
        return NULL;
    return json_size(writer) ? (const char *)writer->text.bytes : "";
}

weft_status json_print(const struct json_writer *writer, FILE *output, struct error *error)
{
    const char *text = json_text(writer);
    if (!text)
        return error_memory(error, json_size(writer), "a text in JSON");
    if (fprintf(output, "%s\n", text) < 0)
        return error_system(error, "cannot print a text in JSON");
    return WEFT_OK;
}

weft_status json_complete(struct json_writer *writer, FILE *output, struct error *error)
{
    while (writer->depth > 0)
        json_close(writer);
    weft_status status = json_print(writer, output, error);
    json_end(writer);
    return status;
}

static void append(struct json_writer *writer, const char *bytes, size_t size)
{
    uint8_t *place = writer->text.failed ? NULL : buffer_reserve(&writer->text, size + 1);
    if (!place)
        return;
    memcpy(place, bytes, size);
    place[size] = '\0';
    writer->text.end += size;
}

static void append_text(struct json_writer *writer, const char *text)
{
    append(writer, text, strlen(text));
}

static void append_quoted(struct json_writer *writer, const char *text)
{
    append(writer, "\"", 1);
    for (const char *next = text; *next; next++) {
        const char *plain = next;
        while ((unsigned char)*next >= 0x20 && *next != '"' && *next != '\\')
            next++;
        append(writer, plain, (size_t)(next - plain));
        char escape[8];
        if (!*next)
            break;
        if (*next == '"' || *next == '\\')
            append(writer, (char[]){'\\', *next}, 2);
        else if (*next == '\n')
            append(writer, "\\n", 2);
        else
            append(writer, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*next));
    }
    append(writer, "\"", 1);
}

static void new_line(struct json_writer *writer)
{
    if (writer->layout == JSON_LINE)
        return;
    append(writer, "\n", 1);
    for (int i = 0; i < writer->depth; i++)
        append(writer, "  ", 2);
}

/* Write the prefix of a value: a comma, a new line, its key. */
static void lead(struct json_writer *writer, const char *key)
{
    if (writer->depth > 0) {
        if (!writer->empty[writer->depth - 1])
            append(writer, ",", 1);
        writer->empty[writer->depth - 1] = false;
        new_line(writer);
    }
    if (key) {
        append_quoted(writer, key);
        append_text(writer, writer->layout == JSON_LINE ? ":" : ": ");
    }
}

static void open_level(struct json_writer *writer, const char *key, char opening, char closing)
{
    lead(writer, key);
    if (writer->depth == JSON_DEPTH) {
        writer->text.failed = true;
        return;
    }
    append(writer, &opening, 1);
    writer->closing[writer->depth] = closing;
    writer->empty[writer->depth] = true;
    writer->depth++;
}

void json_open_object(struct json_writer *writer, const char *key)
{
    open_level(writer, key, '{', '}');
}

void json_open_array(struct json_writer *writer, const char *key)
{
    open_level(writer, key, '[', ']');
}

void json_close(struct json_writer *writer)
{
    if (writer->depth == 0)
        return;
    writer->depth--;
    if (!writer->empty[writer->depth])
        new_line(writer);
    append(writer, &writer->closing[writer->depth], 1);
}

void json_put_raw(struct json_writer *writer, const char *key, const char *value)
{
    lead(writer, key);
    append_text(writer, value);
}

void json_put_text(struct json_writer *writer, const char *key, const char *value)
{
    lead(writer, key);
    if (value)
        append_quoted(writer, value);
    else
        append_text(writer, "null");
}

void json_put_bool(struct json_writer *writer, const char *key, bool value)
{
    json_put_raw(writer, key, value ? "true" : "false");
}

/* Write the last `count` or more digits of `value` before `end`; returns where they begin. Metrics are written in training
 * loops, and this takes a fifth of the time of snprintf(). */
static char *put_digits(char *end, uint64_t value, int count)
{
    for (; value > 0 || count > 0; value /= 10, count--)
        *--end = (char)('0' + value % 10);
    return end;
}

void json_put_integer(struct json_writer *writer, const char *key, int64_t value)
{
    char text[24] = "", *begin = put_digits(text + sizeof text - 1, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
    if (value < 0)
        *--begin = '-';
    json_put_raw(writer, key, begin);
}

void json_put_microseconds(struct json_writer *writer, const char *key, uint64_t microseconds)
{
    char text[24] = "", *begin = put_digits(text + sizeof text - 1, microseconds % 1000000, 6);
    *--begin = '.';
    json_put_raw(writer, key, put_digits(begin, microseconds / 1000000, 1));
}

void json_put_number(struct json_writer *writer, const char *key, double value)
{
    char digits[TEXT_NUMBER_BYTES];
    json_put_raw(writer, key, isfinite(value) ? text_number(value, digits) : "null");
}

void json_put_unsigned(struct json_writer *writer, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, value > (uint64_t)JSON_EXACT ? "\"%" PRIu64 "\"" : "%" PRIu64, value);
    json_put_raw(writer, key, digits);
}

void json_put_tree(struct json_writer *writer, const char *key, const cJSON *tree)
{
    char digits[TEXT_NUMBER_BYTES];
    if (cJSON_IsObject(tree) || cJSON_IsArray(tree)) {
        bool object = cJSON_IsObject(tree);
        open_level(writer, key, object ? '{' : '[', object ? '}' : ']');
        for (const cJSON *child = tree->child; child && !writer->text.failed; child = child->next)
            json_put_tree(writer, object ? child->string : NULL, child);
        json_close(writer);
    } else if (cJSON_IsNumber(tree)) {
        json_put_raw(writer, key, isfinite(tree->valuedouble) ? text_number_exact(tree->valuedouble, digits) : "null");
    } else if (cJSON_IsBool(tree)) {
        json_put_bool(writer, key, cJSON_IsTrue(tree));
    } else {
        json_put_text(writer, key, cJSON_GetStringValue(tree));
    }
}
