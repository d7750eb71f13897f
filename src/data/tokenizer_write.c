/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "data/byte_alphabet.h"
#include "data/tokenizer_tables.h"
#include "data/utf8.h"

#include <stdio.h>
#include <stdlib.h>

/* A file in the making, in memory. */
struct page {
    FILE *stream;
    char *text;
    size_t size;
};

static weft_status page_open(struct page *page, struct error *error)
{
    *page = (struct page){0};
    page->stream = open_memstream(&page->text, &page->size);
    return page->stream ? WEFT_OK : error_system(error, "cannot open a stream in memory");
}

/* Write it to folder/name, and free it. */
static weft_status page_save(struct page *page, const char *folder, const char *name, struct error *error)
{
    char path[FILE_PATH_BYTES];
    bool refused = ferror(page->stream) | fclose(page->stream);
    weft_status status = refused ? error_memory(error, page->size, name) : file_join(path, folder, name, error);
    if (status == WEFT_OK)
        status = file_write(path, page->text, page->size, error);
    free(page->text);
    return status;
}

/* A token as JSON text in ASCII, as the released vocabulary has it. */
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

weft_status tokenizer_write(const struct tokenizer *tokenizer, const char *folder, struct error *error)
{
    struct page page;
    weft_status status = page_open(&page, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < tokenizer->tokens.count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&tokenizer->tokens, i, &size);
        fputs(i ? ", " : "{", page.stream);
        put_json(page.stream, bytes, size);
        fprintf(page.stream, ": %u", i);
    }
    fputs("}", page.stream);
    status = page_save(&page, folder, TOKENIZER_VOCABULARY, error);
    if (status == WEFT_OK)
        status = page_open(&page, error);
    if (status != WEFT_OK)
        return status;
    fputs("#version: 0.2\n", page.stream);
    for (uint32_t i = 0; i < tokenizer->merge_count; i++) {
        put_plain(page.stream, tokenizer, tokenizer->merges[i].left);
        fputc(' ', page.stream);
        put_plain(page.stream, tokenizer, tokenizer->merges[i].right);
        fputc('\n', page.stream);
    }
    return page_save(&page, folder, TOKENIZER_MERGES, error);
}
