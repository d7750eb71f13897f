/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file/file.h"
#include "base/sha256.h"
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/internal/tables.h"
#include "training/data/tokenizer/utf8.h"

#include <stdio.h>
#include <stdlib.h>

/* A token as JSON text in ASCII, as in the released vocabulary. */
static void put_json(FILE *stream, const uint8_t *bytes, size_t size)
{
    fputc('"', stream);
    for (size_t i = 0; i < size; i++) {
        uint32_t character = byte_alphabet_character(bytes[i]);
        if (character >= 0x80)
            fprintf(stream, "\\u%04x", character);
        else if (character == '"' || character == '\\')
            fprintf(stream, "\\%c", (char)character);
        else
            fputc((int)character, stream);
    }
    fputc('"', stream);
}

static void put_plain(FILE *stream, const struct tokenizer *tokenizer, uint32_t token)
{
    size_t size;
    const uint8_t *bytes = string_set_get(&tokenizer->tokens, token, &size);
    for (size_t i = 0; i < size; i++) {
        uint8_t text[2];
        fwrite(text, 1, utf8_write_short(byte_alphabet_character(bytes[i]), text), stream);
    }
}

static void put_vocabulary(FILE *stream, const struct tokenizer *tokenizer)
{
    for (uint32_t i = 0; i < tokenizer->tokens.count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&tokenizer->tokens, i, &size);
        fputs(i ? ", " : "{", stream);
        put_json(stream, bytes, size);
        fprintf(stream, ": %u", i);
    }
    fputs("}", stream);
}

static void put_merges(FILE *stream, const struct tokenizer *tokenizer)
{
    fputs("#version: 0.2\n", stream);
    for (uint32_t i = 0; i < tokenizer->merge_count; i++) {
        put_plain(stream, tokenizer, tokenizer->merges[i].left);
        fputc(' ', stream);
        put_plain(stream, tokenizer, tokenizer->merges[i].right);
        fputc('\n', stream);
    }
}

static weft_status format_file(const struct tokenizer *tokenizer, void (*put)(FILE *, const struct tokenizer *),
                               struct tokenizer_file *file, struct error *error)
{
    FILE *stream = open_memstream(&file->text, &file->size);
    if (!stream)
        return error_system(error, "cannot open a stream in memory");
    put(stream, tokenizer);
    bool refused = ferror(stream) | fclose(stream);
    return refused ? error_memory(error, file->size, file->path) : WEFT_OK;
}

weft_status tokenizer_format(const struct tokenizer *tokenizer, struct tokenizer_file files[TOKENIZER_FILES],
                             struct error *error)
{
    static void (*const puts[TOKENIZER_KINDS][TOKENIZER_FILES])(FILE *, const struct tokenizer *) = {
        [TOKENIZER_BYTE_PAIRS] = {put_vocabulary, put_merges},
        [TOKENIZER_WORDPIECE] = {wordpiece_put_vocabulary, wordpiece_put_config},
    };
    weft_status status = WEFT_OK;
    for (int i = 0; i < TOKENIZER_FILES; i++)
        files[i] = (struct tokenizer_file){.path = tokenizer_file_names[tokenizer->kind][i]};
    for (int i = 0; i < TOKENIZER_FILES && status == WEFT_OK; i++)
        status = format_file(tokenizer, puts[tokenizer->kind][i], &files[i], error);
    if (status != WEFT_OK)
        tokenizer_files_free(files);
    return status;
}

void tokenizer_files_free(struct tokenizer_file files[TOKENIZER_FILES])
{
    for (int i = 0; i < TOKENIZER_FILES; i++) {
        free(files[i].text);
        files[i].text = NULL;
    }
}

weft_status tokenizer_write(const struct tokenizer *tokenizer, const char *directory, struct error *error)
{
    char path[FILE_PATH_BYTES];
    struct tokenizer_file files[TOKENIZER_FILES];
    weft_status status = tokenizer_format(tokenizer, files, error);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < TOKENIZER_FILES && status == WEFT_OK; i++) {
        status = file_join(path, directory, files[i].path, error);
        if (status == WEFT_OK)
            status = file_write(path, files[i].text, files[i].size, error);
    }
    tokenizer_files_free(files);
    return status;
}

weft_status tokenizer_identify(const struct tokenizer *tokenizer, char identity[TOKENIZER_IDENTITY_BYTES],
                               struct error *error)
{
    struct tokenizer_file files[TOKENIZER_FILES];
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    weft_status status = tokenizer_format(tokenizer, files, error);
    if (status != WEFT_OK)
        return status;
    status = sha256_begin(&hash, error);
    if (status == WEFT_OK) {
        for (int i = 0; i < TOKENIZER_FILES; i++)
            sha256_update(&hash, files[i].text, files[i].size);
        status = sha256_end(&hash, digest, error);
    }
    tokenizer_files_free(files);
    if (status == WEFT_OK)
        sha256_text(digest, identity);
    return status;
}
