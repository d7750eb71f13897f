/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece's files, vocab.txt and tokenizer_config.json, which are untrusted input. */
#include "base/file/file.h"
#include "base/format/json.h"
#include "training/data/tokenizer/internal/tables.h"

#include <inttypes.h>
#include <string.h>

#define TOKEN_MOST 1024 /* bytes of a token; words are shorter */

/* Add the token of one line, which has no end. */
static weft_status wordpiece_add_line(struct tokenizer *tokenizer, const char *line, size_t length, const char *path,
                                      struct error *error)
{
    const unsigned number = tokenizer->tokens.count + 1;
    char bytes[TOKEN_MOST + 1] = " ", name[TOKENIZER_SHOWN_BYTES];
    if (length == 0)
        return error_set(error, WEFT_ERROR_DATA, "line %u of '%s' is empty, but each line must be a token", number,
                         path);
    if (length > TOKEN_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "line %u of '%s' has %zu bytes; is it a vocabulary? Its tokens have at most %d", number, path,
                         length, TOKEN_MOST);
    if (number > TOKENIZER_VOCABULARY_MOST)
        return error_set(error, WEFT_ERROR_DATA, "'%s' has more than %d tokens", path, TOKENIZER_VOCABULARY_MOST);
    const bool continues = length > 2 && memcmp(line, "##", 2) == 0;
    const size_t size = continues ? length - 2 : length + 1;
    memcpy(bytes + !continues, continues ? line + 2 : line, continues ? size : length);
    tokenizer_show(line, length, name);
    if (continues && bytes[0] == ' ')
        return error_set(error, WEFT_ERROR_DATA, "line %u of '%s', '%s', has a space after its ##; no word has spaces",
                         number, path, name);
    uint32_t earlier = tokenizer_find(tokenizer, bytes, size);
    if (earlier != TOKEN_NONE)
        return error_set(error, WEFT_ERROR_DATA, "the token '%s' is in '%s' twice: in line %u and in line %u", name,
                         path, earlier + 1, number);
    return tokenizer_add(tokenizer, bytes, size, error);
}

static weft_status wordpiece_parse_vocabulary(struct tokenizer *tokenizer, const struct tokenizer_file *file,
                                              struct error *error)
{
    weft_status status = WEFT_OK;
    for (const char *line = file->text, *end = line + file->size; line < end && status == WEFT_OK;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *next = newline ? newline : end;
        size_t length = (size_t)(next - line);
        while (length > 0 && line[length - 1] == '\r')
            length--;
        status = wordpiece_add_line(tokenizer, line, length, file->path, error);
        line = next + 1;
    }
    if (status != WEFT_OK)
        return status;
    enum tokenizer_special missing = tokenizer_find_specials(tokenizer);
    if (missing != TOKENIZER_SPECIALS)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' has %" PRIu32 " tokens, but no line is %s; a vocabulary of WordPiece has [PAD], [UNK], "
                         "[CLS], [SEP] and [MASK]",
                         file->path, tokenizer->tokens.count, tokenizer_special_names[missing]);
    return WEFT_OK;
}

/* Whether a token that is not in brackets has a letter A to Z. */
static bool wordpiece_has_capitals(const struct tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->tokens.count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&tokenizer->tokens, i, &size);
        bool in_brackets = size > 3 && bytes[1] == '[' && bytes[size - 1] == ']';
        for (size_t j = 0; j < size && !in_brackets; j++)
            if (bytes[j] >= 'A' && bytes[j] <= 'Z')
                return true;
    }
    return false;
}

/* A key that is true, false, null or absent; the last two leave `value` as it is. */
static weft_status wordpiece_read_flag(const cJSON *root, const char *key, const char *where, bool *value,
                                       struct error *error)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
    return item && !cJSON_IsNull(item) ? json_get_bool(root, key, where, value, error) : WEFT_OK;
}

static weft_status wordpiece_parse_config(struct tokenizer *tokenizer, const struct tokenizer_file *file,
                                          struct error *error)
{
    char where[FILE_PATH_BYTES + 2];
    struct wordpiece_rules *rules = &tokenizer->rules;
    bool splits = true;
    cJSON *root = NULL;
    weft_status status = WEFT_OK;
    rules->lower_case = !wordpiece_has_capitals(tokenizer);
    snprintf(where, sizeof where, "'%s'", file->path);
    if (file->text)
        status = json_parse(file->text, file->size, where, &root, error);
    if (status == WEFT_OK && root && !cJSON_IsObject(root))
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is not a JSON object", file->path);
    if (status == WEFT_OK)
        status = wordpiece_read_flag(root, "do_lower_case", where, &rules->lower_case, error);
    rules->strip_accents = rules->lower_case;
    if (status == WEFT_OK)
        status = wordpiece_read_flag(root, "strip_accents", where, &rules->strip_accents, error);
    if (status == WEFT_OK)
        status = wordpiece_read_flag(root, "tokenize_chinese_chars", where, &splits, error);
    if (status == WEFT_OK && !splits)
        status = error_set(error, WEFT_ERROR_DATA,
                           "'%s' has \"tokenize_chinese_chars\": false, but only tokenizers that split ideographs can "
                           "be used",
                           file->path);
    cJSON_Delete(root);
    return status;
}

weft_status wordpiece_parse(struct tokenizer *tokenizer, const struct tokenizer_file files[TOKENIZER_FILES],
                            struct error *error)
{
    weft_status status = wordpiece_parse_vocabulary(tokenizer, &files[0], error);
    return status == WEFT_OK ? wordpiece_parse_config(tokenizer, &files[1], error) : status;
}

void wordpiece_put_vocabulary(FILE *stream, const struct tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->tokens.count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&tokenizer->tokens, i, &size);
        const bool begins = bytes[0] == ' ';
        fputs(begins ? "" : "##", stream);
        fwrite(bytes + begins, 1, size - begins, stream);
        fputc('\n', stream);
    }
}

void wordpiece_put_config(FILE *stream, const struct tokenizer *tokenizer)
{
    fprintf(stream, "{\"do_lower_case\": %s, \"strip_accents\": %s, \"tokenizer_class\": \"BertTokenizer\"}\n",
            tokenizer->rules.lower_case ? "true" : "false", tokenizer->rules.strip_accents ? "true" : "false");
}
