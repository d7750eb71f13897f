/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/bert/internal/documents.h"
#include "base/file/file.h"
#include "training/data/text_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_OF_SENTENCES 256 /* bytes: files with longer lines on average have several sentences in a line */

/* A text being divided. */
struct document_parser {
    struct documents *documents;
    struct encoder *encoder;
    bool splits_lines;
};

/* ---- adding ---- */

/* Add a sentence to the document that is open. One without tokens is left out. */
static weft_status documents_add_sentence(const struct document_parser *parser, const uint8_t *text, size_t size,
                                          struct error *error)
{
    struct documents *documents = parser->documents;
    const size_t before = documents->tokens.count;
    weft_status status = ARRAY_RESERVE(documents->sentences, documents->sentence_room, documents->sentence_count + 1,
                                       "the sentences of a text", error);
    if (status == WEFT_OK)
        status = encoder_encode(parser->encoder, text, size, &documents->tokens, error);
    if (status == WEFT_OK && documents->tokens.count > before)
        documents->sentences[documents->sentence_count++] = documents->tokens.count;
    return status;
}

static uint64_t open_sentences(const struct documents *documents)
{
    return documents->sentence_count - documents_first_sentence(documents, documents->document_count);
}

/* A document ends here, if it is long enough. */
static weft_status documents_end_document(struct documents *documents, struct error *error)
{
    if (open_sentences(documents) < 2)
        return WEFT_OK;
    weft_status status = ARRAY_RESERVE(documents->documents, documents->document_room, documents->document_count + 1,
                                       "the documents of a text", error);
    if (status == WEFT_OK)
        documents->documents[documents->document_count++] = documents->sentence_count;
    return status;
}

/* The last sentence of a file alone belongs to the document before it, or is left out. */
static weft_status documents_end_file(struct documents *documents, size_t documents_before, struct error *error)
{
    weft_status status = documents_end_document(documents, error);
    if (status != WEFT_OK || open_sentences(documents) == 0)
        return status;
    if (documents->document_count > documents_before) {
        documents->documents[documents->document_count - 1] = documents->sentence_count;
    } else {
        documents->sentence_count--;
        documents->tokens.count = documents_first_token(documents, documents->sentence_count);
    }
    return WEFT_OK;
}

/* ---- dividing a text ---- */

static bool is_closing(uint8_t byte)
{
    return byte == '"' || byte == '\'' || byte == ')' || byte == ']';
}

/* Whether `text` begins with a capital letter or an opening quote. */
static bool begins_sentence(const uint8_t *text, size_t size)
{
    static const uint8_t curly[][3] = {{0xe2, 0x80, 0x98}, {0xe2, 0x80, 0x9c}};
    if (size == 0)
        return false;
    if (size >= 3 && (memcmp(text, curly[0], 3) == 0 || memcmp(text, curly[1], 3) == 0))
        return true;
    return (text[0] >= 'A' && text[0] <= 'Z') || text[0] == '"' || text[0] == '\'';
}

/* The bytes of the first sentence of a line. */
static size_t sentence_length(const uint8_t *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (line[i] != '.' && line[i] != '!' && line[i] != '?')
            continue;
        size_t end = i + 1;
        while (end < size && is_closing(line[end]))
            end++;
        size_t next = end;
        while (next < size && line[next] == ' ')
            next++;
        if (next > end && begins_sentence(line + next, size - next))
            return next;
    }
    return size;
}

static weft_status documents_add_line(const struct document_parser *parser, const uint8_t *line, size_t size,
                                      struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < size && status == WEFT_OK;) {
        const size_t length = parser->splits_lines ? sentence_length(line + at, size - at) : size - at;
        status = documents_add_sentence(parser, line + at, length, error);
        at += length;
    }
    return status;
}

/* The next line, without its end; *blank: it is whitespace. False at the end of the text. */
static bool take_line(const uint8_t **at, const uint8_t *end, const uint8_t **line, size_t *size, bool *blank)
{
    if (*at == end)
        return false;
    const uint8_t *newline = memchr(*at, '\n', (size_t)(end - *at)), *stop = newline ? newline : end;
    *line = *at;
    *size = (size_t)(stop - *at);
    *at = newline ? newline + 1 : end;
    *blank = true;
    for (size_t i = 0; i < *size && *blank; i++)
        *blank = isspace((*line)[i]);
    return true;
}

static bool has_long_lines(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *line;
    uint64_t lines = 0, bytes = 0;
    size_t size;
    for (bool blank; take_line(&at, end, &line, &size, &blank);) {
        lines += !blank;
        bytes += blank ? 0 : size;
    }
    return bytes > lines * LINE_OF_SENTENCES;
}

static weft_status documents_add_file(struct document_parser *parser, const char *path, struct error *error)
{
    struct documents *documents = parser->documents;
    const size_t before = documents->document_count;
    struct file_map map;
    weft_status status = file_map(path, &map, error);
    if (status != WEFT_OK)
        return status;
    const uint8_t *at = map.bytes, *end = map.bytes + map.size, *line;
    size_t size;
    parser->splits_lines = has_long_lines(at, end);
    for (bool blank; status == WEFT_OK && take_line(&at, end, &line, &size, &blank);)
        status = blank ? documents_end_document(documents, error) : documents_add_line(parser, line, size, error);
    if (status == WEFT_OK)
        status = documents_end_file(documents, before, error);
    file_unmap(&map);
    return status;
}

/* ---- opening ---- */

static weft_status documents_fill(struct document_parser *parser, const struct text_files *texts, struct error *error)
{
    struct documents *documents = parser->documents;
    const enum data_file_split by = data_files_split(&texts->paths);
    documents->by_name = by != DATA_FILES_UNNAMED;
    documents->held_out_only = by == DATA_FILES_HELD_OUT;
    for (int held_out = 0; held_out < 2; held_out++) {
        documents->held_out = held_out ? documents->document_count : 0;
        for (size_t i = 0; i < texts->count; i++) {
            const char *path = texts->paths.items[i];
            if (data_file_is_split_off(by, path) != held_out)
                continue;
            weft_status status = documents_add_file(parser, path, error);
            if (status != WEFT_OK)
                return status;
        }
    }
    if (!documents->by_name) {
        const size_t tenth = documents->document_count / 10, least = 2;
        const size_t taken = tenth > least ? tenth : least;
        documents->held_out -= documents->held_out < taken ? documents->held_out : taken;
    }
    return WEFT_OK;
}

static weft_status documents_check(const struct documents *documents, const char *path, struct error *error)
{
    const size_t train = documents->held_out, held_out = documents->document_count - train;
    if (documents->sentence_count == 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has no document of two sentences; sentences end at line ends, and documents at empty "
                         "lines",
                         path);
    const bool lacks_train = train < 2 && !documents->held_out_only;
    if (documents->by_name && (lacks_train || held_out < 2))
        return error_set(error, WEFT_ERROR_DATA,
                         "the files of '%s' to %s have %zu documents, but pairs with a random second sentence need 2; "
                         "separate documents by empty lines",
                         path, lacks_train ? "train on" : "hold out", lacks_train ? train : held_out);
    if (lacks_train)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %zu %s, but needs 4: pairs with a random second sentence take 2 to train on and 2 "
                         "to hold out; separate documents by empty lines",
                         path, documents->document_count, documents->document_count == 1 ? "document" : "documents");
    return WEFT_OK;
}

weft_status documents_open(const char *const *paths, size_t count, const struct tokenizer *tokenizer,
                           struct documents *documents, struct error *error)
{
    struct document_parser parser = {.documents = documents};
    struct text_files texts;
    *documents = (struct documents){0};
    weft_status status = text_files_open(paths, count, false, &texts, error);
    if (status != WEFT_OK)
        return status;
    status = encoder_open(tokenizer, &parser.encoder, error);
    if (status == WEFT_OK)
        status = documents_fill(&parser, &texts, error);
    if (status == WEFT_OK)
        status = documents_check(documents, texts.paths.items[0], error);
    encoder_close(parser.encoder);
    text_files_close(&texts);
    if (status != WEFT_OK)
        documents_close(documents);
    return status;
}

void documents_close(struct documents *documents)
{
    token_list_free(&documents->tokens);
    free(documents->sentences);
    free(documents->documents);
    *documents = (struct documents){0};
}
