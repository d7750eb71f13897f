/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of tokenizers: small ones, made in place, and encoding as one step. */
#ifndef WEFT_TESTS_TOKENIZER_SUPPORT_H
#define WEFT_TESTS_TOKENIZER_SUPPORT_H

#include "temporary.h"
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/**
 * Write a tokenizer into `directory`: the 256 bytes in GPT-2's order, then `tokens` ("th", "\u0120the"; NULL at the end,
 * as written in the byte alphabet) from 256 on, and these merges.
 */
static inline void write_tokenizer(const char *directory, const char *const *tokens, const char *merges)
{
    char text[16384];
    uint8_t order[256], character[2];
    byte_alphabet_order(order);
    int used = 0;
    for (int i = 0; i < 256; i++) {
        int length = (int)byte_alphabet_write(&order[i], 1, character);
        const char *escape = order[i] == '"' || order[i] == '\\' ? "\\" : "";
        used += snprintf(text + used, sizeof text - (size_t)used, "%s\"%s%.*s\":%d", i ? "," : "{", escape, length,
                         (char *)character, i);
    }
    for (int i = 0; tokens[i]; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, ",\"%s\":%d", tokens[i], 256 + i);
    used += snprintf(text + used, sizeof text - (size_t)used, "}");
    temporary_file(directory, TOKENIZER_VOCABULARY, text, (size_t)used);
    temporary_file(directory, TOKENIZER_MERGES, merges, strlen(merges));
}

static inline struct tokenizer *must_open_tokenizer(const char *directory)
{
    struct error error = {0};
    struct tokenizer *tokenizer = NULL;
    if (tokenizer_open(directory, &tokenizer, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

/** The tokens of a text; free with token_list_free(). */
static inline struct token_list must_encode(const struct tokenizer *tokenizer, const void *text, size_t size)
{
    struct error error = {0};
    struct encoder *encoder;
    struct token_list list = {0};
    if (encoder_open(tokenizer, &encoder, &error) != WEFT_OK ||
        encoder_encode(encoder, text, size, &list, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    encoder_close(encoder);
    return list;
}

/** Decoding gives the same bytes back. */
static inline void must_decode(const struct tokenizer *tokenizer, const struct token_list *list, const void *text,
                               size_t size)
{
    size_t at = 0, length;
    for (size_t i = 0; i < list->count; i++) {
        const uint8_t *bytes = tokenizer_decode(tokenizer, list->tokens[i], &length);
        assert_true(length > 0 && length <= size - at);
        assert_memory_equal(bytes, (const char *)text + at, length);
        at += length;
    }
    assert_int_equal(at, size);
}

#endif
