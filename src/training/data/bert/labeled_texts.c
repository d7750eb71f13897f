/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/internal/labeled_texts.h"
#include "base/file/file.h"
#include "base/hash.h"
#include "base/hash_index.h"
#include "base/text.h"
#include "training/data/bert/labeled.h"
#include "training/data/internal/permutation.h"
#include "training/data/text_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_HELD_OUT 0x6c6162656c686fu
#define SHOWN_BYTES     64 /* of a label in a message */

/* Files being read. Labels are numbered as they come, until all are known. */
struct labeled_parser {
    struct labeled_texts *texts;
    struct encoder *encoder;
    const struct bert_data_options *options;
    struct hash_index labels; /* a label's hash to its item of `classes` plus one, as a pointer */
    const char *path;
    uint64_t line;
};

/* A column of a line. */
struct labeled_column {
    const char *text;
    size_t size;
};

/* ---- lines ---- */

static const char *label_show(struct labeled_column label, char shown[SHOWN_BYTES])
{
    snprintf(shown, SHOWN_BYTES, "%.*s", (int)(label.size < SHOWN_BYTES ? label.size : SHOWN_BYTES), label.text);
    return text_printable(shown);
}

static bool column_is_empty(struct labeled_column column)
{
    for (size_t i = 0; i < column.size; i++)
        if (!isspace((unsigned char)column.text[i]))
            return false;
    return true;
}

static weft_status labeled_add_label(struct labeled_parser *parser, struct labeled_column label, int32_t *number,
                                     struct error *error)
{
    struct string_list *classes = &parser->texts->classes;
    const uint64_t key = hash_bytes(label.text, label.size, 0) | 1;
    const uintptr_t known = (uintptr_t)hash_index_find(&parser->labels, key);
    *number = (int32_t)(known ? known - 1 : classes->count);
    if (known)
        return WEFT_OK;
    char shown[SHOWN_BYTES];
    if (classes->count == LABELED_CLASSES_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' has one more label, '%s', after %d different ones; is the first "
                         "column the label?",
                         parser->line, parser->path, label_show(label, shown), LABELED_CLASSES_MOST);
    weft_status status = string_list_add_bytes(classes, label.text, label.size, error);
    return status == WEFT_OK ? hash_index_add(&parser->labels, key, (void *)(uintptr_t)classes->count, error) : status;
}

/* Of a text, or two, of these numbers of tokens. */
static void labeled_add_hash(struct labeled_texts *texts, struct labeled_column label, const int32_t *tokens,
                             size_t first, size_t second)
{
    texts->encoded += first + second;
    texts->hash = hash_bytes(label.text, label.size, texts->hash);
    texts->hash = hash_bytes(tokens, (first + second) * sizeof *tokens, texts->hash);
    texts->hash = hash_number(second, hash_number(first, texts->hash));
}

static weft_status labeled_add_text(struct labeled_parser *parser, struct labeled_column label,
                                    struct labeled_column one, struct labeled_column other, struct error *error)
{
    struct labeled_texts *texts = parser->texts;
    struct token_list *tokens = &texts->tokens;
    struct labeled_text text = {.first = tokens->count, .is_pair = other.text != NULL};
    weft_status status = labeled_add_label(parser, label, &text.label, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(texts->texts, texts->room, texts->count + 1, "a list of texts", error);
    if (status == WEFT_OK)
        status = encoder_encode(parser->encoder, one.text, one.size, tokens, error);
    if (status != WEFT_OK)
        return status;
    const size_t middle = tokens->count;
    if (text.is_pair)
        status = encoder_encode(parser->encoder, other.text, other.size, tokens, error);
    if (status != WEFT_OK)
        return status;
    size_t first = middle - text.first, second = tokens->count - middle;
    labeled_add_hash(texts, label, tokens->tokens + text.first, first, second);
    sample_fit(sample_room(parser->options->sequence, 1 + text.is_pair), &first, &second);
    if (second > 0)
        memmove(tokens->tokens + text.first + first, tokens->tokens + middle, second * sizeof *tokens->tokens);
    tokens->count = text.first + first + second;
    text.one = (uint32_t)first;
    text.other = (uint32_t)second;
    texts->texts[texts->count++] = text;
    return WEFT_OK;
}

static weft_status labeled_parse_line(struct labeled_parser *parser, const char *line, size_t size, struct error *error)
{
    struct labeled_column columns[3] = {0};
    int count = 0;
    for (size_t begin = 0; begin <= size; count++) {
        const char *tab = memchr(line + begin, '\t', size - begin);
        const size_t end = tab ? (size_t)(tab - line) : size;
        if (count < 3)
            columns[count] = (struct labeled_column){line + begin, end - begin};
        begin = end + 1;
    }
    if (count < 2 || count > 3)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' has %d %s, but must be a label, a tab and a text, perhaps with "
                         "another tab and a second text",
                         parser->line, parser->path, count - 1, count == 2 ? "tab" : "tabs");
    static const char *const names[] = {"label", "text", "second text"};
    for (int i = 0; i < count; i++)
        if (column_is_empty(columns[i]))
            return error_set(error, WEFT_ERROR_DATA, "line %" PRIu64 " of '%s' has an empty %s; complete or remove it",
                             parser->line, parser->path, names[i]);
    if (memchr(columns[0].text, 0, columns[0].size))
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' has a NUL byte in its label; is the file text?", parser->line,
                         parser->path);
    return labeled_add_text(parser, columns[0], columns[1], columns[2], error);
}

static weft_status labeled_parse_file(struct labeled_parser *parser, const char *path, struct error *error)
{
    struct file_map map;
    weft_status status = file_map(path, &map, error);
    if (status != WEFT_OK)
        return status;
    parser->path = path;
    parser->line = 0;
    const bool is_marked = map.size >= 3 && memcmp(map.bytes, "\xEF\xBB\xBF", 3) == 0; /* a byte-order mark */
    for (const char *end = (const char *)map.bytes + map.size, *at = (const char *)map.bytes + (is_marked ? 3 : 0);
         at < end && status == WEFT_OK;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline ? newline : end;
        size_t size = (size_t)(next - at);
        if (size > 0 && at[size - 1] == '\r')
            size--;
        parser->line++;
        if (size > 0)
            status = labeled_parse_line(parser, at, size, error);
        at = next + (next < end);
    }
    file_unmap(&map);
    return status;
}

/* ---- splits ---- */

static bool labeled_is_held_out(const char *path)
{
    return data_file_is_held_out(path) || data_file_is_test(path);
}

static weft_status labeled_read_files(struct labeled_parser *parser, const struct text_files *files,
                                      struct error *error)
{
    struct labeled_texts *texts = parser->texts;
    size_t named = 0;
    for (size_t i = 0; i < files->count; i++)
        named += labeled_is_held_out(files->paths.items[i]);
    texts->by_name = named > 0;
    texts->held_out_only = named == files->count;
    weft_status status = WEFT_OK;
    for (int held_out = 0; held_out < 2; held_out++) {
        for (size_t i = 0; i < files->count && status == WEFT_OK; i++)
            if ((texts->by_name && labeled_is_held_out(files->paths.items[i])) == held_out)
                status = labeled_parse_file(parser, files->paths.items[i], error);
        if (held_out == 0)
            texts->held_out = texts->count;
    }
    return status;
}

/* Without names: the texts in a permutation, the same in each run and evaluation, and the last tenth is held out. */
static weft_status labeled_split(struct labeled_texts *texts, struct error *error)
{
    if (texts->by_name || texts->count == 0)
        return WEFT_OK;
    struct labeled_text *ordered = malloc(texts->count * sizeof *ordered);
    if (!ordered)
        return error_memory(error, texts->count * sizeof *ordered, "a list of texts");
    for (size_t i = 0; i < texts->count; i++)
        ordered[permutation_at(STREAM_HELD_OUT, texts->count, i)] = texts->texts[i];
    free(texts->texts);
    texts->texts = ordered;
    texts->room = texts->count;
    texts->held_out = texts->count - (texts->count < 10 ? 1 : texts->count / 10);
    return WEFT_OK;
}

/* ---- classes ---- */

static int by_label(const void *one, const void *other)
{
    return strcmp(**(char **const *)one, **(char **const *)other);
}

/* Number the classes in the order of their labels. */
static weft_status labeled_sort_classes(struct labeled_texts *texts, struct error *error)
{
    const size_t count = texts->classes.count;
    char ***places = malloc((count + 1) * sizeof *places);
    int32_t *numbers = malloc((count + 1) * sizeof *numbers);
    weft_status status = WEFT_OK;
    if (places && numbers) {
        for (size_t i = 0; i < count; i++)
            places[i] = &texts->classes.items[i];
        if (count > 0)
            qsort(places, count, sizeof *places, by_label);
        for (size_t i = 0; i < count; i++)
            numbers[places[i] - texts->classes.items] = (int32_t)i;
        for (size_t i = 0; i < texts->count; i++)
            texts->texts[i].label = numbers[texts->texts[i].label];
        string_list_sort(&texts->classes);
    } else {
        status = error_memory(error, (count + 1) * sizeof *places, "a list of classes");
    }
    free(places);
    free(numbers);
    return status;
}

/* Every class must be in both splits. */
static weft_status labeled_check_classes(const struct labeled_texts *texts, const char *path, struct error *error)
{
    const size_t classes = texts->classes.count;
    if ((texts->held_out == 0 && !texts->held_out_only) || texts->held_out == texts->count)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %zu labeled %s to train on and %zu to hold out; both need some", path,
                         texts->held_out, texts->held_out == 1 ? "text" : "texts", texts->count - texts->held_out);
    if (classes < 2)
        return error_set(error, WEFT_ERROR_DATA,
                         "all texts of '%s' have the label '%s'; there must be two classes or more", path,
                         text_printable(texts->classes.items[0]));
    bool *seen = calloc(2 * classes, sizeof *seen);
    if (!seen)
        return error_memory(error, 2 * classes * sizeof *seen, "a list of classes");
    for (size_t i = 0; i < texts->count; i++)
        seen[2 * (size_t)texts->texts[i].label + (i >= texts->held_out)] = true;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < classes && status == WEFT_OK; i++)
        if ((!seen[2 * i] && !texts->held_out_only) || !seen[2 * i + 1])
            status = error_set(error, WEFT_ERROR_DATA, "the class '%s' of '%s' is missing among the texts %s; %s",
                               text_printable(texts->classes.items[i]), path,
                               seen[2 * i] ? "that are held out" : "to train on",
                               texts->by_name ? "give both splits texts of each class"
                                              : "add texts of it, or hold out a file called val yourself");
    free(seen);
    return status;
}

/* ---- opening ---- */

weft_status labeled_texts_open(const char *const *paths, size_t count, const struct bert_data_options *options,
                               struct labeled_texts *texts, struct error *error)
{
    struct labeled_parser parser = {.texts = texts, .options = options};
    struct text_files files;
    *texts = (struct labeled_texts){0};
    weft_status status = text_files_open(paths, count, true, &files, error);
    if (status != WEFT_OK)
        return status;
    status = encoder_open(options->tokenizer, &parser.encoder, error);
    if (status == WEFT_OK)
        status = labeled_read_files(&parser, &files, error);
    if (status == WEFT_OK)
        status = labeled_split(texts, error);
    if (status == WEFT_OK)
        status = labeled_sort_classes(texts, error);
    if (status == WEFT_OK)
        status = labeled_check_classes(texts, files.paths.items[0], error);
    encoder_close(parser.encoder);
    hash_index_free(&parser.labels, NULL);
    text_files_close(&files);
    if (status != WEFT_OK)
        labeled_texts_close(texts);
    return status;
}

void labeled_texts_close(struct labeled_texts *texts)
{
    token_list_free(&texts->tokens);
    free(texts->texts);
    string_list_free(&texts->classes);
    *texts = (struct labeled_texts){0};
}
