/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tokenizer's directory, and vocab.json and merges.txt. They are untrusted input. */
#include "base/file/file.h"
#include "base/format/json.h"
#include "base/text.h"
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/internal/tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)64 << 20) /* bytes of either file */

static const char *const vocabulary_names[] = {TOKENIZER_VOCABULARY, "encoder.json"};
static const char *const merges_names[] = {TOKENIZER_MERGES, "vocab.bpe"};

const char *tokenizer_show(const void *text, size_t size, char buffer[TOKENIZER_SHOWN_BYTES])
{
    size_t length = size < TOKENIZER_SHOWN_BYTES - 1 ? size : TOKENIZER_SHOWN_BYTES - 1;
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    if (length < size) /* no character is cut in two */
        while (length > 0 && ((unsigned char)buffer[--length] & 0xc0) == 0x80)
            buffer[length] = '\0';
    return text_printable(buffer);
}

/* ---- vocab.json ---- */

/* The entries of the vocabulary in the order of their numbers. */
static weft_status sort_entries(const cJSON *root, const char *path, cJSON **sorted, size_t count, struct error *error)
{
    char name[TOKENIZER_SHOWN_BYTES];
    for (cJSON *entry = root->child; entry; entry = entry->next) {
        double number = entry->valuedouble;
        const char *token = tokenizer_show(entry->string, strlen(entry->string), name);
        if (!cJSON_IsNumber(entry) || !(number >= 0) || number != floor(number))
            return error_set(error, WEFT_ERROR_DATA,
                             "the token '%s' in '%s' has no number; each must have a whole number from 0 on", token,
                             path);
        if (number >= (double)count)
            return error_set(error, WEFT_ERROR_DATA,
                             "the token '%s' in '%s' has the number %.0f, but %zu tokens have the numbers 0 to %zu; "
                             "this one is wrong, or others are missing",
                             token, path, number, count, count - 1);
        cJSON **place = &sorted[(size_t)number];
        char other[TOKENIZER_SHOWN_BYTES];
        if (*place)
            return error_set(error, WEFT_ERROR_DATA, "the tokens '%s' and '%s' in '%s' both have the number %.0f",
                             tokenizer_show((*place)->string, strlen((*place)->string), other), token, path, number);
        *place = entry;
    }
    return WEFT_OK;
}

/* Add the tokens; their texts are turned into bytes in place. */
static weft_status tokenizer_add_entries(struct tokenizer *tokenizer, cJSON *const *sorted, size_t count,
                                         const char *path, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        uint8_t *text = (uint8_t *)sorted[i]->string;
        size_t length = strlen(sorted[i]->string);
        char name[TOKENIZER_SHOWN_BYTES];
        tokenizer_show(text, length, name);
        size_t size = byte_alphabet_read(text, length);
        if (size == SIZE_MAX || size == 0)
            return error_set(error, WEFT_ERROR_DATA,
                             "token %zu of '%s', '%s', is %s; is it the vocabulary of a byte-level tokenizer, as "
                             "GPT-2's is?",
                             i, path, name, size ? "not written in GPT-2's alphabet of bytes" : "empty");
        if (tokenizer_find(tokenizer, text, size) != TOKEN_NONE)
            return error_set(error, WEFT_ERROR_DATA, "the token '%s' is in '%s' twice", name, path);
        status = tokenizer_add(tokenizer, text, size, error);
    }
    return status;
}

static weft_status fill_vocabulary(struct tokenizer *tokenizer, const cJSON *root, const char *path,
                                   struct error *error)
{
    size_t count = 0;
    if (!cJSON_IsObject(root))
        return error_set(error, WEFT_ERROR_DATA, "'%s' is not a JSON object of tokens and their numbers", path);
    for (const cJSON *entry = root->child; entry; entry = entry->next)
        count++;
    if (count > TOKENIZER_VOCABULARY_MOST)
        return error_set(error, WEFT_ERROR_DATA, "'%s' has %zu tokens; at most %d can be used", path, count,
                         TOKENIZER_VOCABULARY_MOST);
    cJSON **sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted)
        return error_memory(error, (count + 1) * sizeof *sorted, "a vocabulary");
    weft_status status = sort_entries(root, path, sorted, count, error);
    if (status == WEFT_OK)
        status = tokenizer_add_entries(tokenizer, sorted, count, path, error);
    free(sorted);
    if (status != WEFT_OK)
        return status;
    int missing = tokenizer_find_bytes(tokenizer);
    if (missing >= 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %zu tokens, but none is the byte 0x%02x; without all 256 bytes not every text can "
                         "be encoded",
                         path, count, (unsigned)missing);
    return WEFT_OK;
}

static weft_status parse_vocabulary(struct tokenizer *tokenizer, const struct tokenizer_file *file, struct error *error)
{
    char where[FILE_PATH_BYTES + 2];
    cJSON *root;
    snprintf(where, sizeof where, "'%s'", file->path);
    weft_status status = json_parse(file->text, file->size, where, &root, error);
    if (status != WEFT_OK)
        return status;
    status = fill_vocabulary(tokenizer, root, file->path, error);
    cJSON_Delete(root);
    return status;
}

/* ---- merges.txt ---- */

/* One line, without its end. */
static weft_status parse_merge(struct tokenizer *tokenizer, uint8_t *line, size_t length, const char *path,
                               uint64_t number, struct error *error)
{
    uint8_t *space = memchr(line, ' ', length);
    size_t left_length = space ? (size_t)(space - line) : 0, right_length = space ? length - left_length - 1 : 0;
    char name[TOKENIZER_SHOWN_BYTES];
    if (left_length == 0 || right_length == 0 || memchr(space + 1, ' ', right_length))
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' is '%s', but should be two tokens with a space between them; is the "
                         "file truncated?",
                         number, path, tokenizer_show(line, length, name));
    /* Both parts are read to where the first begins, so that the merged token stands there in one piece. */
    char left_name[TOKENIZER_SHOWN_BYTES], right_name[TOKENIZER_SHOWN_BYTES];
    tokenizer_show(line, left_length, left_name);
    tokenizer_show(space + 1, right_length, right_name);
    size_t left_size = byte_alphabet_read(line, left_length), right_size = byte_alphabet_read(space + 1, right_length);
    uint32_t left = left_size == SIZE_MAX ? TOKEN_NONE : tokenizer_find(tokenizer, line, left_size);
    uint32_t right = right_size == SIZE_MAX ? TOKEN_NONE : tokenizer_find(tokenizer, space + 1, right_size);
    if (left == TOKEN_NONE || right == TOKEN_NONE)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' merges '%s' and '%s', but '%s' is not in the vocabulary; do "
                         "the two files belong together?",
                         number, path, left_name, right_name, left == TOKEN_NONE ? left_name : right_name);
    memmove(line + left_size, space + 1, right_size);
    uint32_t token = tokenizer_find(tokenizer, line, left_size + right_size);
    if (token == TOKEN_NONE)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' merges '%s' and '%s', but '%s%s' is not in the vocabulary; do "
                         "the two files belong together?",
                         number, path, left_name, right_name, left_name, right_name);
    uint32_t earlier = tokenizer_find_merge(tokenizer, left, right);
    if (earlier != TOKEN_NONE)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %" PRIu64 " of '%s' merges '%s' and '%s', as merge %" PRIu32 " before it does", number,
                         path, left_name, right_name, earlier + 1);
    return tokenizer_add_merge(tokenizer, left, right, token, error);
}

static weft_status parse_merges(struct tokenizer *tokenizer, const struct tokenizer_file *file, struct error *error)
{
    weft_status status = WEFT_OK;
    uint64_t number = 0;
    for (char *line = file->text, *end = line + file->size; line < end && status == WEFT_OK;) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline ? newline : end) - line);
        number++;
        if (number > 1 || length < 8 || memcmp(line, "#version", 8) != 0)
            status = parse_merge(tokenizer, (uint8_t *)line, length, file->path, number, error);
        line += length + 1;
    }
    return status;
}

weft_status tokenizer_parse(enum tokenizer_kind kind, struct tokenizer_file files[TOKENIZER_FILES],
                            struct tokenizer **tokenizer, struct error *error)
{
    struct tokenizer *opened;
    weft_status status = tokenizer_new(kind, &opened, error);
    if (status != WEFT_OK)
        return status;
    status = kind == TOKENIZER_WORDPIECE ? wordpiece_parse(opened, files, error)
                                         : parse_vocabulary(opened, &files[0], error);
    if (status == WEFT_OK && kind == TOKENIZER_BYTE_PAIRS)
        status = parse_merges(opened, &files[1], error);
    if (status != WEFT_OK) {
        tokenizer_close(opened);
        return status;
    }
    *tokenizer = opened;
    return WEFT_OK;
}

/* ---- the directory ---- */

/* The file of `directory` by one of its two names; if it is there by none, the first. */
static weft_status tokenizer_find_file(const char *directory, const char *const names[2], char path[FILE_PATH_BYTES],
                                       struct error *error)
{
    weft_status status = file_join(path, directory, names[1], error);
    if (status == WEFT_OK && file_exists(path))
        return WEFT_OK;
    return status == WEFT_OK ? file_join(path, directory, names[0], error) : status;
}

/* Which kind of vocabulary the directory has. */
static bool tokenizer_find_kind(const char *directory, enum tokenizer_kind *kind)
{
    char path[FILE_PATH_BYTES];
    *kind = TOKENIZER_BYTE_PAIRS;
    if (tokenizer_find_file(directory, vocabulary_names, path, NULL) == WEFT_OK && file_exists(path))
        return true;
    if (file_join(path, directory, TOKENIZER_WORDPIECES, NULL) != WEFT_OK || !file_exists(path))
        return false;
    *kind = TOKENIZER_WORDPIECE;
    return true;
}

bool tokenizer_is_in(const char *directory)
{
    enum tokenizer_kind kind;
    return tokenizer_find_kind(directory, &kind);
}

static weft_status tokenizer_find_files(const char *directory, enum tokenizer_kind kind,
                                        char vocabulary[FILE_PATH_BYTES], char other[FILE_PATH_BYTES],
                                        struct error *error)
{
    if (!file_is_directory(directory))
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' is not a directory; a tokenizer is a directory with %s and %s, or with %s", directory,
                         TOKENIZER_VOCABULARY, TOKENIZER_MERGES, TOKENIZER_WORDPIECES);
    if (kind == TOKENIZER_WORDPIECE) {
        weft_status status = file_join(vocabulary, directory, TOKENIZER_WORDPIECES, error);
        return status == WEFT_OK ? file_join(other, directory, TOKENIZER_CONFIG, error) : status;
    }
    weft_status status = tokenizer_find_file(directory, vocabulary_names, vocabulary, error);
    if (status == WEFT_OK)
        status = tokenizer_find_file(directory, merges_names, other, error);
    if (status != WEFT_OK)
        return status;
    bool has_vocabulary = file_exists(vocabulary), has_merges = file_exists(other);
    if (has_vocabulary && has_merges)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "the directory '%s' is not a tokenizer: it has no %s%s%s%s", directory,
                     has_vocabulary ? "" : "vocab.json (or encoder.json)",
                     has_vocabulary || has_merges ? "" : " and no ", has_merges ? "" : "merges.txt (or vocab.bpe)",
                     has_vocabulary ? "" : ", nor vocab.txt, as BERT's have");
}

weft_status tokenizer_open(const char *directory, struct tokenizer **tokenizer, struct error *error)
{
    char vocabulary[FILE_PATH_BYTES], other[FILE_PATH_BYTES];
    struct tokenizer_file files[TOKENIZER_FILES] = {{.path = vocabulary}, {.path = other}};
    enum tokenizer_kind kind;
    (void)tokenizer_find_kind(directory, &kind);
    weft_status status = tokenizer_find_files(directory, kind, vocabulary, other, error);
    for (int i = 0; i < TOKENIZER_FILES && status == WEFT_OK; i++)
        if (kind != TOKENIZER_WORDPIECE || i == 0 || file_exists(files[i].path))
            status = file_read(files[i].path, FILE_MOST, &files[i].text, &files[i].size, error);
    if (status == WEFT_OK)
        status = tokenizer_parse(kind, files, tokenizer, error);
    tokenizer_files_free(files);
    return status;
}
